#!/usr/bin/env python3
"""Goal: the page of published peaks says what its two files say, and errors are counted as it defines them. Method: the committed page made
again, and rows whose errors are known by arithmetic."""

import csv
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/publish"))
import operator_peaks  # noqa: E402
import peaks_spread  # noqa: E402
import published_peaks  # noqa: E402

FOLDER = ROOT / "results/published/2026-11-26-published-peaks"
MIB = 1 << 20


def row(name, measured_mib, predicted_mib, *, beside="", status="measured", low="", high="", fit="fits", which="C", source="description", others=None,
        kind="shown", reserved_mib=None, ranks=1):
    rows = {"set": which, "row": name, "ranks": str(ranks), "measured": str(measured_mib), "unit": "MiB", "kind": kind, "status": status}
    rows |= {"not_generated": "", "beside": str(beside), "beside_name": "FakeTensor" if beside else ""}
    found = {"source": source, "failure": "", "fit": fit, "predicted_bytes": str(predicted_mib * MIB), "low_bytes": low, "high_bytes": high}
    found |= {"reserved_bytes": str((reserved_mib or predicted_mib) * MIB), "live_bytes": str(predicted_mib * MIB)}
    found |= {"outside_low_bytes": str(400 * MIB), "outside_high_bytes": str(1800 * MIB)}
    return published_peaks.Row(rows, found, others)


FIELDS = {"set": "C", "row": "one", "measured": "77777", "unit": "MiB", "kind": "shown", "status": "measured", "ranks": "1", "device": "sim:a100-40",
          "pytorch": "2.11", "workload": "", "program": "", "not_generated": "", "beside_name": "", "beside": "88888"}


def write_rows(folder, *rows):
    with open(folder / "rows.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(FIELDS))
        writer.writeheader()
        writer.writerows({**FIELDS, **each} for each in rows)


def write_program(path, log):
    path.write_text(f'#!/bin/sh\necho "$@" >> {log}\nfor last; do :; done\ncat "$last" >> {log}\nexit 2\n')
    path.chmod(0o755)


class OperatorPeaks(unittest.TestCase):
    FOLDER = ROOT / "results/published/2026-11-27-operators"

    def test_the_pages_table_is_of_its_rows(self):
        self.assertIn(operator_peaks.table(self.FOLDER), (self.FOLDER / "README.md").read_text())

    def test_a_row_becomes_a_workload_or_none(self):
        mlp = {"B": 4, "hidden_size": 64, "intermediate_size": 128, "dtype": "torch.bfloat16"}
        self.assertEqual(operator_peaks.text_of("swiglu", "torch", 8, mlp),
                         "operator:gated_mlp,rows=32,hidden=64,ffn=128,by=torch,precision=bf16")
        self.assertIsNone(operator_peaks.text_of("cross_entropy", "liger", 8, {"B": 1, "T": 1}))
        self.assertIsNone(operator_peaks.text_of("tvd", "torch", 8, {}))
        self.assertIsNone(operator_peaks.text_of("swiglu", None, 8, mlp))


class PublishedPeaks(unittest.TestCase):
    def test_the_page_is_what_the_files_say(self):
        self.assertEqual(published_peaks.page(FOLDER), (FOLDER / "README.md").read_text())

    def test_the_pages_of_programs_on_a_card_count_their_runs(self):
        for page, names in (("litgpt", ("predicted", "mended")), ("torchtitan", ("predicted",))):
            folder = ROOT / f"results/published/2026-12-01-h200-{page}"
            measured, *made = ({(one["program"], one["config"]): one for one in published_peaks.read_rows(folder / f"{name}.csv")}
                               for name in ("measured", *names))
            self.assertEqual(set(made[0]), set(measured))
            for field, name in (("live_bytes", "live"), ("allocated_bytes", "allocated"), ("reserved_bytes", "reserved")):
                errors = [100 * (int(made[0][run][field]) / int(measured[run][field]) - 1) for run in measured]
                counts = [sum(one[run][field] == measured[run][field] for run in measured) for one in made]
                after = "".join(f" {count} \\|" for count in counts[1:])
                self.assertRegex((folder / "README.md").read_text(), rf"\| {name}, [^|]* \| {counts[0]} \| \{max(errors, key=abs):+.3f} % \|{after}\n")

    def test_a_prediction_does_not_read_what_was_measured(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            program = folder / "program"
            write_program(program, folder / "asked")
            write_rows(folder, {"workload": "train:gpt2-124m", "device": "sim:h100"})
            with unittest.mock.patch.object(published_peaks, "predict_row", wraps=published_peaks.predict_row) as asked_for:
                published_peaks.predict(str(program), folder, 1)
            self.assertEqual({"measured", "beside"} & set(asked_for.call_args.args[1]), set())
            asked = (folder / "asked").read_text()
            self.assertIn("train:gpt2-124m -d sim:h100 --pytorch 2.11", asked)
            self.assertNotIn("77777", asked + (folder / "predictions.csv").read_text())
            self.assertNotIn("88888", asked + (folder / "predictions.csv").read_text())

    def test_rows_of_other_sets_keep_their_predictions(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_program(folder / "program", folder / "asked")
            write_rows(folder, {"set": "A", "row": "one", "workload": "train:gpt2-124m"}, {"set": "B", "row": "two", "workload": "train:gpt2-355m"})
            published_peaks.predict(str(folder / "program"), folder, 1)
            (folder / "asked").write_text("")
            before = (folder / "predictions.csv").read_text()
            published_peaks.predict(str(folder / "program"), folder, 1, sets=["B"])
            self.assertNotIn("gpt2-124m", (folder / "asked").read_text())
            self.assertIn("gpt2-355m", (folder / "asked").read_text())
            self.assertEqual(before, (folder / "predictions.csv").read_text())

    def test_rows_with_one_program_and_card_share_a_recording_and_no_measured_value_reaches_the_recorder(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_program(folder / "python", folder / "asked")
            program = {"program": "vision_steps.py resnet18 --batch 8"}
            write_rows(folder, program, {**program, "row": "two"}, {**program, "row": "three", "device": "sim:l40s"}, {"workload": "train:gpt2-124m"})
            with self.assertRaises(SystemExit):
                published_peaks.record(folder / "python", "simcuda", folder, folder / "made", 1)
            asked = (folder / "asked").read_text()
            self.assertEqual(asked.count("vision_steps.py resnet18 --batch 8"), 2)
            self.assertIn("--card a100 ", asked)
            self.assertIn("--card l40s ", asked)
            self.assertNotIn("77777", asked)
            made = folder / "made" / published_peaks.recording_name({**FIELDS, **program})
            made.write_text("")
            (folder / "asked").write_text("")
            with self.assertRaises(SystemExit):
                published_peaks.record(folder / "python", "simcuda", folder, folder / "made", 1)
            self.assertNotIn("--card a100 ", (folder / "asked").read_text())

    def test_a_recording_is_estimated_where_there_is_one_and_else_the_description(self):
        asked = []

        def run(words, **_):
            asked.append(words[2])
            return unittest.mock.Mock(returncode=1, stderr="none")

        both = {**FIELDS, "workload": "train:gpt2-124m", "program": "language_steps.py gpt2-large --batch 4"}
        with tempfile.TemporaryDirectory() as name, unittest.mock.patch.object(published_peaks.subprocess, "run", run):
            folder = Path(name)
            published_peaks.predict_row("allocmark", both, folder)
            (folder / published_peaks.recording_name(both)).write_text("")
            published_peaks.predict_row("allocmark", both, folder)
        self.assertEqual(asked[0], "train:gpt2-124m")
        self.assertTrue(asked[1].endswith("a100-40-language_steps.py_gpt2-large_--batch_4.ops.csv.gz"), asked)

    def test_sources_and_other_estimators_are_counted_apart(self):
        rows = [row("a", 100, 90, which="A", source="program", others={"accelerate": 50 * MIB, "deepspeed": 300 * MIB}), row("b", 100, 104, which="A")]
        made = published_peaks.by_source(rows)
        self.assertIn("| a description | 1 | 4.0 % |", made)
        self.assertIn("| the program, run without a GPU | 1 | 10.0 % |", made)
        others = published_peaks.beside_others(rows)
        self.assertIn("| accelerate | A | 1 | 50.0 % | 0 of 1 | 10.0 % | 0 of 1 |", others)
        self.assertIn("| DeepSpeed | **all** | 1 | 200.0 % | 0 of 1 | 10.0 % | 0 of 1 |", others)

    def test_errors_are_of_the_measured_value_and_rows_that_ran_out_are_not_counted(self):
        rows = [row("a", 100, 90), row("b", 100, 104), row("c", 100, 130), row("d", 100, 500, status="ran_out")]
        self.assertEqual(published_peaks.absolute([one.error for one in published_peaks.held(rows)]), ["10.0 %", "14.7 %", "1 of 3"])
        self.assertIn("| C. GPUMemNet, timm | 4 | 3 | +4.0 % | 10.0 % | 14.7 % | 1 of 3 |", published_peaks.by_set(rows))

    def test_the_constant_is_the_median_of_what_one_set_is_missing_and_holds_for_the_other(self):
        rows = [row("a", 1000, 900, beside=500), row("b", 2000, 1800, beside=1000), row("c", 3000, 2800, beside=1000)]
        rows += [row("k", 1000, 700, which="K"), row("l", 1000, 900, which="L")]
        made = published_peaks.with_constant(rows)
        self.assertIn("| allocmark, set C, no constant | 0 | 10.0 % |", made)
        self.assertIn("| allocmark, set C, fitted to set C | +200 |", made)
        self.assertIn("| allocmark, set K, fitted to set C | +200 | 10.0 % |", made)
        self.assertIn("| FakeTensor, set C, its own, fitted | +1000 |", made)

    def test_a_row_is_covered_where_it_lies_between_both_bounds(self):
        inside, outside = (row("a", 100, 90, low=str(80 * MIB), high=str(high * MIB)) for high in (110, 95))
        self.assertIn("| C | 2 | 1 (50 %) |", published_peaks.covered([inside, outside]))

    def test_a_residual_of_what_is_shown_is_only_what_lies_beyond_the_range_outside(self):
        measured = {"within": 11000, "above": 12800, "below": 9400}
        found = {name: peaks_spread.residual(row(name, size, 10767, reserved_mib=10000)) for name, size in measured.items()}
        self.assertEqual(found, {"within": 0, "above": 0.1, "below": -0.1})
        self.assertAlmostEqual(peaks_spread.residual(row("reserved", 10500, 10000, kind="reserved")), 0.05)
        self.assertAlmostEqual(peaks_spread.residual(row("four", 45600, 43068, reserved_mib=10000, ranks=4)), 0)
        self.assertAlmostEqual(peaks_spread.residual(row("four", 51200, 43068, reserved_mib=10000, ranks=4)), 0.1)

    def test_sets_weigh_the_same_and_a_spread_is_rounded_outwards(self):
        many, one = [0.002] * 98 + [-0.5, 0.5], [-0.1, 0.101]
        self.assertEqual(peaks_spread.spread_of({"many": many, "one": one}, 0.9), (-10, 11))
        self.assertEqual(peaks_spread.spread_of({"many": many}, 0.9), (0, 1))

    def test_a_set_that_is_left_out_has_no_part_in_its_spread(self):
        rows = [row("a", 110, 100, which="A", kind="reserved", source="program"), row("c", 130, 100, which="C", kind="reserved", source="program")]
        rows += [row("g", 150, 100, which="G", kind="reserved")]
        self.assertEqual({name: spread for name, (_, spread) in peaks_spread.left_out("recording", rows).items()}, {"A": (30, 30), "C": (10, 10)})
        self.assertEqual({name: spread for name, (_, spread) in peaks_spread.left_out("description", rows).items()}, {"G": (10, 30)})

    def test_the_program_has_the_spreads_that_the_page_derives(self):
        rows = published_peaks.held(published_peaks.join(*(published_peaks.read_rows(FOLDER / name) for name in ("rows.csv", "predictions.csv"))))
        header = (ROOT / "harness/tools/estimate/estimate_print.h").read_text()
        for kind, name in (("recording", "kRecordedSpread"), ("description", "kDescribedSpread")):
            low, high = peaks_spread.spread_of(peaks_spread.by_set(peaks_spread.rows_for(kind, rows)))
            self.assertIn(f"{name} = {{.low = {low}, .high = {high}}}", header)

    def test_bounds_of_a_number_without_what_is_outside_are_percents_of_it(self):
        estimate = {"live_bytes": 900, "spread_percent": {"low": -7, "high": 26}}
        setting = {"allocated_bytes": 1000, "reserved_bytes": 2000, "shown_low_bytes": 1, "shown_high_bytes": 9}
        found = {kind: published_peaks.bounds(kind, estimate, setting) for kind in ("shown", "reserved", "allocated")}
        self.assertEqual(found, {"shown": (1, 9), "reserved": (1860, 2520), "allocated": (930, 1260)})

    def test_a_miss_without_a_reason_is_open(self):
        made = published_peaks.misses([row("vit", 100, 90, which="G"), row("other", 100, 120, which="L")], [{"set": "G", "row": "^vit", "reason": "known"}])
        self.assertIn("| -10.0 % | known |", made)
        self.assertIn("| +20.0 % | open |", made)
        self.assertNotIn("near", published_peaks.misses([row("near", 100, 104, which="G")], []))

    def test_a_row_that_the_constant_explains_is_counted_and_not_listed(self):
        rows = [row("a", 1000, 900), row("b", 4000, 3900), row("d", 500, 300), row("k", 1000, 900, which="K")]
        made = published_peaks.misses(rows, [])
        self.assertIn("2 more rows", made)
        self.assertNotIn("| K | k |", made)
        self.assertIn("| C | d |", made)
        self.assertNotIn("| C | a |", made)


if __name__ == "__main__":
    unittest.main()

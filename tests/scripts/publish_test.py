#!/usr/bin/env python3
"""The reports of published results: verdicts of claims, comparison with the simulated device, and pages from a small raw folder. The claims that ship are
read too: every check must name an operator, a field and cells that can be run."""

import json
import lzma
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "publish"))

import allocator_figures  # noqa: E402
import allocators  # noqa: E402
import contention  # noqa: E402
import folklore  # noqa: E402
import pools  # noqa: E402
import releases  # noqa: E402
import simulated  # noqa: E402
import text  # noqa: E402
import threads  # noqa: E402
from raw import PublishError, Raw  # noqa: E402

CLAIMS = ROOT / "results" / "published" / "claims.toml"


def cell(**values):
    base = {"kind": "cell", "cell_id": values.pop("id", "1"), "workload": "w", "allocator": "caching", "conf": "", "capacity": "unlimited", "seed": 0,
            "on_oom": "skip", "status": "ok", "oom_count": 0, "reserved_bytes_peak": 100, "device_bytes_peak": 100, "placement_hash": "a",
            "allocate_latency_ns_p50": 100.0, "allocate_latency_ns_p99": 1000.0, "deallocate_latency_ns_p50": 90.0,
            "deallocate_latency_ns_p99": 900.0, "program_ns": 1e6}
    return {**base, **values}


class Folder:
    """A raw folder with these cells by name."""

    def __init__(self, environments=None, **runs):
        self.folder = tempfile.TemporaryDirectory()
        raw = Path(self.folder.name) / "raw"
        raw.mkdir()
        for name, cells in runs.items():
            with lzma.open(raw / f"{name}.jsonl.xz", "wt") as file:
                for index, one in enumerate([{"kind": "environment", **(environments or {}).get(name, {})}, *cells]):
                    file.write(json.dumps({**one, "cell_id": str(index)}) + "\n")
        self.raw = Raw(self.folder.name)
        self.raw.owner = self  # the folder lives as long as what reads it


def check(**values):
    return {"when": "then", "left": {"workload": "w", "field": "oom_count"}, "op": "<", "right": 1, **values}


class Claims(unittest.TestCase):
    def evaluate(self, one, *cells):
        return folklore.evaluate(one, folklore.Cells(Folder(claims=cells).raw), {"good": True, "bad": False})[0]

    def test_a_check_compares_two_numbers(self):
        self.assertTrue(self.evaluate(check(), cell()))
        self.assertFalse(self.evaluate(check(), cell(oom_count=1)))
        other = check(right={"conf": "x:1"}, times=2)
        self.assertTrue(self.evaluate(other, cell(oom_count=3), cell(conf="x:1", oom_count=2)))
        self.assertFalse(self.evaluate(other, cell(oom_count=4), cell(conf="x:1", oom_count=2)))

    def test_the_right_side_takes_over_what_it_does_not_say(self):
        one = check(left={"workload": "w", "conf": "x:1", "capacity": "1.05x", "field": "oom_count"}, right={"conf": ""})
        left, right = folklore.sides(one)
        self.assertEqual(folklore.cell_query(right), ("w", "caching", "", "1.05x", "skip"))
        self.assertEqual(folklore.queries([{"check": [one]}]), [folklore.cell_query(left), folklore.cell_query(right)])

    def test_what_was_not_measured_decides_nothing(self):
        self.assertIsNone(self.evaluate(check(), cell(workload="another")))
        self.assertIsNone(self.evaluate(check(), cell(oom_count=None)))
        self.assertIsNone(self.evaluate(check(), cell(status="crashed")))
        self.assertEqual(folklore.verdict([("a", None)]), "not measured")
        self.assertEqual(folklore.verdict([("a", None), ("b", True)]), "**holds**")

    def test_counters_are_numbers_too(self):
        one = check(left={"workload": "w", "field": "counters/reserved_bytes.all.freed"}, op="==", right=7)
        self.assertTrue(self.evaluate(one, cell(counters={"reserved_bytes.all.freed": 7})))

    def test_config_strings_are_accepted_or_not(self):
        self.assertTrue(self.evaluate({"when": "x", "accepted": "good"}, cell()))
        self.assertFalse(self.evaluate({"when": "x", "accepted": "bad"}, cell()))

    def test_verdicts(self):
        self.assertEqual(folklore.verdict([("a", True), ("b", True)]), "**holds**")
        self.assertEqual(folklore.verdict([("a", False), ("b", False)]), "**does not hold**")
        self.assertEqual(folklore.verdict([("a", True), ("b", False)]), "**holds only when**: a")

    def test_the_claims_that_ship(self):
        claims = folklore.load_claims(CLAIMS)
        self.assertEqual([claim["id"] for claim in claims], [f"F{index}" for index in range(1, 25)])
        for claim in claims:
            self.assertTrue(claim["text"])
            self.assertNotEqual("untested" in claim, bool(claim.get("check")), claim["id"])
            for one in claim.get("check", []):
                self.assertTrue(one["when"], claim["id"])
                if "accepted" not in one:
                    self.assertIn(one["op"], folklore.OPERATORS)
                    self.assertIn("field", one["left"])
                    self.assertIn("right", one)


class Pools(unittest.TestCase):
    FOLDER = ROOT / "results" / "published" / "2026-11-26-h100-pools"

    def test_the_tables_are_made_from_their_rows(self):
        self.assertEqual(pools.page(self.FOLDER), (self.FOLDER / "tables.md").read_text())

    def test_what_was_predicted_is_what_the_card_held(self):
        programs = pools.Programs(self.FOLDER)
        predicted = json.loads((self.FOLDER / "predicted.json").read_text())
        self.assertEqual(len(predicted), 7)
        for entry in predicted:
            conf = {"unset": "", "expandable": "expandable_segments:True"}[entry["conf"]]
            captured = programs.marks(entry["program"], conf)["captured"]
            self.assertEqual(pools.of_pools(captured, "reserved"), entry["private_pools_reserved_bytes"], entry["program"])

    def test_the_rule_of_vllm(self):
        self.assertEqual(pools.vllm_estimate([[8, 10 << 20, 0, 1], [4, 0, 0, 1], [2, 5 << 20, 0, 1]]), 12 << 20)
        self.assertEqual(pools.vllm_estimate([[8, 10 << 20, 0, 1], [4, 3 << 20, 0, 1], [2, 0, 0, 1]]), 16 << 20)


class Comparison(unittest.TestCase):
    def test_cells_beyond_the_limits_are_bold_and_counted(self):
        real = [cell(conf="a:1"), cell(conf="b:1")]
        model = [cell(conf="a:1", allocate_latency_ns_p50=114.0), cell(conf="b:1", allocate_latency_ns_p50=116.0)]
        page = simulated.report(Folder(real=real, simulated=model).raw, None)
        self.assertIn("100 ns / 114 ns = 1.14 |", page)
        self.assertIn("**100 ns / 116 ns = 1.16**", page)
        self.assertIn("| **all** | 2 | 1.16 | 50 % |", page)

    def test_a_simulation_on_another_host_is_held_by_its_scaled_numbers(self):
        numbers = {"hostname_hash": "b", "host_reference_ns": 270.0, "profile_host_reference_ns": 372.0}
        model = cell(allocate_latency_ns_p50=70.0, **{f"{operation}_scaled_latency_ns_{percentile}": 104.0
                                                      for operation in ("allocate", "deallocate") for percentile in ("p50", "p99")})
        for host, shown in (("a", "100 ns / 104 ns = 1.04 |"), ("b", "**100 ns / 70 ns = 0.70**")):
            page = simulated.report(Folder({"real": {"hostname_hash": host}, "simulated": numbers}, real=[cell()], simulated=[model]).raw, None)
            self.assertIn(shown, page)
            self.assertEqual("takes 270 ns beside 372 ns" in page, host == "a")
        # A pass during which the GPU's host took twice as long counts half.
        loaded = cell(passes=[{"allocate_latency_histogram": [957, 5000], "host_reference_ns": 800.0}])
        page = simulated.report(Folder({"real": {"hostname_hash": "a", "host_reference_ns": 400.0}, "simulated": numbers}, real=[loaded],
                                       simulated=[{**model, "allocate_scaled_latency_ns_p50": 514.0}]).raw, None)
        self.assertIn("514 ns / 514 ns = 1.00 |", page)
        # The same of a second measurement on the GPU: both are scaled alike, or they would seem to differ.
        again = cell(passes=[{"allocate_latency_histogram": [957, 5000], "host_reference_ns": 800.0}])
        page = simulated.report(Folder({"real": {"hostname_hash": "a", "host_reference_ns": 400.0}, "simulated": numbers}, real=[loaded],
                                       simulated=[model], real_again=[again]).raw, None)
        self.assertIn("| `caching` | 1 | 1.00 | 100 % |", page.partition("measured again")[2])

    def test_references_of_two_kinds_scale_no_pass_of_the_card(self):
        passes = [{"allocate_latency_histogram": [bucket, 5000], "host_reference_ns": 800.0} for bucket in (957, 893)]
        model = cell(**{f"{operation}_scaled_latency_ns_{percentile}": 514.0
                        for operation in ("allocate", "deallocate") for percentile in ("p50", "p99")})
        for version, shown in (("1.10.0", "514 ns = 1.00 |"), ("1.9.0", "386 ns / 514 ns = 1.33**")):
            environments = {"real": {"hostname_hash": "a", "host_reference_ns": 400.0, "schema_version": "1.9.0"},
                            "simulated": {"hostname_hash": "b", "host_reference_ns": 270.0, "profile_host_reference_ns": 372.0,
                                          "schema_version": version}}
            page = simulated.report(Folder(environments, real=[cell(passes=passes)], simulated=[model]).raw, None)
            self.assertEqual("of an earlier kind" in page, version == "1.10.0")
            self.assertIn(shown, page)

    def test_exact_numbers_that_differ_are_listed(self):
        page = simulated.report(Folder(real=[cell()], simulated=[cell(oom_count=2)]).raw, None)
        self.assertIn("failed requests | 0 of 1", page)
        self.assertIn("failed requests 0 on the GPU, 2 simulated", page)
        self.assertIn("None.", simulated.report(Folder(real=[cell()], simulated=[cell()]).raw, None))

    def test_a_repeat_is_held_against_what_the_first_time_states(self):
        stated = {"allocate_latency_ns_p50_repeat_low": 90.0, "allocate_latency_ns_p50_repeat_high": 115.0}
        first = [cell(conf="a:1", **stated), cell(conf="b:1", **stated)]
        again = [cell(conf="a:1", allocate_latency_ns_p50=114.0), cell(conf="b:1", allocate_latency_ns_p50=116.0)]
        page = simulated.report(Folder(real=first, simulated=first, real_again=again).raw, None)
        self.assertIn("| allocate P50 | 2 | 50 % | 25 % |", page)  # measured again
        self.assertIn("| allocate P50 | 2 | 100 % | 25 % |", page)  # simulated
        self.assertIn("| free P50 | 0 | - | not stated |", page)

    def test_releases_are_compared_cell_by_cell(self):
        def at(version, **values):
            calls = {"cudaMalloc": 3, "cudaMemGetInfo": 5 if version == "2.13.0" else 1}
            return cell(id=version, allocator=f"torch@{version}", driver_calls=calls, reserved_bytes_peak=100 << 20, **values)

        page = releases.report(Folder(releases=[at("2.9.1"), at("2.12.1"), at("2.13.0", placement_hash="b", oom_count=2)]).raw, None)
        self.assertIn("| unset | unlimited | 100 a | 100 a | 100, 2 failed b |", page)
        self.assertIn("| 2.9.1 to 2.12.1 | 1 | 1 | 0 / 0 | 0 to 0 |", page)
        self.assertIn("| 2.12.1 to 2.13.0 | 1 | 0 | 0 / 0 | 0 to 2 |", page)
        self.assertIn("| `cudaMemGetInfo` | 1 | 1 | 5 |", page)
        self.assertNotIn("cudaMalloc`", page)

    def test_releases_on_a_gpu_are_held_against_the_simulation_which_counts_calls(self):
        def at(version, **values):
            return cell(id=version, allocator=f"torch@{version}", **{"driver_calls": {}, **values})

        real = [at("2.12.1"), at("2.13.0", placement_hash="c")]
        page = releases.report(Folder(releases=real, releases_simulated=[at("2.12.1", driver_calls={"cudaMalloc": 3}),
                                                                         at("2.13.0", driver_calls={"cudaMalloc": 5})]).raw, None)
        self.assertIn("| failed requests | 2 of 2 |", page)
        self.assertIn("| place of every block | 1 of 2 |", page)
        self.assertIn("| `w` | unset | unlimited | 2.13.0 |", page)
        self.assertIn("| `cudaMalloc` | 3 | 5 |", page)
        self.assertNotIn("against its simulation", releases.report(Folder(releases=real).raw, None))

    def test_threads_are_held_against_one_thread(self):
        def row(count, calls):
            latency = {"p50_ns": 100.0, "p99_ns": 2000.0, "max_ns": 3e6}
            return {"thread_count": count, "calls_per_s": calls, "allocate_latency": latency, "deallocate_latency": latency, "off_cpu_share": 0.5,
                    "slowest_over_fastest": 1.25, "reserved_bytes_end_low": 1 << 20, "reserved_bytes_end_high": count << 20}

        raw = Folder(real=[cell()]).raw
        (raw.folder / "raw" / "threads.json").write_text(json.dumps({"caching": {"rows": [row(1, 2e6), row(8, 1e6)]}, "rmm": {"rows": [row(8, 3e6)]}}))
        page = threads.report(raw, None)
        self.assertIn("| `caching` | 2.00 (1.00) | 1.00 (0.50) |", page)
        self.assertIn("| `rmm` | - | 3.00 (-) |", page)
        self.assertIn("| `caching` | 8 | 100 ns | 2 us | 3 ms | 100 ns | 2 us | 50 % | 1.25 | 1.00 MiB to 8.00 MiB |", page)
        (raw.folder / "raw" / "threads.json").write_text("[]")
        with self.assertRaisesRegex(PublishError, "threads.json: wanted the answer"):
            threads.read(raw)

    def test_rounds_in_turns_give_a_ratio_with_an_interval(self):
        def line(number, side, value):
            own = {field: value for _, field in releases.TIMED}
            return {"kind": "round", "round": number, "side": side, "cell": cell(id=str(side), allocator="torch@2.9.1", driver_calls={}, **own)}

        lines = [line(number, side, value) for number, values in enumerate(((100, 140), (200, 290), (100, 150))) for side, value in enumerate(values)]
        folder = Folder(releases=[cell(allocator="torch@2.9.1", driver_calls={})], **{"turns_2.12.1_2.13.0": lines})
        page = releases.report(folder.raw, None)
        mean, (low, high) = releases.ratio_interval([100, 200, 100], [140, 290, 150])
        self.assertAlmostEqual(mean, 1.4494, places=4)  # the cube root of 1.4 * 1.45 * 1.5
        self.assertAlmostEqual(low, 1.3303, places=3)  # a half width of 4.303 * 0.03451 / sqrt(3) in logarithms
        self.assertAlmostEqual(high, 1.5791, places=3)
        self.assertIn(f"100 to 150 ns: **1.45** ({low:.2f} to {high:.2f})", page)

    def test_contention_is_the_ratio_to_alone(self):
        together = [cell(seed=1, allocate_latency_ns_p50=300.0), cell(seed=2, allocate_latency_ns_p50=200.0, placement_hash="b")]
        page = contention.report(Folder(together_1=[cell(seed=1)], together_2=together).raw, None)
        self.assertIn("| 2 | 250 ns (2.50) |", page)
        self.assertIn("differ", page)
        self.assertIn("Not measured here", page)


class Allocators(unittest.TestCase):
    """Two programs, two settings, two limits; what `allocmark report` derives is given."""

    def setUp(self):
        numbers = {"event_count": 9, "allocate_count": 4, "requested_bytes_peak": 90 << 20, "packed_bytes": 90 << 20, "step_ns_p50": 5e6,
                   "device_allocate_count": 3, "device_free_count": 1}
        cells = [cell(workload=workload, conf=conf, capacity=capacity, oom_count=count, **numbers)
                 for workload in ("one", "two,batch=2") for conf in ("", "x:1")
                 for capacity, count in (("unlimited", 0), ("1.05x", 2 if conf else 0))]
        regrets = {str(index): {"regret_share": 0.5 if index % 4 == 3 else 0.25} for index in range(1, len(cells) + 1)}
        self.raw = Folder({"allocators_training": {"gpu_name": "A card"}}, allocators_training=cells, allocators_sweep=cells).raw
        allocators.reported, self.kept = lambda *_: json.dumps({"derived": regrets, "tails": {}}), allocators.reported

    def tearDown(self):
        allocators.reported = self.kept

    def study(self):
        return allocators.Study(self.raw, None, ["allocators_training"])

    def test_rows_stand_by_their_median_regret(self):
        study = self.study()
        self.assertEqual(study.settings, [("caching", ""), ("caching", "x:1")])
        self.assertEqual(study.limits, ["unlimited", "1.05x"])
        self.assertIn("| `caching` `x:1` | 50.0 % | 50.0 % | 50.0 % |", allocators.by_workload(study, "unlimited", "regret_share", allocators.percent,
                                                                                                ("median", max)))
        table, limits = allocators.failures(study)
        self.assertEqual(limits, "1.05x")
        self.assertIn("| `caching` `x:1` | 2 | 2 | 0 |", table)
        self.assertIn("| `caching` | 4 | 4 |", allocators.by_workload(study, "unlimited", "calls", allocators.number))

    def test_a_release_of_a_recording_is_dropped_but_of_another_allocator_kept(self):
        self.assertEqual(allocators.setting_of({"allocator": "caching@2.11", "conf": ""}), ("caching", ""))
        self.assertEqual(allocators.setting_of({"allocator": "rmm@26.06", "conf": ""}), ("rmm@26.06", ""))

    def test_settings_that_fail_alike_share_a_line(self):
        chart = allocator_figures.failures_chart(allocators.Study(self.raw, None, ["allocators_sweep"]), "one")
        self.assertEqual(chart.count("<polyline"), 2)
        self.assertIn("Failed requests against memory", chart)
        self.assertEqual(allocator_figures.utilisation(self.study()).count("one: 80.0%"), 1)

    def test_the_life_of_blocks_and_their_places(self):
        trace = "# name: t\nop,id,size,stream\nmark,begin,0,0\nalloc,1,10,0\nmark,step1,0,0\nalloc,2,20,0\nfree,1,0,0\nmark,end,0,0\n"
        blocks, begin, end = allocator_figures.lifetimes(trace, "step1")
        self.assertEqual((blocks, begin, end), ([(0, 10, 0, 2), (1, 20, 1, 3)], 1, 3))
        found = allocator_figures.places("c total=1\ng 0 1000 32 1 0\na 0 0\na oom\na 0 10\n")
        self.assertEqual(found, [0x1000, None, 0x1010])
        self.assertEqual(allocator_figures.pressed([(90, 100), (10, 20), (15, 40)]), [(10, 40, 0), (90, 100, 30)])


class Input(unittest.TestCase):
    def test_a_folder_without_results_is_named(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(PublishError, "measure first"):
            Raw(folder)

    def test_a_broken_line_is_named(self):
        folder = Folder(real=[cell()])
        with lzma.open(Path(folder.folder.name) / "raw" / "real.jsonl.xz", "at") as file:
            file.write("{broken\n")
        with self.assertRaisesRegex(PublishError, "real.jsonl.xz, line 3"):
            folder.raw.cells("real")

    def test_numbers_have_units(self):
        self.assertEqual([text.time(value) for value in (None, 99.94, 1000, 54_300, 7.5e6, 2e9)],
                         ["-", "99.9 ns", "1 us", "54.3 us", "7.5 ms", "2 s"])
        self.assertEqual(text.size(3 << 29), "1.50 GiB")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""reproduce, as a person calls it: honest and forged bundles, cells that cannot be run here, and what is no bundle."""
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
PUBLISHED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "results", "published")
WORKLOAD = "train:gpt2-124m,batch=2,seq=256,steps=2"


def call(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


class Reproduce(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.shared.cleanup)
        cls.run_folder = os.path.join(cls.shared.name, "run")
        code, _, error = call("run", "-w", WORKLOAD, "--allocator", "caching", "async", "bfc@tf2.21", "--passes", "2",
                              "--device", "sim:h200", "--no-html", "--out", cls.run_folder)
        assert code == 0, error
        cls.bundle = os.path.join(cls.shared.name, "b.tar")
        call("bundle", cls.run_folder, "--out", cls.bundle)

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def reproduce(self, path, *words):
        code, text, error = call("reproduce", path, "--format", "json", *words)
        return code, json.loads(text) if text else None, error

    def changed(self, change, name="run"):
        """A copy of the run whose lines were changed: (head, cells) -> lines."""
        folder = self.path(name)
        shutil.copytree(self.run_folder, folder)
        results = os.path.join(folder, "results.jsonl")
        with open(results, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        with open(results, "w", encoding="utf-8") as file:
            for line in change(lines[0], lines[1:]):
                file.write(json.dumps(line) + "\n")
        return folder

    def with_ids(self, folder):
        """The run with the ids that its cells' keys have now: they are what a reader asks for."""
        results = os.path.join(folder, "results.jsonl")
        for _ in range(10):
            _, _, error = call("reproduce", folder)
            wanted = re.search(r'wanted ([0-9a-f]{16}); got "([0-9a-f]{16})"', error)
            line = re.search(r"results.jsonl:(\d+)", error)
            if not wanted:
                break
            with open(results, encoding="utf-8") as file:
                lines = file.read().splitlines()
            lines[int(line[1]) - 1] = lines[int(line[1]) - 1].replace(wanted[2], wanted[1])
            with open(results, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
        return folder

    def test_a_run_of_a_card_is_held_to_the_simulated_one(self):
        """Cells of an H200: what the program and the allocator decide is equal on simcuda, and a forged number is not."""
        raw = os.path.join(PUBLISHED, "2026-11-27-h200-allocators", "raw", "allocators_varied.jsonl.xz")
        with lzma.open(raw, "rt") as file:
            head, *cells = file.read().splitlines()
        wanted = [one for one in cells if json.loads(one)["workload"] == "dit_b4_fp32"
                  and (json.loads(one)["allocator"], json.loads(one)["capacity"]) in (("caching@2.11", "1.05x"), ("bfc@tf2.21", "unlimited"))]
        path = self.path("results.jsonl")

        def write(lines):
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")

        write([head, *wanted])
        code, answer, error = self.reproduce(path, "--on", "sim:h200")
        self.assertEqual(code, 0, error)
        self.assertEqual((answer["agree_count"], answer["timed_count"]), (len(wanted), 0))
        self.assertIn("placement_hash", answer["cells"][0]["exact_agree"])
        self.assertIn("it ran on cuda:0, and runs on sim:h200 here", " ".join(answer["notes"]))
        # What one of the two cannot tell is not compared.
        self.assertNotIn("unimplemented_call_count", answer["cells"][0]["exact_agree"])
        write([head, *(re.sub(r'"oom_count":(\d+)', lambda found: f'"oom_count":{int(found[1]) + 1}', one, count=1) for one in wanted)])
        code, answer, error = self.reproduce(path, "--on", "sim:h200")
        self.assertEqual((code, answer["differ_count"]), (1, len(wanted)), error)
        code, _, error = self.reproduce(path, "--on", "sim:no-such-card")
        self.assertNotEqual(code, 0)

    def test_without_its_gpu_the_next_step_is_named(self):
        if shutil.which("nvidia-smi"):
            self.skipTest("a GPU may be here")
        raw = os.path.join(PUBLISHED, "2026-11-27-h200-allocators", "raw", "allocators_generated.jsonl.xz")
        with lzma.open(raw, "rt") as file, open(self.path("results.jsonl"), "w", encoding="utf-8") as out:
            out.writelines(file.readlines()[:2])
        code, answer, error = self.reproduce(self.path("results.jsonl"))
        self.assertEqual((code, answer["not_run_count"]), (3, 1), error)
        self.assertIn("--on sim:h200", answer["cells"][0]["reason"])

    def test_honest_bundle_agrees(self):
        code, answer, error = self.reproduce(self.bundle)
        self.assertEqual(code, 0, error)
        self.assertEqual((answer["agree_count"], answer["differ_count"], answer["not_run_count"]), (3, 0, 0))
        for cell in answer["cells"]:
            self.assertEqual(cell["exact_differ"], [])
            for number in ("reserved_bytes_peak", "placement_hash", "oom_count", "modelled_driver_ns_total"):
                self.assertIn(number, cell["exact_agree"])
            self.assertEqual({number["inside"] for number in cell["timed"]} - {True, False}, set())
        self.assertGreater(answer["timed_count"], 0)
        code, text, _ = call("reproduce", self.bundle)
        self.assertEqual(code, 0)
        self.assertIn("3 of 3 cells agree in every exact number, 0 differ, 0 were not run", text)

    def test_unpacked_bundle_folder_and_file_agree(self):
        with tarfile.open(self.bundle) as archive:
            archive.extractall(self.folder.name)  # our own; Debian 12 has no filters
        for path in (self.path("allocmark-bundle"), self.run_folder, os.path.join(self.run_folder, "results.jsonl")):
            code, answer, error = self.reproduce(path)
            self.assertEqual((code, answer["agree_count"]), (0, 3), error)

    def test_forged_number_is_named(self):
        def forge(head, cells):
            cells[1]["reserved_bytes_peak"] -= 2097152
            return [head, *cells]

        folder = self.changed(forge)
        code, answer, error = self.reproduce(folder)
        self.assertEqual(code, 1, error)
        self.assertEqual((answer["agree_count"], answer["differ_count"]), (2, 1))
        cell = next(cell for cell in answer["cells"] if cell["verdict"] == "differs")
        self.assertEqual([number["number"] for number in cell["exact_differ"]], ["reserved_bytes_peak"])
        number = cell["exact_differ"][0]
        self.assertEqual(int(number["here"]) - int(number["published"]), 2097152)
        code, text, _ = call("reproduce", folder)
        self.assertIn("reserved_bytes_peak: published", text)

    def test_time_outside_its_interval_is_said_and_fails_nothing(self):
        def forge(head, cells):
            for cell in cells:
                for end in ("low", "high"):
                    cell[f"allocate_latency_ns_p50_repeat_{end}"] = 1e12 + (end == "high")
            return [head, *cells]

        code, answer, error = self.reproduce(self.changed(forge))
        self.assertEqual(code, 0, error)
        outside = [number["number"] for cell in answer["cells"] for number in cell["timed"] if not number["inside"]]
        self.assertEqual(outside.count("allocate_latency_ns_p50"), 3)

    def test_cells_that_cannot_be_run_here_are_said_and_others_kept(self):
        def other(head, cells):
            return [head, *cells, dict(cells[0], allocator="torch@9.9.9")]

        code, answer, error = self.reproduce(self.with_ids(self.changed(other)))
        self.assertEqual(code, 3, error)
        self.assertEqual((answer["agree_count"], answer["not_run_count"]), (3, 1))
        self.assertIn("there is no allocator 'torch@9.9.9'", answer["cells"][-1]["reason"])

    def test_card_that_is_not_here(self):
        def card(head, cells):
            head["device"] = "cuda:97"
            for cell in cells:
                cell["device"] = "cuda:97"
            return [head, *cells]

        code, answer, error = self.reproduce(self.with_ids(self.changed(card)))
        self.assertEqual((code, answer["not_run_count"]), (3, 3), error)
        self.assertIn("cuda:97 does not work here", answer["cells"][0]["reason"])

    def test_trace_files_are_opened_for_who_trusts_them_alone(self):
        trace = self.path("t.csv")
        code, _, error = call("trace", "generate", WORKLOAD, trace)
        self.assertEqual(code, 0, error)
        run = self.path("own")
        code, _, error = call("run", "-w", "file:" + trace, "--allocator", "caching", "--passes", "1", "--device",
                              "sim:h200", "--no-html", "--out", run)
        self.assertEqual(code, 0, error)
        code, answer, _ = self.reproduce(run)
        self.assertEqual((code, answer["not_run_count"]), (3, 1))
        self.assertIn("--trust", answer["cells"][0]["reason"])
        code, answer, error = self.reproduce(run, "--trust")
        self.assertEqual((code, answer["agree_count"]), (0, 1), error)

    def test_cut_files(self):
        folder = self.changed(lambda head, cells: [head, *cells])
        results = os.path.join(folder, "results.jsonl")
        os.truncate(results, os.path.getsize(results) - 100)
        code, answer, error = self.reproduce(folder)
        self.assertEqual((code, answer["agree_count"]), (3, 2), error)
        self.assertIn("cut short", " ".join(answer["notes"]))
        cut = self.path("cut.tar")
        shutil.copy(self.bundle, cut)
        os.truncate(cut, os.path.getsize(cut) // 2)
        code, _, error = call("reproduce", cut)
        self.assertEqual(code, 2)
        self.assertIn("the bundle is damaged", error)

    def test_what_is_no_bundle(self):
        def newer(head, cells):
            head["schema_version"] = "9.0.0"
            return [head, *cells]

        code, _, error = call("reproduce", self.changed(newer))
        self.assertEqual(code, 2)
        self.assertIn("9.0.0", error)
        code, _, error = call("reproduce", self.path("none.tar.zst"))
        self.assertEqual(code, 6)
        empty = self.path("empty")
        os.mkdir(empty)
        code, _, error = call("reproduce", empty)
        self.assertEqual(code, 2)
        self.assertIn("there are no results in it", error)

    def test_run_of_here_can_be_kept(self):
        kept = self.path("kept")
        code, _, error = self.reproduce(self.bundle, "--out", kept)
        self.assertEqual(code, 0, error)
        with open(os.path.join(kept, "results.jsonl"), encoding="utf-8") as file:
            self.assertEqual(sum(1 for _ in file), 4)
        code, _, error = call("reproduce", self.bundle, "--out", kept)
        self.assertNotEqual(code, 0)


if __name__ == "__main__":
    unittest.main()

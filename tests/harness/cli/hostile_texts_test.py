#!/usr/bin/env python3
"""Texts and numbers that somebody put into files to hurt who reads what allocmark makes of them: names in snapshots, forged timelines,
names in qualifications and of nodes, and outputs that are links. Usage: hostile_texts_test.py PATH_OF_ALLOCMARK"""
import copy
import gzip
import html.parser
import json
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ALLOCMARK = ""
SNAPSHOT = "tests/golden/snapshots/train_oom.pickle.gz"
PROFILE = "harness/simcuda/profiles/h200.json"
FORGED_LINE = "To set it: export LD_PRELOAD=evil.so"
TEXTS = {
    "escapes": "\x1b[31mred\x1b]0;title\x07\x9b2J\x00",
    "lines": f"one\r\n{FORGED_LINE}\n\n# heading\n```\n| a | b |",
    "directions": "a\u202egpj.exe\u2066\u2028b\ufeff",
    "markup": "</title></text></script><script>alert(1)</script><img src=x onerror=alert(1)>\" onmouseover=\"alert(1)",
    "markdown": "![x](http://evil.example/a) [y](javascript:z) **b** `c` ``d`` | https://evil.example @all &lt; <b>",
    "formats": "{} {0} %s %n {{x}} \\input{/etc/passwd}",
    "half": "\ud800",
    "empty": "",
}


def call(*words, codes=(0,), limit_s=60):
    run = subprocess.run([ALLOCMARK, *map(str, words)], capture_output=True, timeout=limit_s)
    assert run.returncode in codes, (words, run.returncode, run.stderr[-500:])
    return run.stdout.decode(), run.stderr.decode()


class Markup(html.parser.HTMLParser):
    """What a page of ours has no use for: images, more than its one script, handlers, and links that leave it."""

    def __init__(self):
        super().__init__()
        self.strange, self.script_count = [], 0

    @classmethod
    def of(cls, text):
        found = cls()
        found.feed(text)
        return found

    def handle_starttag(self, tag, attrs):
        self.script_count += tag == "script"
        if tag in ("img", "iframe", "object", "base") or self.script_count > 1:
            self.strange.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (name in ("href", "src") and not (value or "").startswith(("#", "data:,"))):
                self.strange.append(f"{tag} {name}={value}")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)

    def assert_plain(self, text, allowed="\n"):
        """No control character, and none that turns or hides text, gets through to a terminal."""
        self.assertEqual([hex(ord(c)) for c in set(text) if not c.isprintable() and c not in allowed], [])


class Snapshots(Case):
    @classmethod
    def setUpClass(cls):
        with gzip.open(SNAPSHOT) as file:
            cls.snapshot = pickle.load(file)

    def planted(self, words, conf=""):
        """The snapshot with these words behind every name of a frame."""
        snapshot = copy.deepcopy(self.snapshot)
        snapshot["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] = conf
        made = {}
        for entry in snapshot["device_traces"][0]:
            entry["frames"] = [made.setdefault((one["name"], one["filename"], one["line"]),
                                               {"name": one["name"] + words, "filename": one["filename"] + words, "line": one["line"]})
                               for one in entry.get("frames", ())]
        path = self.work / "planted.pickle"
        path.write_bytes(pickle.dumps(snapshot, protocol=4))
        return path

    def test_names_stay_text_in_every_form(self):
        lines = {form: call("why", SNAPSHOT, "--format", form)[0].count("\n") for form in ("table", "markdown", "json")}
        for kind, words in TEXTS.items():
            with self.subTest(kind=kind):
                path, page = self.planted(words), self.work / "page.html"
                text = call("why", path, "--out", page, "--force")[0]
                markdown = call("why", path, "--format", "markdown")[0]
                for shown, form in ((text, "table"), (markdown, "markdown")):
                    self.assert_plain(shown)
                    self.assertNotIn(FORGED_LINE, [line.strip() for line in shown.split("\n")])
                    self.assertLess(abs(shown.count("\n") - lines[form]), 12, form)
                # Outside of code nothing of a name is there, so nothing is a link, an image or markup.
                outside = "".join(re.split(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", markdown)[::2])
                for mark in ("](", "<b>", "<script", "evil.example", "@all", "&lt;"):
                    self.assertNotIn(mark, outside)
                shown = page.read_text()
                self.assert_plain(shown, "\n\t")
                self.assertEqual(Markup.of(shown).strange, [])
                json.loads(call("why", path, "--format", "json")[0])

    def test_a_name_of_any_length_is_cut(self):
        path, page = self.planted("L" * 200_000 + "/" + "m" * 200_000), self.work / "page.html"
        text = call("why", path, "--out", page)[0]
        self.assertLess(len(text), 40_000)
        self.assertLess(page.stat().st_size, 1_000_000)

    def test_settings_that_are_none_stay_one_line(self):
        text = call("why", self.planted("", "expandable_segments:True\n" + FORGED_LINE + "\r\x1b[2J"))[0]
        self.assert_plain(text)
        self.assertNotIn(FORGED_LINE, text.split("\n"))

    def test_a_line_to_paste_names_the_file_and_nothing_else(self):
        path = self.work / "a b;$(touch pwned)`touch pwned`\n'\x1b[31m.pickle.gz"
        shutil.copy(SNAPSHOT, path)
        text = call("why", path)[0]
        self.assert_plain(text)
        line = re.search(r"To measure:\s+(allocmark run --workload .*?) --allocator", text, re.S)[1]
        told = subprocess.run(["bash", "-c", f"allocmark() {{ printf '%s' \"$3\"; }}; {' '.join(line.split(chr(10)))}"],
                              capture_output=True, cwd=self.work)
        self.assertEqual(told.stdout.decode(), f"file:{path}")
        self.assertFalse((self.work / "pwned").exists())

    def test_what_to_do_next_is_quoted(self):
        folder = self.work / "a b;$(touch pwned)"
        call("run", "-w", "comb:count=5", "-a", "null", "-d", "sim:h200", "--allow-debug", "-q", "--no-html", "--out", folder)
        with open(folder / "results.jsonl", "rb+") as file:
            file.truncate((folder / "results.jsonl").stat().st_size - 5)
        error = " ".join(call("bundle", folder, "--out", self.work / "b.tar", codes=(1, 2, 3))[1].split())
        self.assertIn(shlex.quote(str(folder)), error)


class Timelines(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.run_folder = Path(cls.folder.name) / "run"
        call("run", "-w", "comb:count=60", "-a", "caching", "-d", "sim:h200", "--allow-debug", "--timeline", "-q", "--no-html", "--out", cls.run_folder)
        cls.name = next((cls.run_folder / "timelines").iterdir()).name
        cls.timeline = json.loads((cls.run_folder / "timelines" / cls.name).read_text())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def report_with(self, make):
        """The page's text after `make` put something in the place of the timeline."""
        copied = self.work / "run"
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(self.run_folder, copied)
        place = copied / "timelines" / self.name
        place.unlink()
        make(place)
        command = f"ulimit -v 1500000; exec {shlex.quote(ALLOCMARK)} report {shlex.quote(str(copied))}"
        run = subprocess.run(["bash", "-c", command], capture_output=True, timeout=30)
        self.assertEqual(run.returncode, 0, run.stderr[-600:])
        page = (copied / "report.html").read_text()
        self.assert_plain(page, "\n\t")
        self.assertNotIn("<script>alert", page)
        return page

    def forged(self):
        def changed(**fields):
            return json.dumps({**self.timeline, **fields})

        def with_snapshots(change):
            timeline = copy.deepcopy(self.timeline)
            for snapshot in timeline["snapshots"]:
                change(snapshot)
            return json.dumps(timeline)

        count = len(self.timeline["event_index"])
        yield from ((f"failed: {value}", changed(oom_event_index=value))
                    for value in ({"a": 1}, "abc", ["<script>alert(1)</script>"], 5, [[1]], [1.5, None], [10**400]))
        yield from ((f"marks: {value}"[:40], changed(mark_event_index=value)) for value in ("abc", [None, 1], [3, 1], [10**400, 10**401], {"a": 1}))
        for column in ("event_index", "requested_bytes", "reserved_bytes"):
            yield f"{column}: texts", changed(**{column: ["x"] * count})
            yield f"{column}: too large", changed(**{column: [10**400] * count})
            yield f"{column}: too few", changed(**{column: [1]})
        yield "no moments", changed(event_index=[None] * count)
        yield "moments that go back", changed(event_index=list(range(count, 0, -1)))
        yield "map without a moment", with_snapshots(lambda one: one.pop("event_index"))
        yield "map of a text", with_snapshots(lambda one: one.update(event_index="</script><script>alert(1)</script>"))
        yield "blocks too large", with_snapshots(lambda one: one.update(segments=[{"address": 0, "blocks": [[0, 10**400, 1]]}]))
        yield "no list of maps", changed(snapshots={"a": 1})
        yield "deep", "[" * 100_000
        yield "long name", json.dumps({"kind": "timeline", "schema_version": "\x1b[31m<script>\u202e" * 100_000})

    def test_a_forged_timeline_costs_its_chart_and_no_more(self):
        self.assertNotIn("cannot be used", self.report_with(lambda place: place.write_text(json.dumps(self.timeline))))
        for kind, text in self.forged():
            with self.subTest(kind=kind):
                page = self.report_with(lambda place, text=text: place.write_text(text))
                self.assertIn(f"timelines/{self.name} cannot be used", page)
                self.assertLess(len(page), 2_000_000)

    def test_many_marks_and_moments_take_no_longer(self):
        many = list(range(400_000))
        timeline = {**self.timeline, "event_index": many, "mark_event_index": many, "snapshots": []}
        for column in ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes"):
            timeline[column] = many
        self.report_with(lambda place: place.write_text(json.dumps(timeline)))

    def test_what_is_no_file_is_not_read(self):
        def holes(place):
            with open(place, "wb") as file:
                file.truncate(1 << 36)

        for kind, make in {"pipe": os.mkfifo, "zeros": lambda place: place.symlink_to("/dev/zero"), "holes": holes, "folder": os.mkdir,
                           "nothing": lambda place: place.symlink_to("nothing"), "itself": lambda place: place.symlink_to(place.name)}.items():
            with self.subTest(kind=kind):
                self.assertIn(f"timelines/{self.name} cannot be used", self.report_with(make))


class Qualifications(Case):
    def test_names_of_gpus_and_nodes_stay_text(self):
        profile = json.loads(Path(PROFILE).read_text())
        for kind in ("escapes", "lines", "directions", "markup"):
            with self.subTest(kind=kind):
                words = TEXTS[kind].replace("/", "_").replace("\x00", "")
                profile["device"]["name"] = "NVIDIA H200" + words
                path, out = self.work / f"{words}.json", self.work / "out"
                path.write_text(json.dumps(profile))
                text, log = call("qualify", "-d", f"sim:{path}", "--level", "quick", "--node", "n" + words, "--out", out, codes=(0, 1))
                self.assert_plain(text + log)
                for file in ("qualify.txt", "allocmark_qualify.prom"):
                    self.assert_plain((out / file).read_text())
                self.assertNotIn("<script>alert", (out / "qualify.xml").read_text())

    def test_texts_of_nodes_stay_text_in_the_fleets_table(self):
        call("qualify", "-d", "sim:h200", "--level", "quick", "--node", "n1", "--out", self.work / "one", codes=(0, 1))
        found = json.loads((self.work / "one" / "qualify.json").read_text())

        def texts(value, place=()):
            pairs = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
            for key, inner in pairs:
                yield from [(*place, key)] if isinstance(inner, str) else texts(inner, (*place, key))

        for place in texts(found):
            if place[0] == "environment" or (len(place) > 4 and place[-1] not in ("name", "note")):
                continue
            changed = copy.deepcopy(found)
            at = changed
            for key in place[:-1]:
                at = at[key]
            at[place[-1]] = TEXTS["escapes"] + TEXTS["lines"] + TEXTS["directions"]
            folder = self.work / "nodes"
            shutil.rmtree(folder, ignore_errors=True)
            for name, report in (("n1", changed), ("n2", {**found, "node": {**found["node"], "name": "n2"}})):
                (folder / name).mkdir(parents=True)
                (folder / name / "qualify.json").write_text(json.dumps(report))
            text, log = call("merge", folder, "--out", self.work / "fleet", "--force", codes=(0, 1, 2, 3))
            with self.subTest(place=place):
                self.assert_plain(text + log)
                for file in ("fleet.txt", "drain.txt", "retry.txt"):
                    written = self.work / "fleet" / file
                    self.assert_plain(written.read_text() if written.exists() else "")
            shutil.rmtree(self.work / "fleet", ignore_errors=True)


class Links(Case):
    OUTPUTS = ("report.html", "report.md", "table.csv", "table.txt", "google_benchmark.json")

    def test_reports_go_through_links_and_into_devices(self):
        run = self.work / "run"
        call("run", "-w", "comb:count=5", "-a", "caching", "-d", "sim:h200", "--allow-debug", "-q", "--no-html", "--out", run)
        call("report", run)
        for name in self.OUTPUTS:
            for target in (self.work / "mine", Path("/dev/null")):
                with self.subTest(name=name, target=target):
                    place, mine = run / name, self.work / "mine"
                    whole = place.read_bytes()
                    mine.write_text("mine")
                    place.unlink()
                    place.symlink_to(target)
                    call("report", run)
                    self.assertTrue(place.is_symlink() and Path("/dev/null").is_char_device())
                    self.assertEqual(len(mine.read_bytes()), len(whole) if target == mine else 4)
                    place.unlink()
                    call("report", run)
            with self.subTest(name=name, target="nowhere"):
                place.unlink()
                place.symlink_to(self.work / "not" / "there")
                self.assertIn(name, call("report", run, codes=(4, 6))[1])
                place.unlink()
                call("report", run)

    def test_the_page_of_two_sides_is_whole_or_told(self):
        run = self.work / "ab"
        call("run", "--ab", "unset", "expandable_segments:True", "-a", "caching", "-w", "comb:count=5", "-d", "sim:h200", "--allow-debug", "-q",
             "--rounds", "2", "--rounds-max", "2", "--out", run, codes=(0, 1, 3))
        page = run / "report.html"
        page.unlink(missing_ok=True)
        page.symlink_to(self.work / "mine")
        self.assertIn("page of the comparison", call("report", run)[0])
        self.assertTrue(page.is_symlink())
        self.assertEqual((self.work / "mine").read_bytes(), (run / "B" / "report.html").read_bytes())
        page.unlink()
        page.symlink_to(self.work / "not" / "there")
        self.assertIn("report.html", call("report", run, codes=(6,))[1])


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()

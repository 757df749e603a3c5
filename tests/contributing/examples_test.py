#!/usr/bin/env python3
"""Follows the worked examples of CONTRIBUTING.md. Each folder here is one: its files are new, and lines.txt says which
lines are added to which files ("+"), below which lines (" "), and which lines they take the place of ("-"). All are
applied to a copy of the sources in the build folder. What they touch is compiled with the flags of that copy and linked
with the objects of the build; then the program is used.

examples_test.py SOURCE_FOLDER BUILD_FOLDER
"""
import csv
import json
import re
import shlex
import shutil
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "check"))
import rooms

HERE = Path(__file__).resolve().parent
SOURCE, BUILD = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
COPY = BUILD / "contributing"
COPY_BUILD = COPY / "build"
EXAMPLES = ("backend", "startup", "workload", "importer", "metric", "chart", "card", "release", "command")
# They change a struct that most of the sources see, so only what they touch is compiled, and nothing is linked.
CHECKED = ("cause", "fact", "event")
RAISES_SCHEMA = ("cause", "fact")
# What the page calls them where that is not "a" and the name.
NAMES = {"importer": "an importer", "command": "a command with a job in another process",
         "startup": "a backend with a start-up of the process", "cause": "a cause of OOM", "fact": "a fact at the first OOM",
         "event": "an event of private pools"}
# Settings of the build that the copy has to share, so that objects of both fit together. It compiles each file by itself.
SHARED = re.compile(r"(ALLOCMARK_\w+|CMAKE_BUILD_TYPE|CMAKE_(C|CXX|CUDA)_(FLAGS\w*|COMPILER|COMPILER_LAUNCHER)|CUDA\w*):\w+=(.+)")


def new_files(example):
    """The paths of an example's new files, seen from the root of the sources."""
    folder = HERE / example
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and path.name != "lines.txt")


def added_lines(example):
    """(file pattern, lines above, count of those that go, added lines) of each place in lines.txt."""
    places = []
    for line in (HERE / example / "lines.txt").read_text().splitlines():
        kind, text = line[:1], line[1:]
        if kind == "@":
            places.append((text.strip(), [], [], []))
        else:
            places[-1][{" ": 1, "-": 2, "+": 3}[kind]].append(text)
    return [(pattern, above + gone, len(gone), added) for pattern, above, gone, added in places]


def place_of(lines, above):
    """The index below the first lines that begin like `above`, one after the other; None where there are none."""
    for at in range(len(lines) - len(above) + 1):
        if all(line.startswith(begin) for line, begin in zip(lines[at:], above)):
            return at + len(above)
    return None


def apply(example, root):
    """Adds the example to the sources at root; returns the paths it touches."""
    touched = set(new_files(example))
    for name in touched:
        if (root / name).exists():
            raise AssertionError(f"{example}: {name} is there already")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HERE / example / name, root / name)
    for pattern, above, gone_count, added in added_lines(example):
        for path in sorted(root.glob(pattern)):
            lines = path.read_text().splitlines()
            at = place_of(lines, above)
            if at is not None:
                path.write_text("\n".join(lines[: at - gone_count] + added + lines[at:]) + "\n")
                touched.add(path.relative_to(root).as_posix())
                break
        else:
            raise AssertionError(f"{example}/lines.txt: no file {pattern} has the lines {above}; name the place where they are now")
    return touched


def copy_sources():
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir()
    shutil.copyfile(SOURCE / "CMakeLists.txt", COPY / "CMakeLists.txt")
    data = {SOURCE / "results" / "published", SOURCE / "workloads" / "recorded"}

    def skip(folder, names):
        return [name for name in names if Path(folder) / name in data or name == "__pycache__"]

    for room in ("base", "workloads", "allocators", "results", "harness", "scripts"):
        shutil.copytree(SOURCE / room, COPY / room, ignore=skip)
    (COPY / "workloads/recorded").symlink_to(SOURCE / "workloads/recorded")
    for name in ("README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copyfile(SOURCE / name, COPY / name)


def run(*words, **how):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **how)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def configure():
    settings = []
    for line in (BUILD / "CMakeCache.txt").read_text().splitlines():
        match = SHARED.fullmatch(line)
        if match and match.group(1) not in ("ALLOCMARK_TESTS", "ALLOCMARK_PROGRAM_TESTS"):
            settings.append("-D" + line)
    run("cmake", "-S", COPY, "-B", COPY_BUILD, "-G", "Ninja", *settings, "-DALLOCMARK_TESTS=OFF", "-DALLOCMARK_PROGRAM_TESTS=OFF",
        "-DALLOCMARK_UNITY=1", "-DALLOCMARK_COLD_UNITS=0", "-DALLOCMARK_WARM_UNITS=0")


def changed_lists():
    """The headers made at configuring that name what the examples add, as #include has them."""
    for path in sorted((COPY_BUILD / "generated").rglob("*.h")):
        name = path.relative_to(COPY_BUILD / "generated").as_posix()
        if path.read_bytes() != (BUILD / "generated" / name).read_bytes():
            yield name


def compile_touched(touched, *options):
    """Compiles what the examples touch; returns the objects, seen from the build folder."""
    includes = [f'#include "{name}"' for name in changed_lists()]
    objects = []
    for entry in json.loads((COPY_BUILD / "compile_commands.json").read_text()):
        path = Path(entry["file"])
        if COPY not in path.parents or COPY_BUILD in path.parents:
            continue
        if path.relative_to(COPY).as_posix() in touched or any(line in path.read_text() for line in includes):
            words = shlex.split(entry["command"])
            output = words[words.index("-o") + 1]
            if output not in objects:
                (COPY_BUILD / output).parent.mkdir(parents=True, exist_ok=True)
                run(*words, *options, cwd=entry["directory"])
                objects.append(output)
    return objects


def link(objects):
    """The program, linked as the build links it, with the objects just compiled in front: what they define is taken from
    them, also where the build compiled a file together with others."""
    commands = run("ninja", "-C", BUILD, "-t", "commands", "allocmark")
    (command,) = [line for line in commands.splitlines() if "-o bin/allocmark " in line + " "]
    words = command.split(" ")
    words[words.index("-o") + 1] = str(COPY_BUILD / "bin/allocmark")
    at = next(at for at, word in enumerate(words) if word.endswith(".o"))
    words[at:at] = ["-Wl,--allow-multiple-definition", *(str(COPY_BUILD / name) for name in objects)]
    run("sh", "-c", " ".join(words), cwd=BUILD)
    shutil.rmtree(COPY_BUILD / "lib", ignore_errors=True)
    # simcuda is used as it is, with the cards of the copy.
    shutil.copytree(BUILD / "lib/simcuda", COPY_BUILD / "lib/simcuda", copy_function=lambda file, to: Path(to).symlink_to(file))
    cards = COPY_BUILD / "lib/simcuda/profiles/cards.tsv"
    cards.unlink()
    shutil.copyfile(COPY / "harness/simcuda/profiles/cards.tsv", cards)
    return COPY_BUILD / "bin/allocmark"


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        copy_sources()
        cls.touched = {example: apply(example, COPY) for example in EXAMPLES}
        configure()
        (COPY_BUILD / "bin").mkdir(exist_ok=True)
        cls.program = link(compile_touched(set().union(*cls.touched.values())))
        cls.touched |= {example: apply(example, COPY) for example in CHECKED}

    def test_the_page_says_what_each_example_touches(self):
        page = (SOURCE / "CONTRIBUTING.md").read_text()
        for example, touched in self.touched.items():
            with self.subTest(example):
                files = {name for name in touched if not name.endswith(".md")}
                name = NAMES.get(example, "a " + example)
                row = re.search(rf"^\| {name} \| (\d+) \| (\d+) \| (.*) \|$", page, re.M)
                self.assertIsNotNone(row, f"CONTRIBUTING.md has no row '| {name} | FILES | ROWS | which |'")
                self.assertEqual(set(re.findall(r"`([^`]+)`", row.group(3))), files)
                self.assertEqual(int(row.group(1)), len(files))
                self.assertEqual(int(row.group(2)), len(touched - files))

    def test_the_readmes_name_the_new_files(self):
        for example, touched in self.touched.items():
            of_code = [name for name in sorted(touched) if name.endswith((".h", ".cc", ".py"))]
            with self.subTest(example), mock.patch.object(rooms, "sources", lambda *_, names=of_code: names):
                self.assertEqual(list(rooms.check_named(COPY)), [])

    def test_list_shows_the_backend_and_the_workload(self):
        self.assertRegex(run(self.program, "list", "allocators"), r"(?m)^  rounded +cudaMalloc of whole MiB")
        self.assertRegex(run(self.program, "list", "workloads"), r"(?m)^  stairs:\S+ +\(generator\) blocks that grow")

    def test_a_run_uses_the_backend_and_the_workload_and_stores_the_metric(self):
        out = COPY / "run"
        run(self.program, "run", "--workload", "stairs:steps=8,flights=2", "--allocator", "rounded", "caching", "--conf", "unset",
            "--device", "sim:h200", "--verify", "whole", "--out", out, "--no-html", "--allow-debug", cwd=COPY)
        with (out / "table.csv").open() as file:
            cells = {row["allocator"]: row for row in csv.DictReader(file)}
        # 1 + 2 + ... + 8 MiB: rounded takes just that, caching 20 MiB steps with a remainder each.
        self.assertEqual([cell["status"] for cell in cells.values()], ["ok", "ok"])
        self.assertEqual(cells["rounded"]["reserved_bytes_peak"], str(36 * 2**20))
        self.assertEqual(float(cells["rounded"]["fragmentation_share_at_requested_peak"]), 0)
        self.assertGreater(float(cells["caching"]["fragmentation_share_at_requested_peak"]), 0)

    def test_a_run_reads_a_log_by_the_importer_on_the_card_with_the_new_release(self):
        (COPY / "hand.log").write_text("".join(f"+ {at} {at << 20}\n" for at in range(1, 9)) + "".join(f"- {at}\n" for at in range(1, 9)))
        out = COPY / "imported"
        run(self.program, "run", "--workload", "file:hand.log", "--allocator", "own_pool", "caching@2.99", "--conf", "unset", "--device",
            "sim:example-80", "--out", out, "--no-html", "--allow-debug", "--passes", "2", cwd=COPY)
        lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
        self.assertEqual(lines[0]["gpu_name"], "Example GPU 80GB")
        found = sorted((cell["allocator"], cell["status"], cell["allocate_count"]) for cell in lines[1:] if cell["allocator"] != "null")
        self.assertEqual(found, [("caching@2.99", "ok", 8), ("own_pool", "ok", 8)])
        run(self.program, "report", out, "--svg", out / "charts")
        (chart,) = (out / "charts").glob("*-waste.svg")
        self.assertIn("Memory reserved and never requested", chart.read_text())
        bad = subprocess.run([self.program, "trace", "stats", "file:bad.log"], capture_output=True, text=True, cwd=COPY)
        self.assertEqual(bad.returncode, 2)
        (COPY / "bad.log").write_text("+ 1 4096\n- 2\n")
        bad = subprocess.run([self.program, "run", "--workload", "file:bad.log", "--device", "sim:h200"], capture_output=True, text=True, cwd=COPY)
        self.assertEqual(bad.returncode, 2)
        self.assertIn("bad.log:2", bad.stderr)

    def test_what_changes_a_struct_of_all_compiles_where_it_is_touched(self):
        touched = set().union(*(self.touched[example] for example in CHECKED))
        # The compiler names the kind that one of these has no case for: a file that the example forgot.
        switches = {path.relative_to(COPY).as_posix() for room in ("workloads", "harness") for path in (COPY / room).rglob("*.cc")
                    if "case EventKind::" in path.read_text()}
        self.assertGreater(len(switches), 8)
        self.assertTrue(compile_touched(touched | switches, "-fsyntax-only", "-Werror=switch"))

    def test_the_examples_raise_the_version_of_the_schema(self):
        version = re.compile(r'kSchemaVersion = "1\.(\d+)\.')
        now = int(version.search((SOURCE / "results/schema.h").read_text())[1])
        for example in RAISES_SCHEMA:
            raised = int(version.search((HERE / example / "lines.txt").read_text())[1])
            self.assertGreater(raised, now, f"{example}/lines.txt: the next version is 1.{now + 1}.0")

    def test_the_command_is_in_the_help_and_answers(self):
        self.assertIn("Say how many bytes a size is", run(self.program, "--help"))
        self.assertEqual(run(self.program, "size", "24GiB"), "25769803776 24.0 GiB\n")
        # A process of its own asks the device.
        self.assertEqual(run(self.program, "size", "8GiB", "--of", "sim:example-80"), "8589934592 8.00 GiB, 10.0 % of sim:example-80\n")
        bad = subprocess.run([self.program, "size", "24"], capture_output=True, text=True)
        self.assertEqual((bad.returncode, bad.stdout), (2, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

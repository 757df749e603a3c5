#!/usr/bin/env python3
"""Shows bugs of other libraries' allocators on simcuda, release by release: each release's own class runs in a probe that is
compiled against its headers. No GPU is needed.

scripts/measure/library_museum.py --fetch               takes the releases of the tables that PyPI has into build/museum/LIBRARY/VERSION
scripts/measure/library_museum.py BUILD                 runs the probes of all that is there, and writes the tables of
                                                        workloads/scenarios/bugs/LIBRARIES.md; columns of other releases stay as they are
scripts/measure/library_museum.py --check BUILD         changes nothing; exit code 1 where an answer is not what a table says
    --headers LIBRARY[@VERSION]=INCLUDE,...             one more release: its include folders, as of a checkout; CUB before 1.9.9
                                                        does not say its version
    --only LIBRARY                                      cub or rmm

BUILD is a build folder of allocmark, for its simulated CUDA runtime. CUB of the CUDA toolkit is always there.
Exit codes: 0 as the tables say; 1 not so; 2 wrong usage; 4 a release cannot be fetched or a probe does not compile;
77 nothing that a table knows is there.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/build"))
import torch_wheel  # noqa: E402

PAGE = ROOT / "workloads/scenarios/bugs/LIBRARIES.md"
FETCHED = ROOT / "build/museum"
TIMEOUT_S = 60
PRESENT, ABSENT = "present", "-"


@dataclass
class Library:
    name: str
    wheels: dict  # release: what pip knows, and the folder of the wheel that is taken
    version: tuple  # a header, and the pattern of the version in it
    dies: tuple = ()  # bugs that end the process, or never come back
    flags: tuple = ()


LIBRARIES = {
    "cub": Library(
        name="cub",
        wheels={
            **{release: (("nvidia-cuda-cccl-cu12==" + release, "nvidia/cuda_cccl/"),) for release in ("12.6.37", "12.9.27")},
            **{release: (("nvidia-cuda-cccl==" + release, "nvidia/cu13/"),) for release in ("13.0.50", "13.3.5.0.6")},
        },
        version=("cub/version.cuh", r"define CUB_VERSION (\d+)"),
        dies=("walks_erased_block",),
    ),
    "rmm": Library(
        name="rmm",
        wheels={
            "24.12.1": (("librmm-cu12==24.12.1", "librmm/"),),
            **{
                release: (("librmm-cu12==" + release, "librmm/"), ("rapids-logger==" + logger, "rapids_logger/"))
                for release, logger in (("25.4.0", "0.1.*"), ("25.8.0", "0.1.*"), ("25.12.0", "0.2.*"), ("26.2.0", "0.2.*"), ("26.4.0", "0.2.*"))
            },
        },
        version=("rmm/version_config.hpp", r"RMM_VERSION_MAJOR (\d+)\s.*RMM_VERSION_MINOR (\d+)\s.*RMM_VERSION_PATCH (\d+)"),
        dies=("tracking_reads_erased",),
        flags=("-DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE", "-DSPDLOG_FMT_EXTERNAL", "-Wl,--allow-shlib-undefined"),
    ),
}


class Failed(Exception):
    """What cannot be done; the exit code is 4."""


@dataclass
class Release:
    library: Library
    includes: list
    stated: str = ""  # a version that the headers do not say
    shared: tuple = ()  # shared libraries

    def version(self):
        if self.stated:
            return self.stated
        name, pattern = self.library.version
        for folder in self.includes:
            if (folder / name).is_file():
                found = re.search(pattern, (folder / name).read_text(), re.S)
                if not found:
                    raise Failed(f"{folder / name} does not say a version as '{pattern}' wants it")
                numbers = [int(part) for part in found.groups()]
                if len(numbers) == 1:
                    numbers = [numbers[0] // 100000, numbers[0] // 100 % 1000, numbers[0] % 100]
                return ".".join(map(str, numbers))
        raise Failed(f"there is no {name} in {', '.join(map(str, self.includes))}")


def fetch(library):
    for release, wheels in library.wheels.items():
        folder = FETCHED / library.name / release
        if (folder / "include").is_dir():
            continue
        for requirement, inside in wheels:
            try:
                wheel = torch_wheel.open_wheel(requirement, None)
            except torch_wheel.Refused as refusal:
                raise Failed(str(refusal)) from refusal
            hashes = torch_wheel.listed_hashes(wheel)
            if not hashes:
                raise Failed(f"the wheel of {requirement} lists no hashes of its files")
            for name in wheel.namelist():
                if name.startswith(inside) and not name.endswith("/"):
                    torch_wheel.write(folder, name.removeprefix(inside), torch_wheel.read(wheel, name, hashes))
        print(f"library_museum: {library.name} {release} lies in {folder}")


def toolkit():
    for folder in (os.environ.get("CUDA_ROOT", ""), "/usr/local/cuda", *map(str, (ROOT / "build/cuda-toolkit").glob("*"))):
        if folder and (Path(folder) / "include/cuda_runtime_api.h").is_file():
            return Path(folder) / "include"
    raise Failed("no headers of CUDA are found; set CUDA_ROOT to a toolkit")


def fetched_releases(library):
    for folder in sorted((FETCHED / library.name).glob("*")):
        include = folder / "include"
        if include.is_dir():
            inner = (include / "cccl", include / "rapids/libcudacxx", include / "rapids", include)
            shared = tuple(sorted((folder / "lib64").glob("*.so")))
            yield Release(library, [path for path in inner if path.is_dir()], shared=shared)


def compiled(release, build, version):
    probe = build / "museum" / f"{release.library.name}_probe_{version}"
    probe.parent.mkdir(parents=True, exist_ok=True)
    includes = [word for folder in [*release.includes, toolkit()] for word in ("-isystem", str(folder))]
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O1", "-g1", "-w", *release.library.flags, f"-I{ROOT}", *includes,
               str(ROOT / f"tests/museum/{release.library.name}_probe.cc"), "-o", str(probe),
               f"-L{build}/lib/simcuda", "-lcudart", "-lpthread", "-ldl", *map(str, release.shared)]
    command += [f"-Wl,-rpath,{folder}" for folder in {path.parent for path in release.shared}]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        first = next((line for line in ran.stderr.splitlines() if "error" in line), ran.stderr)
        raise Failed(f"the probe does not compile with {release.library.name} {version}: {first}")
    return probe


def answers(release, build, version):
    """{bug: what was seen, or '' where it is not there}"""
    probe = compiled(release, build, version)
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{build}/lib/simcuda", "SIMCUDA_DEVICES": "2", "RMM_DEBUG_LOG_FILE": os.devnull}
    names = subprocess.run([probe, "--list"], capture_output=True, text=True, env=environment, check=True).stdout.split()
    seen = {}
    for name in names:
        try:
            ran = subprocess.run([probe, name], capture_output=True, text=True, env=environment, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{release.library.name} {version}: {name} gave no answer within {TIMEOUT_S} s") from late
        if ran.returncode < 0 and name in release.library.dies:
            seen[name] = f"the process ended by {signal.Signals(-ran.returncode).name}"
        elif ran.returncode == 0 and ran.stdout.startswith("present: "):
            seen[name] = ran.stdout.removeprefix("present: ").strip()
        elif ran.returncode == 0 and ran.stdout.startswith("absent"):
            seen[name] = ""
            tried = ran.stdout.removeprefix("absent").strip(": \n")
            print(f"{release.library.name} {version}: {name}: {ABSENT}{tried and f' ({tried})'}")
        else:
            raise Failed(f"{release.library.name} {version}: {name} ended with {ran.returncode}: {ran.stderr.strip()[-300:]}")
    return seen


def marks(library):
    return f"<!-- {library.name}: made by scripts/measure/library_museum.py -->\n", "<!-- end -->"


def read_table(text, library):
    """{version: {bug: verdict}}"""
    begin, end = marks(library)
    lines = [line for line in text.partition(begin)[2].partition(end)[0].splitlines() if line.startswith("|")]
    if not lines:
        return {}
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {version: {row[0].strip("`"): row[column] for row in cells[2:]} for column, version in enumerate(cells[0]) if column}


def written(text, library, table):
    begin, end = marks(library)
    versions = sorted(table, key=lambda version: [int(part) for part in version.split(".")])
    bugs = list(dict.fromkeys(bug for version in versions for bug in table[version]))
    lines = [f"| bug | {' | '.join(versions)} |", "| --- |" + " --- |" * len(versions)]
    lines += [f"| `{bug}` | {' | '.join(table[version].get(bug, '?') for version in versions)} |" for bug in bugs]
    before, _, rest = text.partition(begin)
    return before + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2]


def releases_of(library, more):
    found = [Release(library, [Path(folder) for folder in folders], stated) for stated, folders in more.get(library.name, [])]
    if library.name == "cub":
        found.append(Release(library, [toolkit() / "cccl" if (toolkit() / "cccl").is_dir() else toolkit()]))
    return found + list(fetched_releases(library))


def run(library, arguments, more, text):
    """(the page's new text, columns that were looked at, what is wrong)"""
    table, wrong, looked = read_table(text, library), [], 0
    done = set()
    for release in releases_of(library, more):
        version = release.version()
        if version in done or (arguments.check and version not in table):
            continue
        done.add(version)
        seen = answers(release, arguments.build.resolve(), version)
        looked += 1
        found = {bug: PRESENT if words else ABSENT for bug, words in seen.items()}
        for bug, words in seen.items():
            if words:
                print(f"{library.name} {version}: {bug}: {words}")
            if arguments.check and table[version].get(bug) != found[bug]:
                wrong.append(f"{library.name} {version}: {bug} is {found[bug]}; the table says {table[version].get(bug)}")
        table[version] = found
    return (text if arguments.check or not looked else written(text, library, table)), looked, wrong


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, nargs="?", help="a build folder of allocmark")
    parser.add_argument("--fetch", action="store_true", help="fetch the releases that PyPI has")
    parser.add_argument("--check", action="store_true", help="change nothing, and say what differs")
    parser.add_argument("--headers", action="append", default=[], metavar="LIBRARY[@VERSION]=INCLUDE,...", help="one more release")
    parser.add_argument("--only", choices=sorted(LIBRARIES), help="one library [all]")
    arguments = parser.parse_args(argv)
    libraries = [library for library in LIBRARIES.values() if arguments.only in (None, library.name)]
    more = {}
    for words in arguments.headers:
        parts = re.fullmatch(r"(\w+)(?:@([\d.]+))?=(.+)", words)
        if not parts or parts[1] not in LIBRARIES:
            parser.error(f"--headers: '{words}' is not LIBRARY[@VERSION]=INCLUDE,...; libraries: {', '.join(LIBRARIES)}")
        more.setdefault(parts[1], []).append((parts[2] or "", parts[3].split(",")))
    if not arguments.fetch and (arguments.build is None or not (arguments.build / "lib/simcuda/libcudart.so").exists()):
        parser.error(f"{arguments.build}: no build of allocmark; wanted a folder with lib/simcuda/libcudart.so")
    try:
        if arguments.fetch:
            for library in libraries:
                fetch(library)
            return 0
        text, looked, wrong = PAGE.read_text(), 0, []
        for library in libraries:
            text, count, problems = run(library, arguments, more, text)
            looked, wrong = looked + count, wrong + problems
        if not arguments.check:
            PAGE.write_text(text)
    except Failed as problem:
        print(f"library_museum: error: {problem}", file=sys.stderr)
        return 4
    for line in wrong:
        print(f"library_museum: {line}", file=sys.stderr)
    if looked == 0:
        print("library_museum: skipped: no release of a table is here; scripts/measure/library_museum.py --fetch")
        return 77
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

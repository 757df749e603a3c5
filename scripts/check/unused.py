#!/usr/bin/env python3
"""Lists functions that nothing in the product uses; run by CTest as `unused` after a build.

usage: unused.py BUILD_DIR

Reads the object files of a build outside its tests. A C++ function with external linkage is used when an object file
holds a relocation against it: a call, a row of a table, a virtual table. The compiler reports unused functions with
internal linkage itself (-Wunused-function). Inline functions that nothing calls leave no code: those in headers count
as unused where no other line of the product has their name. A function that only tests call is listed too: the product
would be smaller without it. KEPT names those that stay, with the reason; a name there that is used, or gone, is listed.
"""
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What the compiler calls.
COROUTINE_HOOKS = {"await_ready", "await_resume", "await_suspend", "final_suspend", "get_return_object", "initial_suspend",
                   "return_void", "unhandled_exception"}
# Name with its scopes, or header and name: why it stays though only tests, or nobody here, call it.
KEPT = {
    "address_ranges.h gap_count": "tests hold its growth to a bound",
    "stream_order.h stream_slot_count": "tests hold its growth to a bound",
    "Histogram::add": "fills histograms in tests; the header's add of one sample is the product's",
    "CommandLineApp::CommandLineApp": "a move that is always elided",
    "StreamPoints::open_count": "tests hold its growth to a bound",
    "check_bundle": "tests check with the options that stand by themselves",
    "trace_hash": "tests hold workloads to their hashes",
    "model_keys": "tests hold the table to the generators",
    "parse_oom_cause": "tests read back every name",
    "sample_count_for_margin": "documented in results/README.md, and tested against MLPerf's table",
    "signed_rank_cdf": "tests hold it to published tables",
    "simcuda::GraphMemory::holds": "tests ask which addresses are graphs'",
    "simcuda::StreamOrder::remembered_count": "tests hold its growth to a bound",
    "simcuda::VirtualMemory::reserved": "tests ask what is reserved",
}
# Called by templates of headers that are not ours.
KEPT |= dict.fromkeys(("host_cache.h getBackgroundThreadPool", "host_cache.h get_current_stream", "host_cache.h stream_is_capturing"),
                      "PyTorch's template calls it")
# Tests hold the whole of PyTorch's host allocator to its recording and to itself.
KEPT |= dict.fromkeys((
    "counting_driver.h pinned_count",
    "host_caching::all_host_rules",
), "part of PyTorch's host allocator, which only tests read")


def objects(build):
    # Asked of the build, since the objects of removed sources stay. Code of the device has its own names in .cu.o files.
    rules = (build / "build.ninja").read_text()
    paths = [build / name for name in re.findall(r"^build (\S+[.]c(?:c|xx)[.]o):", rules, re.MULTILINE)]
    # allocmark_cold and allocmark_warm are the code of many rooms; the other targets of the top folder are CMake's own.
    others = re.compile(r"tests/|contributing/|CMakeFiles/(?!allocmark_(?:cold|warm)[.])")
    return [path for path in paths if path.exists() and not others.match(path.relative_to(build).as_posix())]


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbols(path):
    """Groups of mangled names for each strong function that an object file defines (a constructor has two names at one
    place), and all names that its relocations use."""
    places = {}
    for line in output_of("readelf", "-sW", str(path)).splitlines():
        words = line.split()
        if len(words) == 8 and words[3:5] == ["FUNC", "GLOBAL"] and words[6] != "UND" and words[7].startswith("_Z"):
            places.setdefault((words[6], words[1]), []).append(words[7])
    used = set(re.findall(r"R_\w+\s+[0-9a-f]+\s+(_Z\w+)", output_of("readelf", "-rW", str(path))))
    return list(places.values()), used


def plain_name(text):
    """'allocmark::a::f(int) const' and 'allocmark::a::f[abi:cxx11](int)' are 'a::f'."""
    text = text.replace("(anonymous namespace)", "").replace("[abi:cxx11]", "")
    return re.sub(r"^.*? (?=allocmark)", "", text.split("(")[0]).removeprefix("allocmark::")


def unused_in_objects(build):
    """The plain name and the place of each function that no object file uses, and how many there are."""
    found = objects(build)
    if not found:
        raise SystemExit(f"unused: no object file below {build}; build the program first")
    defined, used = [], set()
    with ThreadPoolExecutor() as pool:
        for path, (own, uses) in zip(found, pool.map(symbols, found)):
            defined += [(names, path) for names in own]
            used |= uses
    left = {names[0]: path for names, path in defined if used.isdisjoint(names)}
    names = sorted(left)
    plain = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.split("\n")
    places = {name: re.sub(r"CMakeFiles/[^/]*/|[.]o$", "", str(path.relative_to(build))) for name, path in left.items()}
    return {plain_name(text): f"{places[name]}: {text}" for name, text in zip(names, plain)}, len(defined)


def unused_in_headers():
    """The same of functions with a body in a header, whose name no other place of the product's code has."""
    paths = [path for pattern in ("*.h", "*.cc", "*.cu") for path in ROOT.rglob(pattern)]
    seen, bodies = Counter(), {}
    for path in paths:
        name = path.relative_to(ROOT)
        if name.parts[0] in {"build", "tests", "contributing"} or any(part.startswith(".") for part in name.parts):
            continue
        text = re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"', "", path.read_text())
        seen.update(re.findall(r"\b[A-Za-z_]\w*\b", text))
        if path.suffix == ".h":
            for match in re.finditer(r"\b([a-z]\w*)\s*\([^;{}]*\)\s*(?:const\s*)?(?:noexcept\s*)?(?:->[^{;]*)?\{", text):
                bodies[match[1]] = name
    once = {name: path for name, path in bodies.items() if seen[name] == 1 and name not in COROUTINE_HOOKS}
    return {f"{path.name} {name}": f"{path}: {name}" for name, path in once.items()}, len(bodies)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__.split("\n\n")[1])
    of_objects, object_count = unused_in_objects(Path(sys.argv[1]).resolve())
    of_headers, header_count = unused_in_headers()
    found = of_objects | of_headers
    wrong = [f"{place} is used by nothing in the product" for name, place in sorted(found.items()) if name not in KEPT]
    wrong += [f"scripts/check/unused.py: KEPT names {name}, which is used or gone" for name in KEPT if name not in found]
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"unused: {object_count} functions, {header_count} in headers, {len(wrong)} to look at")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

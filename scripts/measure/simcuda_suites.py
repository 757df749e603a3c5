#!/usr/bin/env python3
"""Runs other projects' own tests on simcuda, and writes what came of it as a page.

simcuda_suites.py SIMCUDA_RUN PAGE [--work FOLDER] [--source NAME=REPOSITORY] [--only NAME]: installs each project's wheel from PyPI into a virtual
environment in FOLDER, takes its tests from the wheel, or from its repository or a source archive at the wheel's version, and runs each file as
`simcuda-run --kernels nothing python -m pytest`, as a rule on two simulated GPUs. Tests of a source archive have a process each, since what a failing one
leaves behind fails others. C++ libraries are built from their sources with the shared runtime (suites/NAME/CMakeLists.txt, whose programs lie in a folder
for each way to report, REPORTS), and projects whose tests cannot be had are started by suites/start/. The page says suite, version, tests run, passed,
skipped and failed by cause. Exit code 1 where a suite could not be had, or a file crashed or took too long."""
import argparse
import collections
import dataclasses
import datetime
import hashlib
import importlib.metadata
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import urllib.request
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent / "suites"
TIMEOUT_S = 600  # of one file
LOG_BYTES_MAX = 1 << 20
WAIVED = 2  # exit code of a sample that the machine is not fit for
# Words of a program that reports as its folder says: GoogleTest's and Catch2's as XML, Thrust's framework in words, and others by their exit code.
REPORTS = {"gtests": ("--gtest_output=xml:REPORT",), "junit": ("--reporter", "JUnit::out=REPORT"), "thrust": ("--verbose", "--device=0"), "programs": ()}
NUMBA = "numba.cuda.tests.cudadrv"
# Failures of tests that look at what a kernel wrote, by their first line.
VALUES = re.compile(r"assert array\(|assert np\.int32\(|Arrays are not equal|np\.False_ is not true|Mismatched elements|Not equal to tolerance|"
                    r"thrust::(equal|reduce)\(|Tensor-likes are not|Scalars are not close|tensor\((True|False), device=|Failed on ")


@dataclasses.dataclass(frozen=True)
class Suite:
    name: str
    package: str  # on PyPI, whose version is the suite's. Empty: `tag` is
    more: tuple  # packages that it needs besides
    tests: tuple  # files of the repository or of suites/start/, modules of the wheel, or the folders that a build needs
    repository: str = ""
    kind: str = "repository"  # or "archive", "wheel", "start", "build"
    tag: str = "v{}"
    devices: int = 2  # simulated
    device_bytes: int = 0  # memory of each, where tests fill managed memory of that size; 0: an H200's
    values: tuple = ()  # tests that look at what kernels wrote, where their first line does not tell
    select: str = ""  # pytest's -k: the tests that are about memory
    archive_sha256: str = ""  # of the source archive, where `repository` is the name of a file of Debian's source package
    sources: tuple = ()  # (name, repository, tag) of what a build needs besides, for --source and CMake by that name
    kernels: str = "nothing"  # simcuda-run's --kernels
    reason: str = ""  # why it is not run


SUITES = (
    Suite("CuPy", "cupy-cuda13x", ("pytest", "numpy"),
          tuple(f"tests/cupy_tests/cuda_tests/test_{part}.py" for part in ("memory", "memory_hook", "stream", "device")), "https://github.com/cupy/cupy"),
    Suite("numba-cuda", "numba-cuda[cu13]", ("pytest", "pytest-benchmark", "numpy", "filecheck", "cffi", "psutil"), (NUMBA,),
          "https://github.com/NVIDIA/numba-cuda", "wheel", device_bytes=4 << 30,
          values=("test_array_", "test_broadcast", "test_rank", "test_scalar", "test_strides", "test_linking_", "test_devicearray_transpose",
                  "test_cuda_driver_", "test_cuda_core_stream_", "test_cuda_cache_config", "test_cuda_set_shared", "test_device_arch_specific",
                  "test_decldevice_arg", "test_jitarg", "test_cudajit_in_attached", "test_structured_array", "test_recarray", "test_managed_array_attach")),
    Suite("RMM", "librmm-cu13==26.6.0", ("rapids-logger",), ("cpp",), "https://github.com/rapidsai/rmm", "build", tag="v{:0>2}.{:0>2}.{:0>2}",
          devices=1),
    # CUB's test holds its kernels until it lets them go.
    Suite("CCCL", "", (), ("c2h", "cub", "thrust", "libcudacxx"), "https://github.com/NVIDIA/cccl", "build", tag="v3.4.2",
          sources=(("Catch2", "https://github.com/catchorg/Catch2", "v3.7.1"),), kernels="nothing,block_stream:1000000000",
          values=("TestAllocatorCustomCopyConstruct", "TestAllocatorCustomDefaultConstruct", "TestGetTemporaryBuffer", "TestMalloc",
                  "TestUniversalThrustVector", "TestVectorAllocatorConstructorsDevice",
                  "TestVectorAllocatorPropagateOnCopyAssignmentDevice")),
    Suite("Umpire", "", (), ("src", "tests"), "https://github.com/LLNL/Umpire", "build", tag="v2024.07.0",
          sources=(("camp", "https://github.com/LLNL/camp", "0f07de4240c42e0b38a8d872a20440cb4b33d9f5"),)),
    Suite("cuda-samples", "", (), ("Common", "Samples/0_Introduction", "Samples/2_Concepts_and_Techniques/streamOrdered*", "Samples/3_CUDA_Features",
                                   "Samples/6_Performance/UnifiedMemoryPerf"), "https://github.com/NVIDIA/cuda-samples", "build", tag="v13.0",
          values=("asyncAPI", "newdelete", "simpleMultiCopy", "simpleP2P", "simpleStreams", "simpleZeroCopy", "streamOrdered", "vectorAdd")),
    Suite("Kokkos", "", (), (), tag="4.6.01", reason="its tests need the whole library compiled by nvcc, which was not tried"),
    Suite("AMReX", "", (), (), tag="24.10", reason="it calls cudaMemAdvise and cudaMemPrefetchAsync as they were before CUDA 13"),
    # A fraction of 1 % must be less than 1 GiB in one of its tests, as on cards of 80 GB.
    Suite("PyTorch", "torch==2.12.1", ("pytest", "numpy", "expecttest", "hypothesis", "psutil"),
          tuple(f"test/test_cuda.py::Test{part}" for part in ("Cuda", "CudaAllocator", "BlockStateAbsorption", "CachingHostAllocatorCudaGraph", "MemPool")),
          "pytorch_2.12.1+dfsg.orig.tar.xz", "archive", device_bytes=80 << 30,
          select="graph or mem or pinned or stream or event or cach or Allocator or Absorption",
          values=("test_cusparse_multiple", "test_fixed_cuda_assert"),
          archive_sha256="95b6f85e1da2776f0cb0e5a635c4430b4e3f05b6ccb9e00237f3cecd15572875"),
    Suite("PyTorch, start", "torch", ("pytest", "numpy"), ("test_pytorch.py",), kind="start"),
    Suite("JAX, start", "jax[cuda13]", ("pytest", "numpy"), ("test_jax.py",), kind="start"),
    Suite("cuda.core, start", "cuda-core", ("cuda-bindings", "cuda-toolkit[nvrtc]", "pytest", "numpy"), ("test_cuda_core.py",), kind="start"),
    Suite("cuda.bindings, start", "cuda-bindings", ("cuda-toolkit[nvrtc]", "pytest", "numpy"), ("test_cuda_bindings.py",), kind="start"),
)


def run(command, **rest):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", **rest)


def environment(folder, packages):
    """The Python of a virtual environment that has the packages."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    run([python, "-m", "pip", "-q", "install", *packages], check=True)
    return python


def version_of(python, package):
    name = re.split(r"[\[=]", package, maxsplit=1)[0]
    return run([python, "-c", f"import importlib.metadata as m; print(m.version({name!r}))"], check=True).stdout.strip()


def checkout(source, tag, parts, target):
    """The repository at the tag, or at its newest commit, in the folder `target`. Returns it and what is checked out."""
    if not target.exists():
        run(["git", "clone", "-q", "--no-checkout", source, target], check=True)
    known = run(["git", "-C", target, "rev-parse", "-q", "--verify", tag + "^{commit}"]).returncode == 0
    revision = tag if known else run(["git", "-C", target, "rev-parse", "--short", "HEAD"], check=True).stdout.strip()
    run(["git", "-C", target, "checkout", "-q", revision, "--", *parts], check=True)
    return target, revision


def unpacked(suite, folder, source):
    """The tests of a source archive, which `source` (a file or an address) is copied from once, and which is held to its hash."""
    archive = folder / "source.tar.xz"
    if not archive.exists():
        if not source:
            raise OSError(f"Debian's {suite.repository} is not here: name it with --source {suite.name}=FILE_OR_ADDRESS")
        if "://" in source:
            urllib.request.urlretrieve(source, archive)
        else:
            shutil.copyfile(source, archive)
    with archive.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != suite.archive_sha256:
        raise OSError(f"{archive}: wanted sha256 {suite.archive_sha256}, got {got}; remove it")
    target = folder / "source"
    files = {test.partition("::")[0] for test in suite.tests}
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.name.partition("/")[2] in files]
        if len(members) != len(files):
            raise OSError(f"{archive}: lacks {', '.join(sorted(files - {member.name.partition('/')[2] for member in members}))}")
        tar.extractall(target, members, filter="data")
    return target / members[0].name.partition("/")[0]


def cause(message):
    """A failure's first line, without what differs from test to test. GoogleTest's first one is a place."""
    lines = ((message or "").strip() or "no message").splitlines()
    is_place = len(lines) > 1 and re.fullmatch(r"unknown file|/\S+:\d+", lines[0]) is not None
    line = re.sub(r"\s+", " ", lines[1 if is_place else 0])
    line = re.sub(r"^C\+\+ exception with description ", "", line)
    return re.sub(r"0x[0-9a-f]+|\b\d{3,}\b", "N", line)[:90].replace("|", "/")


def is_of_values(suite, case, message):
    return VALUES.search(message) is not None or any(case.get("name", "").startswith(part) for part in suite.values)


def said_in(bad):
    """A failure's message. Catch2 has an exception's in the text."""
    said = bad.get("message") or ""
    found = re.search(r"\{Unknown expression[^\n]*\n\s*(.*?)\s+at /", bad.text or "", re.DOTALL)
    return re.sub(r"/\S+:\s*\d+ ", "", re.sub(r"\s+", " ", found[1])) if found else said


class Totals:
    """Counts of a suite's tests, and causes of its failures."""

    def __init__(self, suite):
        self.suite = suite
        self.counts = collections.Counter()
        self.causes = collections.Counter()
        self.broken = []
        self.of_values = set()  # programs' tests that need values, by name

    def add_report(self, path):
        for case in xml.etree.ElementTree.parse(path).iter("testcase"):
            bad = case.find("failure") if case.find("failure") is not None else case.find("error")
            if bad is None:
                skipped = case.find("skipped") is not None or case.get("result") == "skipped" or case.get("status") == "notrun"
                self.counts["skipped" if skipped else "passed"] += 1
            elif is_of_values(self.suite, case, (bad.get("message") or "") + (bad.text or "")[-300:]):
                self.counts["values"] += 1
            else:
                self.counts["failed"] += 1
                self.causes[cause(said_in(bad))] += 1

    def add_case(self, name, is_good, message):
        """One test of a program that does not report as XML."""
        if is_good:
            self.counts["passed"] += 1
        elif is_of_values(self.suite, {"name": name}, message):
            self.counts["values"] += 1
            self.of_values.add(name)
        else:
            self.counts["failed"] += 1
            self.causes[cause(message)] += 1

    def add_words_of_thrust(self, text):
        """What Thrust's framework said: a line for each test, and after all of them what failed, with its message."""
        messages = dict(re.findall(r"^(?:FAILURE|ERROR): (\S+)\n(.*)", text, re.MULTILINE))
        for outcome, name in re.findall(r"\[(PASS|FAILURE|KNOWN FAILURE|ERROR)\] +(?:[\d.e+-]+ ms )?(\S+)$", text, re.MULTILINE):
            self.add_case(name, outcome in ("PASS", "KNOWN FAILURE"), messages.get(name, outcome))

    def environment(self):
        memory = {"SIMCUDA_TOTAL_BYTES": str(self.suite.device_bytes)} if self.suite.device_bytes else {}
        return {**os.environ, "SIMCUDA_DEVICES": str(self.suite.devices), **memory}

    def ran(self, command, name, folder, cwd=None):
        """The exit code and the last output of a test program, or None where it was ended: that is noted. Tests of values may print gigabytes."""
        log = b""
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd or folder,
                              env=self.environment(), start_new_session=True) as process:
            clock = threading.Timer(TIMEOUT_S, lambda: os.killpg(process.pid, signal.SIGKILL))
            clock.start()
            for piece in iter(lambda: process.stdout.read1(LOG_BYTES_MAX), b""):
                log = (log + piece)[-LOG_BYTES_MAX:]
            code = process.wait()
            is_late = not clock.is_alive()
            clock.cancel()
        text = log.decode(errors="replace")
        (folder / f"{name}.log").write_text(text)
        if is_late or not 0 <= code < 128:
            self.broken.append(f"{name}: no end after {TIMEOUT_S} s" if is_late else f"{name}: exit code {code}")
            return None
        return code, text

    def add_run(self, command, name, folder, cwd=None):
        """Runs a test program, which writes its report. Notes what ended it early."""
        report = folder / f"{name}.xml"
        report.unlink(missing_ok=True)
        done = self.ran([str(word).replace("REPORT", str(report)) for word in command], name, folder, cwd)
        if report.exists() and report.stat().st_size:
            self.add_report(report)
        elif done:
            self.broken.append(f"{name}: exit code {done[0]}")

    def add_program(self, command, name, folder, kind):
        """Runs a program of suites/NAME/CMakeLists.txt, which reports as `kind` says."""
        if any("REPORT" in word for word in REPORTS[kind]):
            self.add_run([*command, *REPORTS[kind]], name, folder)
            return
        done = self.ran([*command, *REPORTS[kind]], name, folder)
        if done is None:
            self.counts["failed"] += 1
        elif kind == "thrust":
            self.add_words_of_thrust(done[1].replace("\r", "\n"))
        elif done[0] == WAIVED:
            self.counts["skipped"] += 1
        else:
            self.add_case(name, done[0] == 0, f"{name}: exit code {done[0]}")


def pytest_command(launcher, python, *words):
    return [launcher, "--kernels", "nothing", python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "consider_namespace_packages=true",
            "--junitxml=REPORT", *words]


def run_wheel(launcher, suite, folder, sources, totals):
    """Tests of a Python project. Returns its version and where they come from."""
    source = sources.get(suite.name)
    python = environment(folder, (suite.package, *suite.more))
    version = version_of(python, suite.package)
    if suite.kind == "repository":
        root, revision = checkout(source or suite.repository, suite.tag.format(version), ("tests",), folder / "source")
        for test in suite.tests:
            totals.add_run(pytest_command(launcher, python, root / test), pathlib.Path(test).stem, folder)
        return version, revision
    if suite.kind == "archive":
        root = unpacked(suite, folder, source)
        words = ("--tb=native", "--rootdir", root / "test", "-k", suite.select)
        collect = pytest_command(launcher, python, "--collect-only", *words, *(root / test for test in suite.tests))
        collected = run([word for word in collect if word != "--junitxml=REPORT"], cwd=root / "test", env=totals.environment()).stdout
        for test in re.findall(r"^(\S+::\S+)$", collected, re.MULTILINE):
            totals.add_run(pytest_command(launcher, python, *words, root / "test" / test), re.sub(r"\W+", "_", test), folder, root / "test")
        return version, f"Debian's {suite.repository}"
    if suite.kind == "start":
        for test in suite.tests:
            totals.add_run(pytest_command(launcher, python, HERE / "start" / test), test, folder)
        return version, f"`suites/start/{suite.tests[0]}`"
    # The wheel has the tests, and the repository what pytest needs for them.
    root, revision = checkout(source or suite.repository, suite.tag.format(version), ("testing",), folder / "source")
    for test in suite.tests:
        totals.add_run(pytest_command(launcher, python, "-o", "addopts=", "--pyargs", test), test.rpartition(".")[2], folder, root / "testing")
    return version, revision


def wheels_of(suite, folder):
    """Unpacks the wheels whose headers a build needs. Returns their folder, and the version of the first."""
    target = folder / "wheels"
    run([sys.executable, "-m", "pip", "-q", "install", "--upgrade", "--no-deps", "--target", target, suite.package, *suite.more], check=True)
    name = suite.package.partition("=")[0]
    return target, next(found.version for found in importlib.metadata.distributions(name=name, path=[str(target)]))


def run_build(launcher, suite, folder, sources, totals, jobs):
    """Tests of a C++ library, which are built from its sources. Returns its version and where they come from."""
    version, places = suite.tag.removeprefix("v"), {}
    if suite.package:
        places["WHEELS"], version = wheels_of(suite, folder)
    places["SOURCE"], revision = checkout(sources.get(suite.name, suite.repository), suite.tag.format(*version.split(".")), suite.tests, folder / "source")
    for name, repository, tag in suite.sources:
        places[name.upper()], _ = checkout(sources.get(name, repository), tag, (".",), folder / name.lower())
    build = folder / "build"
    run(["cmake", "-G", "Ninja", "-S", HERE / suite.name.lower().replace("-", "_"), "-B", build, "-DCMAKE_CUDA_ARCHITECTURES=90-virtual",
         "-DCMAKE_CXX_FLAGS=-O0 -w", "-DCMAKE_CUDA_FLAGS=-O0 -w", *(f"-D{name}={place.resolve()}" for name, place in places.items())], check=True)
    run(["cmake", "--build", build, "--parallel", jobs, "--", "-k", "0"])
    for kind in REPORTS:
        for program in sorted(path for path in (build / kind).glob("*") if path.suffix == "" and path.is_file()):
            totals.add_program([launcher, "--kernels", suite.kernels, program], program.name, build / kind, kind)
    wanted = run(["cmake", "--build", build, "--", "-n", "-k", "0"]).stdout.count("Linking")
    if wanted:
        totals.broken.append(f"{wanted} programs do not build")
    return version, revision


def run_suite(launcher, work, suite, sources, jobs):
    folder = work / suite.name.partition(",")[0]
    folder.mkdir(parents=True, exist_ok=True)
    totals = Totals(suite)
    if suite.kind == "build":
        version, revision = run_build(launcher, suite, folder, sources, totals, jobs)
    else:
        version, revision = run_wheel(launcher, suite, folder, sources, totals)
    return {"name": suite.name, "version": version, "revision": revision, "totals": totals}


def kept_rows(path, names):
    """The lines of both tables of an earlier page, those of the named suites left out."""
    tables = path.read_text().split("\nFailures by cause:\n") if path.exists() else ["", ""]
    return [[line for line in table.splitlines() if re.match(r"\| \w", line) and not line.startswith("| suite |") and
             line.split("|")[1].strip() not in names] for table in tables]


def page(rows, kept=((), ())):
    today = datetime.date.today().isoformat()
    lines = ["# Other projects' tests on simcuda", "",
             f"Made by `scripts/measure/simcuda_suites.py`, its newest rows on {today}. Kernels do nothing:",
             "tests that look at what one wrote cannot pass, and stand in a column of their own. The last column",
             "leaves them out.", "",
             "| suite | version | tests from | run | passed | skipped | need values | failed | passed of the rest |",
             "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |", *kept[0]]
    for row in rows:
        if "crash" in row:
            lines.append(f"| {row['name']} | {row['version']} | {row['crash']} | | | | | | |")
            continue
        counts = row["totals"].counts
        rest = counts["passed"] + counts["failed"]
        share = f"{100 * counts['passed'] / rest:.1f} %" if rest else ""
        lines.append(f"| {row['name']} | {row['version']} | {row['revision']} | {rest + counts['values']} | {counts['passed']} | {counts['skipped']} | "
                     f"{counts['values']} | {counts['failed']} | {share} |")
    lines += ["", "Failures by cause:", "", "| suite | cause | tests |", "| --- | --- | ---: |", *kept[1]]
    for row in rows:
        if "crash" in row:
            continue
        for what in row["totals"].broken:
            lines.append(f"| {row['name']} | {what} | the file |")
        if names := sorted(row["totals"].of_values):
            lines.append(f"| {row['name']} | need values: {', '.join(names)} | {len(names)} |")
        for what, count in row["totals"].causes.most_common(12):
            lines.append(f"| {row['name']} | {what} | {count} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("launcher", type=pathlib.Path)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("simcuda_suites"))
    parser.add_argument("--source", action="append", default=[], help="NAME=REPOSITORY in place of the project's own address, of a suite or of what "
                        "its build needs; of a suite from a source archive, that file")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at once")
    parser.add_argument("--only", action="append", default=[], help="a suite's name; all where none is given. PAGE keeps the others' rows")
    options = parser.parse_args()
    sources = dict(one.split("=", 1) for one in options.source)
    unknown = set(options.only) - {suite.name for suite in SUITES}
    if unknown:
        parser.error(f"--only {', '.join(sorted(unknown))}: wanted {', '.join(suite.name for suite in SUITES)}")
    rows = []
    for suite in SUITES:
        if options.only and suite.name not in options.only:
            continue
        if suite.reason:
            rows.append({"name": suite.name, "version": suite.tag, "crash": f"not run: {suite.reason}"})
            continue
        try:
            rows.append(run_suite(options.launcher.resolve(), options.work.resolve(), suite, sources, options.jobs))
        except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            rows.append({"name": suite.name, "version": "", "crash": f"not run: {cause(getattr(error, 'stderr', None) or str(error))}"})
    text = page(rows, kept_rows(options.page, {row["name"] for row in rows}))
    options.page.write_text(text)
    print(text, end="")
    known = {suite.name for suite in SUITES if suite.reason}
    return any(row["name"] not in known and ("crash" in row or row["totals"].broken) for row in rows)


if __name__ == "__main__":
    sys.exit(main())

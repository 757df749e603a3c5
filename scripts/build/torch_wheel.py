#!/usr/bin/env python3
"""Takes from a wheel of PyTorch what its allocator needs, without loading the rest: libc10.so, libc10_cuda.so, the headers of both,
and the header that is the whole cache of pinned memory.

A wheel is a zip archive of 500 to 900 MB; where it lies on a server, ranges of it are read, about 14 MB. Where the libraries want
another CUDA runtime than the program's, that runtime and its headers come from its own wheel. pip says where wheels are. What is read must be
what the wheel's own list says, and of releases in torch_files.txt what was read when they were added there.

scripts/build/torch_wheel.py VERSION FOLDER [--wheel FILE]     used by scripts/build/fetch_torch.sh
"""
import argparse
import base64
import csv
import hashlib
import io
import json
import platform
import re
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

LIBRARIES = ("torch/lib/libc10.so", "torch/lib/libc10_cuda.so")
HEADERS = ("torch/include/c10/", "torch/include/torch/headeronly/", "torch/include/ATen/core/CachingHostAllocator.h")
OLDEST = (2, 9)
MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine of an ELF file
BUFFER_BYTES = 4 << 20


KNOWN_FILES = Path(__file__).resolve().with_name("torch_files.txt")


class Refused(Exception):
    """What cannot be served, in words; the exit code is 2."""


class RemoteFile(io.RawIOBase):
    """A file on a server, read in ranges."""

    def __init__(self, url):
        self.url, self.position = url, 0
        with self.open_range(0, 0) as answer:
            size = answer.headers.get("Content-Range", "/").split("/")[1]
        if not size.isdigit():
            raise Refused("the server of the wheels does not serve ranges of a file; load the wheel and give it with --wheel")
        self.size = int(size)

    def open_range(self, first, last):
        return urllib.request.urlopen(urllib.request.Request(self.url, headers={"Range": f"bytes={first}-{last}"}), timeout=60)

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.position

    def seek(self, offset, whence=io.SEEK_SET):
        self.position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        return self.position

    def readinto(self, buffer):
        count = min(len(buffer), self.size - self.position)
        if count <= 0:
            return 0
        with self.open_range(self.position, self.position + count - 1) as answer:
            data = answer.read()
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)


def url_of(requirement):
    """Where pip would take it from; nothing is loaded but its metadata."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--only-binary", ":all:",
                   "--report", str(report), requirement]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode == 0:
            return json.loads(report.read_text())["install"][0]["download_info"]["url"]
    known = re.search(r"from versions: ([^)]*)\)", ran.stderr)
    if known:
        newest = ", ".join(known[1].split(", ")[-8:])
        raise Refused(f"pip finds no {requirement} for this Python and machine; it finds: {newest}")
    raise Refused(f"pip cannot say where {requirement} is (pip 22.2 or newer, python3 -m pip): {ran.stderr.strip().splitlines()[-1:]}")


def open_wheel(requirement, path):
    try:
        if path:
            return zipfile.ZipFile(path)
        return zipfile.ZipFile(io.BufferedReader(RemoteFile(url_of(requirement)), BUFFER_BYTES))
    except (OSError, zipfile.BadZipFile) as problem:
        raise Refused(f"{path or requirement}: no wheel can be read: {problem}") from problem


def listed_hashes(wheel):
    """What the wheel says of its own files: {name: SHA-256 in base64}. Of a wheel that is read in ranges it is all that can be held against; pip
    does the same. Empty where a wheel that somebody built lists nothing."""
    lists = [name for name in wheel.namelist() if re.fullmatch(r"[^/]+\.dist-info/RECORD", name)]
    rows = csv.reader(wheel.read(lists[0]).decode().splitlines()) if lists else []
    return {row[0]: row[1].removeprefix("sha256=") for row in rows if len(row) == 3 and row[1].startswith("sha256=")}


def read(wheel, name, hashes):
    data = wheel.read(name)
    made = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    if hashes and hashes.get(name, "").rstrip("=") != made:
        raise Refused(f"{name} is not the file that the wheel lists: its SHA-256 is {made}")
    return data


def digest(taken):
    """One hash of all that was taken from a wheel: {name: bytes}. The same for every version of Python."""
    rows = sorted((name, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")) for name, data in taken.items())
    return hashlib.sha256("".join(f"{name},{made}\n" for name, made in rows).encode()).hexdigest()


def known_rows(known=KNOWN_FILES):
    """{"NAME==VERSION MACHINE": hash}."""
    return dict(line.rsplit(None, 1) for line in known.read_text().splitlines() if line and not line.startswith("#"))


def check_known(release, taken, known=KNOWN_FILES):
    """Holds what came over the network against what the same release gave before; says so where that is not known."""
    rows = known_rows(known)
    wanted, made = rows.get(f"{release} {platform.machine()}"), digest(taken)
    if wanted is None:
        print(f"torch_wheel: note: {release} for {platform.machine()} is not in {known.name}: its files are what its own list says, no more",
              file=sys.stderr)
    elif wanted != made:
        raise Refused(f"{release} is not what it was: its files have the hash {made}, wanted {wanted} ({known.name}); nothing is kept")


def write(folder, name, data):
    if ".." in Path(name).parts or Path(name).is_absolute():
        raise Refused(f"the wheel holds a file that leads out of its folder: {name}")
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def check_machine(name, library):
    machine = MACHINES.get(struct.unpack_from("<H", library, 18)[0], "another machine") if library[:4] == b"\x7fELF" else "no Linux"
    if machine != platform.machine():
        raise Refused(f"the wheel is for {machine}, and this machine is {platform.machine()} ({name})")


def is_version(stated, version, before_release):
    """A wheel that somebody built may say 2.16.0a0+git1234567 or 2.16.0.dev20261101+cu130 where 2.16.0 is meant."""
    public = stated.split("+")[0]
    return public == version or (before_release and re.fullmatch(re.escape(version) + r"(a|b|rc|\.dev)\d+", public) is not None)


def take_torch(version, folder, path):
    """Returns the major version of the CUDA runtime that the libraries want, and the CUDA version."""
    wheel = open_wheel(f"torch=={version}", path)
    names = wheel.namelist()
    hashes = listed_hashes(wheel)
    if not path and not hashes:
        raise Refused(f"the wheel of torch=={version} lists no hashes of its files")
    if "torch/version.py" not in names:
        raise Refused(f"{path}: this is no wheel of PyTorch")
    stated = re.search(r"__version__ = '([^']+)'", wheel.read("torch/version.py").decode())[1]
    if not is_version(stated, version, before_release=path is not None):
        raise Refused(f"the wheel holds PyTorch {stated}, not {version}")
    if LIBRARIES[1] not in names:
        raise Refused(f"PyTorch {stated} is a CPU-only wheel: it has no {LIBRARIES[1]}")
    for name in LIBRARIES:
        check_machine(name, read(wheel, name, hashes))
    taken = {name.removeprefix("torch/"): read(wheel, name, hashes) for name in names
             if name in LIBRARIES or (name.startswith(HEADERS) and not name.endswith("/"))}
    if not path:
        check_known(f"torch=={version}", taken)
    for name, data in {**taken, "version.py": read(wheel, "torch/version.py", hashes)}.items():
        write(folder, name, data)
    cuda = re.search(r"cuda[^=\n]*= '([0-9.]+)'", wheel.read("torch/version.py").decode())
    runtime = re.search(rb"libcudart\.so\.([0-9]+)", wheel.read(LIBRARIES[1]))
    return int(runtime[1]), cuda[1] if cuda else ""


def take_runtime(folder, major, cuda):
    """libcudart and its headers, for a program that has another one."""
    prefix = f"nvidia-cuda-runtime-cu{major}=={cuda}."
    package = next((row.split()[0] for row in known_rows() if row.startswith(prefix)), f"{prefix}*")
    wheel = open_wheel(package, None)
    hashes = listed_hashes(wheel)
    if not hashes:
        raise Refused(f"the wheel of {package} lists no hashes of its files")
    taken = {}
    for name in wheel.namelist():
        found = re.match(r"nvidia/cuda_runtime/(?:lib/(libcudart\.so\.\d+)|(include/.+))$", name)
        if found and not name.endswith("/"):
            taken[f"cuda/{found[1] or found[2]}"] = read(wheel, name, hashes)
    check_known(package, taken)
    for name, data in taken.items():
        write(folder, name, data)


def main(argv=None):
    parser = argparse.ArgumentParser(description="Take from a wheel of PyTorch what its allocator needs.")
    parser.add_argument("version")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wheel", help="a wheel that lies here [pip's]")
    arguments = parser.parse_args(argv)
    try:
        if tuple(int(number) for number in arguments.version.split(".")[:2]) < OLDEST:
            raise Refused(f"PyTorch {arguments.version} is older than 2.9, the oldest whose rules are known")
        major, cuda = take_torch(arguments.version, arguments.folder, arguments.wheel)
        if major < 13:
            take_runtime(arguments.folder, major, cuda)
    except urllib.error.URLError as problem:
        print(f"torch_wheel: error: the network does not answer: {problem.reason}", file=sys.stderr)
        return 4
    except Refused as refusal:
        print(f"torch_wheel: error: {refusal}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

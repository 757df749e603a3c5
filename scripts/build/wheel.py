#!/usr/bin/env python3
"""Makes a Python wheel of an installed tree, so that pip brings allocmark and simcuda-run into an environment.

usage: wheel.py BUILD_FOLDER OUT_FOLDER [--cmake CMAKE]

Installs the build folder into a wheel's data part: pip puts bin/, lib/ and share/ into the environment, and the programs find each other from their own
place. Libraries of the system that are not on every Linux (fmt, zstd) come along. The tag says linux_x86_64 and not manylinux: the wheel runs where libc
and libstdc++ are at least as new as here. Needs Python 3.11 and no packages. Prints the wheel's path."""

import argparse
import base64
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# By the beginning of their names: what no base system promises.
BROUGHT = ("libfmt", "libzstd")
METADATA = """Metadata-Version: 2.1
Name: allocmark
Version: {version}
Summary: Stress tests and benchmarks for GPU memory allocators; needs no GPU
License: Apache-2.0
Requires-Python: >=3.11
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: allocmark\nRoot-Is-Purelib: false\nTag: {tag}\n"
TAG = "py3-none-linux_x86_64"


def version_of(build):
    found = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(\S+)", (build / "CMakeCache.txt").read_text(), re.M)
    if not found:
        raise SystemExit(f"{build}/CMakeCache.txt: wanted CMAKE_PROJECT_VERSION, got none; configure the build first")
    return found[1]


def libraries_of(program):
    """(name, path) of the libraries that it needs beside those of every system."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [(name, Path(path)) for name, path in re.findall(r"^\s*(\S+) => (/\S+)", listed, re.M) if name.startswith(BROUGHT)]


def licence_of(library):
    """The terms of a library that comes along, as its Debian package has them."""
    found = subprocess.run(["dpkg", "-S", library.resolve(), library], capture_output=True, text=True).stdout
    for package in re.findall(r"^([^:\s]+)[:\s]", found, re.M):
        if (terms := Path("/usr/share/doc") / package / "copyright").is_file():
            return terms
    raise SystemExit(f"{library}: wanted the package that it is of, to bring its licence along, got none; make the wheel on Debian or Ubuntu")


def installed(build, cmake, prefix):
    done = subprocess.run([cmake, "--install", build, "--strip", "--prefix", prefix], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{cmake} --install {build}: {done.stderr.strip()[-300:]}; build it first")
    licences = prefix / "share" / "doc" / "allocmark" / "brought"
    licences.mkdir(parents=True)
    for name, path in libraries_of(prefix / "bin" / "allocmark"):
        # The program looks beside CUDA's runtime, simcuda's libraries beside themselves.
        for folder in ("lib/allocmark", "lib/simcuda"):
            (prefix / folder / name).write_bytes(path.read_bytes())
        (licences / f"{name}.copyright").write_bytes(licence_of(path).read_bytes())
    return sorted(path for path in prefix.rglob("*") if path.is_file())


def entry(name, path):
    """A file with its rights: pip makes programs of those that are executable."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # no date: the same tree gives the same wheel
    info.external_attr = (0o100755 if path and path.stat().st_mode & 0o111 else 0o100644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def make(build, out, cmake):
    version = version_of(build)
    base, tagged = f"allocmark-{version}", f"allocmark-{version}-{TAG}.whl"
    out.mkdir(parents=True, exist_ok=True)
    record = []
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(out / tagged, "w") as wheel:
        prefix = Path(folder)

        def put(name, content, path=None):
            wheel.writestr(entry(name, path), content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")

        for path in installed(build, cmake, prefix):
            put(f"{base}.data/data/{path.relative_to(prefix)}", path.read_bytes(), path)
        put(f"{base}.dist-info/METADATA", METADATA.format(version=version).encode())
        put(f"{base}.dist-info/WHEEL", WHEEL.format(tag=TAG).encode())
        name = f"{base}.dist-info/RECORD"
        wheel.writestr(entry(name, None), "".join(record) + f"{name},,\n")
    return out / tagged


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cmake", default="cmake")
    arguments = parser.parse_args()
    if not (arguments.build / "CMakeCache.txt").is_file():
        parser.error(f"{arguments.build}: wanted a folder that cmake configured and ninja built, got none there; see README.md")
    print(make(arguments.build, arguments.out, arguments.cmake))
    return 0


if __name__ == "__main__":
    sys.exit(main())

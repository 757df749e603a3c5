#!/usr/bin/env python3
"""A long snapshot is read in bounded memory: at most so many bytes for each entry, however long the history is, and whether its
list is written in batches or in one piece. The times and sizes of a whole gigabyte are in workloads/IMPORT.md.

usage: memory_test.py ALLOCMARK
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ENTRY_BYTES_MAX = 54  # 47 to 50 are measured, since pages are counted; 8 more would show
MAKER = Path(__file__).resolve().parent / "large_snapshot.py"


def peak_bytes(program, path):
    """The most memory that this one process held."""
    pid = os.posix_spawn(program, [program, "trace", "summary", path], {**os.environ},
                         file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, f"trace summary of {path}: status {status}"
    return usage.ru_maxrss * 1024


def bytes_per_entry(program, folder, shape):
    peaks, counts = [], []
    for size_bytes in ("5e6", "45e6"):
        path = os.path.join(folder, f"{size_bytes}.pickle")
        said = subprocess.run([sys.executable, MAKER, path, size_bytes, *shape], check=True, capture_output=True, text=True).stdout
        counts.append(int(said.split()[-2]))
        peaks.append(peak_bytes(program, path))
    grown = (peaks[1] - peaks[0]) / (counts[1] - counts[0])
    print(f"{' '.join(shape) or 'batches'}, {counts[1]} entries: {peaks[1] / 2**20:.0f} MiB, {grown:.1f} bytes for each entry more, "
          f"at most {ENTRY_BYTES_MAX}")
    return grown


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        grown = [bytes_per_entry(program, folder, shape) for shape in ([], ["whole"])]
    return 0 if max(grown) <= ENTRY_BYTES_MAX else 1


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))

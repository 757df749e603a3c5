#!/usr/bin/env python3
"""Goal: 'allocmark simcheck' says nothing of equal devices, and finds and shortens what differs. Method: two simulated devices,
once alike, once with less memory."""

import subprocess
import sys
import tempfile
from pathlib import Path

program = sys.argv[1]


def simcheck(*words):
    run = subprocess.run([program, "simcheck", *words], capture_output=True, text=True)
    return run.returncode, run.stdout, run.stderr


code, out, err = simcheck("--on", "sim:h200", "--against", "sim:h200", "--seeds", "4", "--events", "300", "fuzz_s1")
assert code == 0, (code, out, err)
assert "0 differences" in out and out.count("0 of 6 programs differ") == 8, out
assert "failed requests), 0" in out and "(0 failed" not in out, out

with tempfile.TemporaryDirectory() as folder:
    code, out, err = simcheck("--on", "sim:h200", "--against", "sim:h200,memory=1GiB", "--first-seed", "2", "--seeds", "2",
                              "--allocator", "native", "--allocator", "async", "--conf", "unset",
                              "--conf", "async=release_threshold_mb:max", "--save", folder)
    assert code == 1, (code, out, err)
    assert "differs, after 0 failed requests" in out and ": oom " in out, out
    heads = [line.split(": ")[0] for line in out.splitlines() if line.endswith("programs differ")]
    assert heads == ["native", "async", "async=release_threshold_mb:max"], out
    saved = sorted(Path(folder).glob("simcheck_*.csv"))
    assert saved, out
    rows = saved[0].read_text().splitlines()
    assert rows[0] == "op,id,size,stream" and rows[-1].startswith("alloc,") and len(rows) < 60, rows
    for trace in saved:
        code, out, err = simcheck("--on", "sim:h200", "--against", "sim:h200", "--seeds", "0", "-a", "async", f"file:{trace}")
        assert code == 0 and "0 of 2 programs differ" in out, (trace, code, out, err)

# Calls of the driver itself: each block is asked about, and misuse is answered.
code, out, err = simcheck("--driver", "--on", "sim:h200", "--against", "sim:h200", "--seeds", "4", "--events", "300")
assert code == 0, (code, out, err)
for kind in ("malloc", "pool", "map"):
    assert f"driver={kind}: 0 of 4 programs differ" in out, out
code, out, err = simcheck("--driver", "--on", "sim:h200", "--against", "sim:h200,memory=1GiB", "--seeds", "2", "--events", "300")
assert code == 1, (code, out, err)
assert " range 0 0 " in out and " kind 2 0 0 bytes 1" in out, out
code, out, err = simcheck("--driver", "--allocator", "native", "--seeds", "1")
assert code == 2 and "--driver" in err, (code, err)

code, out, err = simcheck("--on", "sim:h200", "--allocator", "native", "--conf", "nonsense:1", "--seeds", "1")
assert code == 2 and "nonsense" in err, (code, err)
code, out, err = simcheck("--on", "sim:h2000")
assert code == 2, (code, err)

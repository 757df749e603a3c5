#!/usr/bin/env python3
"""What mooncake_trace.py makes of a log: which blocks are asked, read back and dropped, and what pins for them.

mooncake_trace_test.py PATH/TO/allocmark
"""
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/record/mooncake_trace.py"
BLOCK = 512 * 131072


def convert(folder, requests, *options):
    log = folder / "log.jsonl"
    log.write_text("".join((request if isinstance(request, str) else json.dumps(request)) + "\n" for request in requests), encoding="utf-8")
    out = folder / "kv.csv.gz"
    told = subprocess.run([sys.executable, str(SCRIPT), str(log), "--out", str(out), *options], capture_output=True, text=True)
    rows = gzip.open(out, "rt", encoding="utf-8").read().splitlines() if told.returncode == 0 else []
    return told, [line for line in rows if not line.startswith(("#", "op,"))], out


def request(ms, tokens, ids):
    return {"timestamp": ms, "input_length": tokens, "output_length": 9, "hash_ids": ids}


def check_rows(folder):
    # The prefix of two blocks is read back; the last block of a prompt holds what is left.
    told, rows, _ = convert(folder, [request(0, 1100, [0, 1, 2]), request(2500, 1030, [0, 1, 3])])
    assert told.returncode == 0, told.stderr
    asked = [line for line in rows if line.startswith("host_alloc")]
    assert asked == [f"host_alloc,0,{BLOCK},0", f"host_alloc,1,{BLOCK},0", f"host_alloc,2,{76 * 131072},0", f"host_alloc,3,{6 * 131072},0"], asked
    assert [line for line in rows if line.startswith("host,")] == ["host,0,2500000000,0"]
    assert f"kernel,0,{BLOCK // 50},1" in rows
    recorded = [line.split(",")[1] for line in rows if line.startswith("host_record")]
    assert recorded == ["0", "1", "2", "0", "1", "3"], recorded
    assert "6 blocks asked, 33% there" in told.stdout, told.stdout
    assert sum(line.startswith("host_free") for line in rows) == 4
    # 16 blocks of 64 MiB are a GiB: the 17th drops the one that was used longest ago, which is not the first.
    told, rows, _ = convert(folder, [request(0, 512 * 16, list(range(16))), request(1, 512 * 2, [0, 99])], "--budget-gib", "1")
    assert next(line for line in rows if line.startswith("host_free")) == "host_free,1,0,0", rows
    assert "1.00 GiB held at most" in told.stdout, told.stdout
    # A block that held fewer tokens is stored anew; four ranks share a token.
    told, rows, _ = convert(folder, [request(0, 100, [5]), request(1, 600, [5, 6])], "--ranks", "4", "--bus-gbs", "1")
    assert [line for line in rows if line.startswith("host_alloc")][:2] == [f"host_alloc,0,{100 * 32768},0", f"host_alloc,1,{BLOCK // 4},0"], rows


def check_refusals(folder):
    for wrong, words in (("{}", "hash_ids"), ("[1]", "hash_ids"), ("no", "log.jsonl:1"), (request(0, 513, [1]), "each 512 of 513 tokens")):
        told, _, _ = convert(folder, [wrong])
        assert told.returncode == 1 and words in told.stderr, (wrong, told.stderr)
    told, rows, _ = convert(folder, [request(0, 1, [1]), "no"], "--requests", "1")
    assert told.returncode == 0 and rows


def check_pinned(folder, program):
    # Rests of 5 and 9 MiB are rounded up to 8 and 16.
    _, _, out = convert(folder, [request(0, 40, [1]), request(1, 72, [2]), request(2, 512, [3])])
    told = subprocess.run([program, "pinned", "--workload", f"file:{out}", "--format", "json"], check=True, capture_output=True, text=True)
    answer = json.loads(told.stdout)
    assert answer["asked_bytes"] == (5 + 9 + 64) << 20, answer["asked_bytes"]
    assert answer["rows"][0]["pinned_bytes"] == (8 + 16 + 64) << 20, answer["rows"][0]


def main():
    with tempfile.TemporaryDirectory() as name:
        check_rows(Path(name))
        check_refusals(Path(name))
        check_pinned(Path(name), sys.argv[1])


if __name__ == "__main__":
    main()

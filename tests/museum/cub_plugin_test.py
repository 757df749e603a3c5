#!/usr/bin/env python3
"""'allocmark conformance' names the races of CUB's class, which nobody planted: the block that goes out before its event is
recorded, and the rules that it keeps.

Usage: cub_plugin_test.py ALLOCMARK CUB_PLUGIN.so CUB_RATE SIMCUDA_FOLDER
"""
import json
import os
import subprocess
import sys

allocmark, plugin, rate, simcuda = sys.argv[1:5]
done = subprocess.run([allocmark, "conformance", f"{plugin},trim:my_trim", "--format", "json", "--timeout", "60"],
                      capture_output=True, text=True)
rules = {rule["name"]: rule for rule in json.loads(done.stdout)["rules"]}
for rule in rules.values():
    print(f"{rule['outcome']:4}  {rule['name']:15}  {rule['seen']}")
seen = rules["preemption"]["seen"]
assert done.returncode == 1, done.stderr
assert rules["preemption"]["outcome"] == "fail", seen
assert "a free stood at the begin of cuda" in seen, seen
assert "whose stream may still use it" in seen, seen
# With one thread its order of streams is right.
for name in ("stream-order", "stream-argument", "overlap", "contents", "trim", "recovery"):
    assert rules[name]["outcome"] == "pass", rules[name]

# One thread meets no race: the counts are not made by the counter.
alone = subprocess.run([rate, "1", "20000", "1"], capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": simcuda})
print(alone.stdout, alone.stderr)
assert alone.stdout == "1,10000,0,0\n", alone

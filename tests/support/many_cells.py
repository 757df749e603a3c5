"""A run of many cells, made from a real one of few: every cell again with other seeds. Usage: many_cells.py RUN COUNT OUT [MISSING]

Files of a run's folder flow in; a folder of COUNT cells flows out, which reads like a run that was measured
but for its last MISSING cells.
"""
import json
import sys
from pathlib import Path

KEY = ("workload", "allocator", "conf", "device", "capacity", "seed", "on_oom")


def key_of(cell):
    return [cell.get(name) for name in KEY]


def cell_id(cell):
    """As results/schema.cc hashes a key."""
    texts = [str(cell[name]) for name in KEY]
    definition, files = cell.get("workload_definition", ""), cell.get("workload_files", "")
    texts += [definition] * bool(definition or files) + [files] * bool(files)
    value = 0xCBF29CE484222325
    for byte in b"".join(b"%d:%s," % (len(text.encode()), text.encode()) for text in texts):
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{value:016x}"


def copies(cells, count):
    for number in range(count):
        cell = dict(cells[number % len(cells)])
        cell["seed"] += number // len(cells)
        cell["cell_id"] = cell_id(cell)
        yield cell


def make_many_cells(run, count, out, missing=0):
    run, out = Path(run), Path(out)
    out.mkdir()
    environment, *lines = (run / "results.jsonl").read_text().splitlines()
    plan = json.loads((run / "plan.json").read_text())
    # Cells end in another order than they are planned.
    cells = sorted((json.loads(line) for line in lines), key=lambda cell: [key_of(planned) for planned in plan["cells"]].index(key_of(cell)))
    with open(out / "results.jsonl", "w") as file:
        file.write(environment + "\n")
        for cell in copies(cells, count - missing):
            file.write(json.dumps(cell, separators=(",", ":"), ensure_ascii=False) + "\n")
    plan["cells"] = list(copies(plan["cells"], count))
    (out / "plan.json").write_text(json.dumps(plan, indent=1))


if __name__ == "__main__":
    make_many_cells(sys.argv[1], int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))

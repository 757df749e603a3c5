"""A run of many cells, made from a real one of few: every cell again with other seeds. Usage: many_cells.py RUN COUNT OUT [MISSING]

Files of a run's folder flow in; a folder of COUNT cells flows out, which reads like a run that was measured
but for its last MISSING cells. Of an A/B run it makes one of COUNT cells with all their rounds.
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


def key_text(cell):
    return json.dumps(key_of(cell))


def with_seed(cell, more):
    cell = cell | {"seed": cell["seed"] + more}
    return cell | {"cell_id": cell_id(cell)}


def copies(cells, count):
    return (with_seed(cells[number % len(cells)], number // len(cells)) for number in range(count))


def write_jsonl(path, first, rows):
    with open(path, "w") as file:
        file.write(first)
        for row in rows:
            file.write(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n")


def make_many_turns(run, count, out):
    plan = json.loads((run / "interleaved.json").read_text())
    times = -(-count // len(plan["cells"]))
    sides = [list(copies([cell[side] for cell in plan["cells"]], times * len(plan["cells"]))) for side in ("base", "new")]
    plan["cells"] = [cell | {"base": base, "new": new} for cell, base, new in zip(plan["cells"] * times, *sides)][:count]
    (out / "interleaved.json").write_text(json.dumps(plan, indent=1))
    rounds = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    kept = [{key_text(cell[side]) for cell in plan["cells"]} for side in ("base", "new")]
    made = (row | {"cell": cell} for row in rounds for cell in (with_seed(row["cell"], more) for more in range(times)) if key_text(cell) in kept[row["side"]])
    write_jsonl(out / "rounds.jsonl", "", made)
    for side in plan["sides"]:
        make_many_cells(run / side["label"], count, out / side["label"])


def make_many_cells(run, count, out, missing=0):
    run, out = Path(run), Path(out)
    out.mkdir()
    if (run / "interleaved.json").exists():
        make_many_turns(run, count, out)
        return
    environment, *lines = (run / "results.jsonl").read_text().splitlines()
    plan = json.loads((run / "plan.json").read_text())
    # Cells end in another order than they are planned.
    cells = sorted((json.loads(line) for line in lines), key=lambda cell: [key_of(planned) for planned in plan["cells"]].index(key_of(cell)))
    write_jsonl(out / "results.jsonl", environment + "\n", copies(cells, count - missing))
    plan["cells"] = list(copies(plan["cells"], count))
    (out / "plan.json").write_text(json.dumps(plan, indent=1))


if __name__ == "__main__":
    make_many_cells(sys.argv[1], int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))

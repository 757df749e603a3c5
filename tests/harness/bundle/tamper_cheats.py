"""What somebody would change who wants to win: cases for tamper_test.py, each a name, a change and, where it cannot be found, why.

RESULTS change the lines of results.jsonl (the plan follows), FOLDERS other files of a run, TURNS the folder of an A/B run.
"""
import copy
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from many_cells import cell_id

RESULTS, FOLDERS, TURNS = [], [], []
TIMES = "host times"
WORDS = "words on the machine and the build"


def case(table, name, hidden=""):
    def add(change):
        table.append((name, change, hidden))
        return change

    return add


def of(lines, allocator, workload, capacity="1.05x"):
    return next(cell for cell in lines[1:] if (cell["allocator"], cell["capacity"]) == (allocator, capacity) and cell["workload"].startswith(workload))


def renamed(lines, cell, **key):
    cell.update(key)
    cell["cell_id"] = cell_id(cell)


# What a setting costs a step, by which settings are ranked; calls to the driver; what other checks saw.
for field in ("allocator_ns_per_step", "allocator_scaled_ns_per_step", "allocate_scaled_latency_ns_p50"):
    def shrink(lines, field=field):
        of(lines, "caching", "churn")[field] /= 10

    case(RESULTS, f"{field} a tenth of it")(shrink)
for field in ("unordered_reuse_count", "unimplemented_call_count", "oom_count_pending", "contents_oom_count", "residue_bytes"):
    def raise_it(lines, field=field):
        cell = of(lines, "caching", "churn")
        cell[field] = (cell[field] or 0) + 1

    case(RESULTS, f"{field} raised")(raise_it)


@case(RESULTS, "residue_bytes taken away")
def no_residue(lines):
    of(lines, "caching", "churn")["residue_bytes"] = None


@case(RESULTS, "time per step halved, as measured and scaled, in the cell and in every pass")
def step_and_passes(lines):
    cell = of(lines, "caching", "churn")
    for one in [cell, *cell["passes"]]:
        for field in ("allocator_ns_per_step", "allocator_undisturbed_ns_per_step", "allocator_scaled_ns_per_step"):
            one[field] /= 2


@case(RESULTS, "a number of driver calls left out")
def driver_calls(lines):
    cell = of(lines, "native", "churn")
    cell["driver_calls"] = type(cell["driver_calls"])()


@case(RESULTS, "the placements of the contents check changed")
def contents(lines):
    of(lines, "caching", "churn")["contents_placement_hash"] = "0123456789abcdef"


@case(RESULTS, "an OOM of one pass left out")
def oom_of_pass(lines):
    of(lines, "async", "comb", "0.9x")["passes"][0]["oom_count"] = 0


@case(RESULTS, "trials without OOM")
def trials(lines):
    of(lines, "async", "comb", "0.9x")["trial_oom_count"] = 0


@case(RESULTS, "the slowest pass replaced by the fastest")
def best_pass(lines):
    cell = of(lines, "native", "churn")
    ordered = sorted(range(len(cell["passes"])), key=lambda index: cell["passes"][index]["allocate_latency_ns_p50"])
    cell["passes"][ordered[-1]] = copy.deepcopy(cell["passes"][ordered[0]])


@case(RESULTS, "every histogram one bucket lower, with its passes' quantiles")
def one_bucket(lines):
    for one in of(lines, "native", "churn")["passes"]:
        for name in one:
            if name.endswith("histogram") and one[name] and one[name][0] > 0:
                one[name][0] -= 1


@case(RESULTS, "a cell of another config string under this one's name")
def other_conf(lines):
    renamed(lines, of(lines, "caching", "churn"), conf="expandable_segments:True")


@case(RESULTS, "a cell of more memory under less")
def other_capacity(lines):
    cell, model = of(lines, "caching", "comb", "1.05x"), of(lines, "caching", "comb", "0.9x")
    cell["capacity_bytes"] = model["capacity_bytes"]
    lines.remove(model)
    renamed(lines, cell, capacity="0.9x")


@case(RESULTS, "a cell that stopped at its first OOM, as one that went on")
def other_rule(lines):
    renamed(lines, of(lines, "async", "comb", "0.9x"), on_oom="stop")


@case(RESULTS, "another seed's name")
def other_seed(lines):
    for cell in [cell for cell in lines[1:] if cell["workload"].startswith("churn")]:
        renamed(lines, cell, seed=7)


@case(RESULTS, "a workload's name that says more work")
def other_work(lines):
    for cell in [cell for cell in lines[1:] if cell["workload"].startswith("churn")]:
        renamed(lines, cell, workload=cell["workload"].replace("3000", "9000"))


@case(RESULTS, "simulated cells as those of a smaller card")
def other_card(lines):
    lines[0].update(device="sim:rtx-4090", gpu_name="NVIDIA GeForce RTX 4090")
    for cell in lines[1:]:
        renamed(lines, cell, device="sim:rtx-4090")


@case(RESULTS, "another version and commit of allocmark", WORDS)
def other_build(lines):
    lines[0].update(git_sha="0" * 40, git_dirty=False, build_type="Release")


@case(RESULTS, "a warning of the machine removed", WORDS)
def warnings(lines):
    lines[0]["warnings"] = [text for text in lines[0]["warnings"] if "virtual machine" not in text]
    lines[0]["cpu_model"] = "another processor"


@case(RESULTS, "the machine's processor renamed", WORDS)
def processor(lines):
    lines[0]["cpu_model"] = "another processor"


def edit_json(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=1))


@case(FOLDERS, "a quiet machine in the conditions and in the warnings", WORDS)
def quiet(folder):
    edit_json(folder / "conditions.json", lambda it: it.update(warnings=[], other_cpu_count=0.0, steal_share=0.0, load_average_begin=0.1, host_slowdown=1.0))


@case(FOLDERS, "a timeline of another cell")
def other_timeline(folder):
    cells = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    one, other = (folder / "timelines" / f"{of(cells, name, 'churn')['cell_id']}.json" for name in ("native", "caching"))
    one.write_bytes(other.read_bytes())


def edit_rounds(folder, change):
    rounds = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    rounds = change(rounds) or rounds
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rounds))


@case(TURNS, "P50 of side B halved in every round")
def turns_p50(folder):
    def change(rounds):
        for line in rounds:
            if line["side"] == 1:
                line["cell"]["allocate_latency_ns_p50"] /= 2

    edit_rounds(folder, change)


# The results of a side are those of its first round.
def edit_side(folder, side, change):
    path = folder / side / "results.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def change_steps(cell, factor):
    for one in [cell, *cell["passes"]]:
        for field in ("allocator_ns_per_step", "allocator_undisturbed_ns_per_step"):
            one[field] *= factor


def change_steps_of_rounds(folder, factor):
    edit_rounds(folder, lambda rounds: [change_steps(line["cell"], factor) for line in rounds if line["side"] == 1] and None)


@case(TURNS, "time per step of side B halved in every round and pass")
def turns_step_of_rounds(folder):
    change_steps_of_rounds(folder, 0.5)


# Halved, it may be less than the driver alone takes: whether it is depends on the host.
@case(TURNS, "time per step of side B a twentieth less in every round and pass, and in its results", TIMES)
def turns_step(folder):
    change_steps_of_rounds(folder, 0.95)
    edit_side(folder, "B", lambda lines: [change_steps(cell, 0.95) for cell in lines[1:]])


@case(TURNS, "the sides' names exchanged in the rounds")
def turns_exchanged(folder):
    def change(rounds):
        for line in rounds:
            line["side"] = 1 - line["side"]

    edit_rounds(folder, change)


@case(TURNS, "a round of side B counted twice, another one dropped")
def turns_twice(folder):
    def change(rounds):
        of_side = [line for line in rounds if line["side"] == 1]
        of_side[-1]["cell"] = copy.deepcopy(of_side[0]["cell"])

    edit_rounds(folder, change)


@case(TURNS, "a lost round left out on both sides")
def turns_less(folder):
    edit_rounds(folder, lambda rounds: [line for line in rounds if line["round"] != 1])


@case(TURNS, "side A's reserved peak raised in every round")
def turns_peak(folder):
    def change(rounds):
        for line in rounds:
            if line["side"] == 0:
                line["cell"]["reserved_bytes_peak"] += 2 << 20

    edit_rounds(folder, change)


@case(TURNS, "side A's reserved peak raised in its results and in every round")
def turns_peak_everywhere(folder):
    def change(rounds):
        for line in rounds:
            if line["side"] == 0:
                line["cell"]["reserved_bytes_peak"] += 2 << 20

    edit_rounds(folder, change)
    edit_side(folder, "A", lambda lines: [cell.update(reserved_bytes_peak=cell["reserved_bytes_peak"] + (2 << 20)) for cell in lines[1:]])


@case(TURNS, "side A replaced by that of an older session")
def turns_older_rounds(folder):
    older = [json.loads(line) for line in (folder.parent / "older/rounds.jsonl").read_text().splitlines()]
    cells = {(line["round"], line["cell"]["cell_id"]): line["cell"] for line in older if line["side"] == 0}

    def change(rounds):
        for line in rounds:
            if line["side"] == 0:
                line["cell"] = cells[line["round"], line["cell"]["cell_id"]]

    edit_rounds(folder, change)


@case(TURNS, "side A replaced by that of an older session, and its results", TIMES)
def turns_older(folder):
    turns_older_rounds(folder)
    edit_side(folder, "A", lambda lines: lines.__setitem__(slice(1, None), [
        json.loads(line) for line in (folder.parent / "older/A/results.jsonl").read_text().splitlines()[1:]]))


# Files of the archive, whose hashes are made right again.
FILES = {
    "README.md changed": lambda files: files.update({"README.md": files["README.md"] + b"The best run.\n"}),
    "bundle.json with another key": lambda files: files.update({"bundle.json": files["bundle.json"].replace(b"{", b'{"note": "x",', 1)}),
    "bundle.json with another trace": lambda files: files.update({"bundle.json": files["bundle.json"].replace(b'"event_count": ', b'"event_count": 1')}),
    "a foreign file": lambda files: files.update({"notes.txt": b"x"}),
    "a foreign timeline": lambda files: files.update({"timelines/0123456789abcdef.json": b"{}"}),
    "table.txt changed": lambda files: files.update({"table.txt": files["table.txt"] + b"x\n"}),
    "table.csv changed": lambda files: files.update({"table.csv": files["table.csv"].replace(b"caching", b"native")}),
    "report.md changed": lambda files: files.update({"report.md": files["report.md"] + b"x\n"}),
    "google_benchmark.json changed": lambda files: files.update({"google_benchmark.json": files["google_benchmark.json"] + b"\n"}),
    "plan.json with more passes": lambda files: files.update({"plan.json": files["plan.json"].replace(b'"pass_count": 3', b'"pass_count": 4')}),
    "report.html of other results": lambda files: files.update({"report.html": files["report.html"].replace(b'sha256" content="', b'sha256" content="0')}),
    "a timeline changed": lambda files: files.update({name: text.replace(b"[0,", b"[1,", 1) for name, text in files.items() if name.startswith("timelines/")}),
}
HIDDEN_FILES = {"report.html with other words": lambda files: files.update({"report.html": files["report.html"].replace(b"</body>", b"<p>best</p></body>")})}

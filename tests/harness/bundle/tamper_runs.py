"""What somebody would change who has read how each rule looks at its run: the run that is compared with, parts that a number is held
against, and the folder that is packed. Cases for tamper_test.py, as in tamper_cheats.py.

RESULTS change the lines of results.jsonl (the plan follows), FOLDERS other files of a run, BASES the lines of the baseline, BASE_FOLDERS its other
files, BASE_FILES those of an archive with a baseline.
"""
import json

from tamper_cheats import WORDS, case, edit_json, of, renamed

RESULTS, FOLDERS, BASES, BASE_FOLDERS = [], [], [], []
TIMES = "host times"
UNFIT = "this is a build with sanitizers; its latencies mean nothing"


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


# Without these no other number could be held against them.
@case(RESULTS, "the histograms of the calls left out, P50 halved")
def no_histograms(lines):
    cell = of(lines, "native", "churn")
    for one in cell["passes"]:
        for name in list(one):
            if name.endswith("_histogram"):
                one[name] = None
    cell["allocate_latency_ns_p50"] /= 2


@case(RESULTS, "the size classes left out")
def no_classes(lines):
    of(lines, "native", "churn")["size_classes"] = []


@case(RESULTS, "a competitor's latencies left out")
def no_latencies(lines):
    cell = of(lines, "native", "comb")
    cell["size_classes"] = []
    for one in [cell, *cell["passes"]]:
        for name in one:
            if "latency" in name:
                one[name] = 0 if name.endswith("_count") else None
    for one in cell["passes"]:
        one.update(allocate_latency_ns_p50=0, allocate_latency_ns_p99=0, deallocate_latency_ns_p50=0)


@case(RESULTS, "the intervals for a repeat left out")
def no_repeat(lines):
    cell = of(lines, "native", "churn")
    for name in cell:
        if "_repeat_" in name:
            cell[name] = None


@case(RESULTS, "results of schema 1.0, which had no histograms")
def older_schema(lines):
    no_histograms(lines)
    for line in lines:
        line["schema_version"] = "1.0.0"


# Times of a step.
for field in ("step_ns_mean", "step_ideal_ns_mean", "kernel_ns_total", "program_ideal_ns"):
    def halved_for_server(lines, field=field):
        cell = of(lines, "native", "serve")
        cell[field] = type(cell[field])(cell[field] / 2)

    case(RESULTS, f"{field} of a server halved")(halved_for_server)


@case(RESULTS, "step_ns_mean halved in every pass")
def step_of_passes(lines):
    for one in of(lines, "native", "serve")["passes"]:
        one["step_ns_mean"] /= 2


@case(RESULTS, "step_ns_mean halved in the cell and in every pass")
def step_everywhere(lines):
    cell = of(lines, "native", "serve")
    for one in [cell, *cell["passes"]]:
        one["step_ns_mean"] /= 2


for field, value in (("host_ns_total", 10**9), ("assumed_kernel_ns", 1000), ("idle_oom_count", 0)):
    def told(lines, field=field, value=value):
        of(lines, "async", "comb", "0.9x")[field] = value

    case(RESULTS, f"{field} where there is none")(told)


@case(RESULTS, "failures only of kernels that were assumed")
def only_assumed(lines):
    cell = of(lines, "async", "comb", "0.9x")
    cell.update(assumed_kernel_ns=1000, idle_oom_count=0, trial_oom_count=0)
    for one in cell["passes"]:
        one["oom_count"] = 0


# What is made again beside the numbers of the whole cell.
@case(RESULTS, "a trace of another name")
def trace_name(lines):
    for cell in [cell for cell in lines[1:] if cell["workload"].startswith("churn")]:
        cell["trace_name"] = "llama3-70b"


@case(RESULTS, "a size class of another size")
def class_renamed(lines):
    of(lines, "native", "churn")["size_classes"][0]["size_class"] = ">512MiB"


@case(RESULTS, "the driver's part of a size class halved")
def class_driver(lines):
    for name, value in list(of(lines, "native", "churn")["size_classes"][0].items()):
        if "_driver_latency_ns_" in name:
            of(lines, "native", "churn")["size_classes"][0][name] = (value or 0) / 2


@case(RESULTS, "a pass that left memory behind, as one that did not")
def residue_of_pass(lines):
    of(lines, "native", "churn")["passes"][0]["residue_bytes"] = 4096


@case(RESULTS, "a run of another commit, with other peaks")
def other_commit(lines):
    lines[0].update(git_sha="0" * 40)
    of(lines, "caching", "churn")["reserved_bytes_peak"] -= 2 << 20


for field, value in (("driver_version", "99.0"), ("runtime_version", "99.0"), ("times_borrowed_from", "NVIDIA B200")):
    def of_device(lines, field=field, value=value):
        lines[0][field] = value

    case(RESULTS, f"{field} of the simulated GPU changed")(of_device)


# Order and scale.
@case(RESULTS, "the passes in another order")
def passes_reversed(lines):
    of(lines, "caching", "churn")["passes"].reverse()


@case(RESULTS, "a cell quicker than its own passes")
def short_cell(lines):
    of(lines, "native", "churn")["wall_s"] = 1e-6


@case(RESULTS, "a quicker host for the scaled times, with all that follows")
def quicker_host(lines):
    cell = of(lines, "caching", "churn")
    for name in cell:
        if "scaled" in name or name in ("host_scale", "host_shift_ns"):
            cell[name] = cell[name] / 2 if cell[name] is not None else None
    for one in cell["passes"]:
        for name in one:
            if "scaled" in name:
                one[name] = one[name] / 2 if one[name] is not None else None


@case(RESULTS, "a cell whose passes were still to come")
def passes_to_come(lines):
    of(lines, "caching", "churn")["passes_to_come"] = 2


@case(RESULTS, "the first calls of a process quicker", TIMES)
def cold(lines):
    of(lines, "caching", "churn")["cold_ns"] /= 2


@case(RESULTS, "the command line of another run", WORDS)
def argv(lines):
    lines[0]["argv"] = ["allocmark", "run", "--suite", "default"]


@case(RESULTS, "the time of another day", WORDS)
def started(lines):
    lines[0]["started_utc"] = "2020-01-01T00:00:00Z"


# The folder that is packed.
@case(FOLDERS, "a timeline left out that was planned")
def no_timeline(folder):
    next(iter(sorted((folder / "timelines").iterdir()))).unlink()


@case(FOLDERS, "a plan without a check of the blocks")
def no_verify(folder):
    edit_json(folder / "plan.json", lambda it: it.update(verify="off"))


@case(FOLDERS, "a plan of one pass, and cells of three")
def fewer_planned(folder):
    edit_json(folder / "plan.json", lambda it: it.update(pass_count=1))


@case(FOLDERS, "a cell planned that there is not")
def more_planned(folder):
    def add(plan):
        plan["cells"].append({**plan["cells"][0], "seed": 99})

    edit_json(folder / "plan.json", add)


def link(path):
    other = path.with_name(path.name + ".kept")
    path.rename(other)
    path.symlink_to(other)


for name in ("plan.json", "conditions.json", "results.jsonl"):
    def linked(folder, name=name):
        link(folder / name)

    case(FOLDERS, f"{name} as a link to another file")(linked)


@case(FOLDERS, "timelines as links to other files")
def linked_timelines(folder):
    for path in sorted((folder / "timelines").iterdir()):
        link(path)


# The run that this one is compared with.
for name, change in (("as of a debug build", {"build_type": "Debug"}), ("of a build that it does not name", {"build_type": ""}),
                     ("on another simulated GPU than its cells", {"device": "sim:rtx-4090"}),
                     ("with another driver", {"driver_version": "99.0"})):
    def base_environment(lines, change=change):
        lines[0].update(change)

    case(BASES, f"the baseline {name}")(base_environment)


@case(BASES, "the baseline of a build with sanitizers")
def base_sanitizer(lines):
    lines[0]["warnings"].append(UNFIT)


@case(BASES, "the baseline of another machine")
def base_machine(lines):
    lines[0].update(hostname_hash="0123456789abcdef", cpu_model="another processor")


@case(BASES, "a cell of the baseline left out")
def base_left_out(lines):
    lines.pop()


@case(BASES, "a cell of the baseline under a config string that was not planned")
def base_unplanned(lines):
    renamed(lines, of(lines, "caching", "churn"), conf="max_split_size_mb:64")


@case(BASES, "the baseline's cell as crashed")
def base_crashed(lines):
    from tamper_rules import without_numbers

    without_numbers(of(lines, "native", "churn"), "crashed", "SIGSEGV")


@case(BASES, "the baseline's histograms left out, P50 doubled")
def base_no_histograms(lines):
    no_histograms(lines)
    of(lines, "native", "churn")["allocate_latency_ns_p50"] *= 4


@case(BASES, "the baseline's events of another hash, in all its cells")
def base_trace(lines):
    for cell in lines[1:]:
        cell["trace_hash"] = "0123456789abcdef"


@case(BASE_FOLDERS, "a baseline of one pass")
def base_one_pass(folder):
    for path in (folder.parent / "one_pass").iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())


@case(BASE_FOLDERS, "a baseline that was cut short")
def base_cut(folder):
    path = folder / "results.jsonl"
    path.write_text(path.read_text()[:-40])


@case(BASE_FOLDERS, "a baseline without its plan")
def base_no_plan(folder):
    (folder / "plan.json").unlink()


@case(BASE_FOLDERS, "a plan of the baseline with fewer cells")
def base_fewer(folder):
    edit_json(folder / "plan.json", lambda it: it["cells"].pop())


@case(BASE_FOLDERS, "a plan of the baseline of more passes")
def base_more_passes(folder):
    edit_json(folder / "plan.json", lambda it: it.update(pass_count=5))


@case(BASE_FOLDERS, "the baseline's plan without a check of the blocks")
def base_no_verify(folder):
    edit_json(folder / "plan.json", lambda it: it.update(verify="off"))


@case(BASE_FOLDERS, "a cell left out of the results and of the plan of the baseline", "cells left out")
def base_gone(folder):
    lines = lines_of(folder / "results.jsonl")
    gone = lines.pop()["cell_id"]
    write_lines(folder / "results.jsonl", lines)
    edit_json(folder / "plan.json", lambda it: it.update(cells=[cell for cell in it["cells"] if cell["cell_id"] != gone]))


# Files of an archive with a baseline, whose hashes are made right again.
def without(*names):
    def change(files):
        for name in names:
            del files[name]

    return change


def comparison(old, new):
    def change(files):
        assert old in files["comparison.json"]
        files["comparison.json"] = files["comparison.json"].replace(old, new)

    return change


BASE_FILES = {
    "base.plan.json left out": without("base.plan.json"),
    "base.conditions.json left out": without("base.conditions.json"),
    "comparison.json left out": without("comparison.json"),
    "base.results.jsonl left out": without("base.results.jsonl", "base.plan.json", "base.conditions.json"),
    "comparison.json of another answer": comparison(b'"passed": ', b'"passed":  '),
    "comparison.json of other numbers": comparison(b'"verdict": "', b'"verdict": "x'),
    "a policy that calls nothing a change": lambda files: files.update({"policy.json": b'{"effect_min": 5}'}),
}

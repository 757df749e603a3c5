"""What somebody would change who has read what each number is held against: parts left out so that nothing holds them, names that say one thing
and mean another, times below the driver's own. Cases for tamper_test.py, as in tamper_cheats.py.

RESULTS change the lines of results.jsonl (the plan follows), FOLDERS other files of a run.
"""
from tamper_cheats import case, edit_json, of, renamed

RESULTS, FOLDERS = [], []
STEPS = ("allocator_ns_per_step", "allocator_undisturbed_ns_per_step", "allocator_scaled_ns_per_step")


# Names.
for conf, definition in (("expandable_segments:True", "max_split_size_mb:128"), ("as:mine", "max_split_size_mb:128"), ("as:mine", "as:mine")):
    def misnamed(lines, conf=conf, definition=definition):
        renamed(lines, of(lines, "caching", "churn"), conf=conf, conf_definition=definition)

    case(RESULTS, f"a config string '{conf}' that is said to mean '{definition}'")(misnamed)
for name in ("train:gpt2-124m,batch=2", "gpt2_train_amp", "pytorch_thresholds", "nobody_knows"):
    def mistaken(lines, name=name):
        for cell in [cell for cell in lines[1:] if cell["workload"].startswith("churn")]:
            renamed(lines, cell, workload=name, workload_definition=cell["workload"])

    case(RESULTS, f"a workload '{name}' that is said to mean another")(mistaken)


# The version of the format says what a line may lack.
@case(RESULTS, "lines of a newer version with words of their own")
def newer_lines(lines):
    for line in lines:
        line.update(schema_version="1.99.0", praise="the best")


@case(RESULTS, "one line of a newer version with words of its own")
def newer_line(lines):
    of(lines, "caching", "churn").update(schema_version="1.99.0", praise="the best")


@case(RESULTS, "a line of an older version than its file")
def older_line(lines):
    of(lines, "caching", "churn")["schema_version"] = "1.3.0"


@case(RESULTS, "results of an older version than the program writes")
def older_lines(lines):
    for line in lines:
        line["schema_version"] = "1.3.0"


@case(RESULTS, "quantiles with too few samples as such with enough")
def supported(lines):
    next(cell for cell in lines[1:] if cell["quantiles_unsupported"])["quantiles_unsupported"] = []


# Parts left out.
@case(RESULTS, "what no allocator can undercut halved, and what it is held against left out")
def packed(lines):
    cell = of(lines, "caching", "churn")
    cell["packed_bytes"] //= 2
    cell["rounded_bytes_peak"] = None


@case(RESULTS, "what no allocator can undercut left out")
def no_bounds(lines):
    of(lines, "caching", "churn").update(packed_bytes=None, rounded_bytes_peak=None)


def leave_out_scale(cell):
    for one in [cell, *cell["passes"]]:
        for name in one:
            if "scaled" in name or name.startswith("host_"):
                one[name] = None


@case(RESULTS, "all that was scaled left out")
def no_scale(lines):
    leave_out_scale(of(lines, "native", "churn"))


@case(RESULTS, "all that was scaled left out of every cell")
def no_scales(lines):
    for cell in lines[1:]:
        leave_out_scale(cell)


@case(RESULTS, "words added to what is said of a competitor's cell")
def added_words(lines):
    of(lines, "native", "churn")["warnings"].append("7 allocations were handed memory that another stream may still use; native does not promise otherwise")


for value in (0, None):
    def no_steps(lines, value=value):
        cell = of(lines, "caching", "churn")
        for one in [cell, *cell["passes"]]:
            for name in STEPS:
                one[name] = value

    case(RESULTS, f"the time per step as {value} in the cell and in every pass")(no_steps)


@case(RESULTS, "a served cell with words of praise as its reason")
def praised(lines):
    of(lines, "caching", "churn")["reason"] = "the best"


# A server whose allocator costs nothing.
def without_delay(cell, factor):
    row = cell["requests"]
    for name in [name for name in row if "_ns_" in name and not name.startswith(("ideal", "delay"))]:
        row[name] = row[f"ideal_{name}"] * factor
    for name in [name for name in row if name.startswith("delay_ns_")]:
        row[name] = row[f"latency_ns_{name[9:]}"] - row[f"ideal_latency_ns_{name[9:]}"]
    for one in cell["passes"]:
        one["request_latency_ns_p99"] = row["latency_ns_p99"]


for factor in (1, 1.0001):
    def no_delay(lines, factor=factor):
        without_delay(of(lines, "native", "serve"), factor)

    case(RESULTS, f"a server's latencies {factor} times the ideal ones, in every pass")(no_delay)


@case(RESULTS, "a server's latencies as the ideal ones, and none of the passes")
def no_delay_of_passes(lines):
    cell = of(lines, "native", "serve")
    without_delay(cell, 1)
    for one in cell["passes"]:
        one["request_latency_ns_p99"] = None


# Numbers below zero.
for field in ("harness_overhead_ns_p50", "cold_ns"):
    def below_zero(lines, field=field):
        of(lines, "caching", "churn")[field] = -5.0

    case(RESULTS, f"{field} below zero")(below_zero)


@case(RESULTS, "a clock that takes less than no time to read")
def clock(lines):
    lines[0]["clock_overhead_ns"] = -1.0


@case(FOLDERS, "conditions below zero")
def conditions(folder):
    edit_json(folder / "conditions.json", lambda it: it.update(other_cpu_count=-1.0, warnings=[]))


@case(FOLDERS, "a cell planned twice")
def twice(folder):
    edit_json(folder / "plan.json", lambda it: it["cells"].append(it["cells"][0]))

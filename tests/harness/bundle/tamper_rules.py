"""What somebody would change who has read the rules: names that nobody knows, so that cells cannot be made again, cells without numbers, what
servers took, and the run that another one is compared with. Cases for tamper_test.py, as in tamper_cheats.py.

RESULTS change the lines of results.jsonl (the plan follows), BASES those of the run that it is compared with.
"""
from tamper_cheats import case, of, renamed

RESULTS, BASES = [], []

# What the environment says of a simulated GPU.
@case(RESULTS, "gpu_name of a real GPU")
def gpu_name(lines):
    lines[0]["gpu_name"] = "NVIDIA B200"


@case(RESULTS, "gpu_uuid_hash of a real GPU")
def gpu_uuid(lines):
    lines[0]["gpu_uuid_hash"] = "0123456789abcdef"


@case(RESULTS, "gpu_memory_bytes changed")
def gpu_memory(lines):
    lines[0]["gpu_memory_bytes"] *= 2


@case(RESULTS, "another profile's hash")
def profile(lines):
    lines[0]["profile_hash"] = "0123456789abcdef"


@case(RESULTS, "the environment of a real GPU over simulated cells")
def real_device(lines):
    lines[0].update(device="cuda:0", profile_name="", profile_hash="", gpu_uuid_hash="0123456789abcdef")


# Names under which a cell could not be made again.
for device in ("sim:./h200.json", "sim:h200.json", "sim:nope", "SIM:H200", "sim:H200", "sim:h200 ", "cuda:0", "cuda:00", "h200"):
    def other_device(lines, device=device):
        lines[0].update(device=device)
        for cell in lines[1:]:
            renamed(lines, cell, device=device)

    case(RESULTS, f"all cells of device '{device}'")(other_device)
for allocator in ("torch", "nope", "Caching", "caching ", "pluggable", "caching@9.99"):
    def other_allocator(lines, allocator=allocator):
        renamed(lines, of(lines, "caching", "churn"), allocator=allocator)

    case(RESULTS, f"an allocator '{allocator}'")(other_allocator)
for conf in ("/", "max_split_size_mb:128/", "unset", "max_split_size_mb:128 ", "nope:1", "as:mine"):
    def odd_conf(lines, conf=conf):
        renamed(lines, of(lines, "caching", "churn"), conf=conf)

    case(RESULTS, f"a config string '{conf}'")(odd_conf)
for definition in ("file:x", "file:/etc/passwd", "churn:live_bytes=64MiB,events=3001", "nope:a=1"):
    def odd_definition(lines, definition=definition):
        for cell in [cell for cell in lines[1:] if cell["workload"].startswith("churn")]:
            renamed(lines, cell, workload_definition=definition)

    case(RESULTS, f"a workload that is said to mean '{definition}'")(odd_definition)
for capacity in ("9999GiB", "1.06x"):
    def odd_capacity(lines, capacity=capacity):
        renamed(lines, of(lines, "caching", "churn"), capacity=capacity)

    case(RESULTS, f"a capacity '{capacity}'")(odd_capacity)


def emptied(value, name):
    """What a cell without numbers has in its place."""
    if isinstance(value, bool) or value is None or name in ("seed",):
        return value
    if isinstance(value, (int, float)):
        return None if "latency_ns" in name or "_repeat_" in name else type(value)()
    return value if isinstance(value, str) else type(value)()


def without_numbers(cell, status, reason):
    kept = ("kind", "schema_version", "cell_id", "workload", "allocator", "conf", "device", "capacity", "seed", "on_oom",
            "workload_definition", "workload_files")
    for name, value in list(cell.items()):
        if name not in kept:
            cell[name] = emptied(value, name)
    cell.update(status=status, reason=reason, trace_hash="", placement_hash="", contents_placement_hash="", oom_first=None, growth=None, requests=None)


@case(RESULTS, "a competitor's cell as skipped: the driver cannot serve it")
def skipped(lines):
    without_numbers(of(lines, "native", "churn"), "skipped", "the driver cannot serve it")


@case(RESULTS, "a competitor's cell as crashed")
def crashed(lines):
    without_numbers(of(lines, "native", "churn"), "crashed", "SIGSEGV")


# Servers.
def requests_of(lines):
    return of(lines, "native", "serve")["requests"]


@case(RESULTS, "a server's latencies, each a twentieth")
def requests_quicker(lines):
    cell = of(lines, "native", "serve")
    for name in cell["requests"]:
        if "_ns_" in name and not name.startswith("ideal"):
            cell["requests"][name] /= 20
    for one in cell["passes"]:
        one["request_latency_ns_p99"] /= 20


@case(RESULTS, "a server's latencies and ideal latencies, each a twentieth")
def ideal_quicker(lines):
    cell = of(lines, "native", "serve")
    for name in cell["requests"]:
        if "_ns_" in name:
            cell["requests"][name] /= 20
    for one in cell["passes"]:
        one["request_latency_ns_p99"] /= 20


for name in ("latency_ns_p99", "latency_ns_mean", "delay_ns_mean", "first_token_latency_ns_p50", "ideal_latency_ns_p50"):
    def one_number(lines, name=name):
        requests_of(lines)[name] /= 20

    case(RESULTS, f"a server's {name} divided by 20")(one_number)


@case(RESULTS, "a server's requests left out")
def no_requests(lines):
    of(lines, "native", "serve")["requests"] = None


@case(RESULTS, "a server that answered more requests")
def more_requests(lines):
    for name, value in requests_of(lines).items():
        if name.endswith("count"):
            requests_of(lines)[name] = value + 3


@case(RESULTS, "growth that there was not")
def grows(lines):
    of(lines, "native", "serve")["growth"].update(bytes_per_step=4096.0, bytes_per_step_low=1024.0, bytes_per_step_high=8192.0)


for field in ("kernel_ns_total", "program_ideal_ns", "program_ns"):
    def less_time(lines, field=field):
        cell = of(lines, "native", "serve")
        cell[field] = type(cell[field])(cell[field] / 2)

    case(RESULTS, f"a server's {field} halved")(less_time)


# Calls that no clock can have read.
@case(RESULTS, "calls quicker than their driver's part")
def below_driver(lines):
    cell = of(lines, "native", "churn")
    for name in ("p50", "p90", "p99", "p999", "max", "mean"):
        cell[f"allocate_driver_latency_ns_{name}"] *= 3


@case(RESULTS, "a time below zero")
def below_zero(lines):
    of(lines, "caching", "churn")["wall_s"] = -1.0


# The run that this one is compared with.
for field, change in (("reserved_bytes_peak", lambda value: value // 2), ("oom_count", lambda value: value + 50),
                      ("device_bytes_peak", lambda value: value * 2),
                      ("allocate_latency_ns_p50", lambda value: value * 3), ("allocate_count", lambda value: value + 7), ("residue_bytes", lambda value: 4096),
                      ("placement_hash", lambda value: "0123456789abcdef"), ("requested_bytes_peak", lambda value: 1),
                      ("capacity_bytes", lambda value: value * 2),
                      ("modelled_driver_ns_total", lambda value: value * 3), ("retry_count", lambda value: value + 1), ("wall_s", lambda value: -1.0)):
    def of_base(lines, field=field, change=change):
        cell = of(lines, "caching", "churn")
        cell[field] = change(cell[field])

    case(BASES, f"{field} of the baseline changed")(of_base)


@case(BASES, "out-of-memory failures of the baseline, with all that follows from them")
def base_ooms(lines):
    cell = of(lines, "caching", "churn")
    cell["oom_count"] += 50
    cell["oom_count_fragmentation"] += 50
    cell["counters"]["num_ooms"] += 50


@case(BASES, "the baseline's cell as skipped")
def base_skipped(lines):
    without_numbers(of(lines, "native", "churn"), "skipped", "the driver cannot serve it")


@case(BASES, "the baseline on a device that nobody knows")
def base_device(lines):
    lines[0].update(device="sim:nope")
    for cell in lines[1:]:
        renamed(lines, cell, device="sim:nope")


@case(BASES, "the baseline as another commit's, with other peaks")
def base_commit(lines):
    lines[0].update(git_sha="0" * 40)
    of(lines, "caching", "churn")["reserved_bytes_peak"] -= 2 << 20

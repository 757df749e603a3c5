"""LaTeX tables for papers: one per experiment, with booktabs, units in the heading and every config string. A Run flows in; a file to
\\input flows out. Needs \\usepackage{booktabs}. Nothing in a name can become a command."""

from experiments import prepare
from facts import has_enough_samples, is_measured

MIB = 1024 * 1024

ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": "{-}",
}


def escape(text):
    """Text as LaTeX prints it; control characters become visible, hyphens stay apart so that no dash is made of two."""
    return "".join(ESCAPES.get(c, c if c.isprintable() else f"\\textbackslash{{}}x{ord(c):02x}") for c in text)


def _name(text):
    # Long config strings may break after a comma or a colon.
    return r"\texttt{" + escape(text).replace(",", r",\allowbreak{}").replace(":", r":\allowbreak{}") + "}"


def _time(cell, operation, percentile):
    value = cell[f"{operation}_latency_ns_{percentile}"]
    if value is None:
        return "--"
    mark = "" if has_enough_samples(cell, f"{operation}_latency_ns_{percentile}") else r"\textasciitilde{}"
    return f"{mark}{value:.0f}"


def _row(cell):
    name = _name(cell["allocator"]) + " & " + (_name(cell["conf"]) if cell["conf"] else "unset")
    if not is_measured(cell):
        return f"{name} & \\multicolumn{{7}}{{l}}{{{escape(cell['status'])}}} \\\\"
    waste, reserved = cell["waste_share"], cell["reserved_bytes_peak"]
    values = [
        "stopped" if cell["status"] == "oom_stopped" else f"{cell['oom_count']}",
        _time(cell, "allocate", "p50"),
        _time(cell, "allocate", "p99"),
        _time(cell, "deallocate", "p50"),
        f"{cell['requested_bytes_peak'] / MIB:.0f}",
        "--" if reserved is None else f"{reserved / MIB:.0f}",
        "--" if waste is None else f"{100 * waste:.1f}",
    ]
    return name + " & " + " & ".join(values) + r" \\"


def render_latex(run):
    experiments, _ = prepare(run)
    environment = run.environment
    lines = [
        "% Made by allocmark from results.jsonl; needs \\usepackage{booktabs}.",
        f"% Device {escape(environment['device'])}, {escape(environment['started_utc'])}, commit {escape(environment['git_sha'])}.",
    ]
    for index, experiment in enumerate(experiments, 1):
        key = experiment["key"]
        lines += [
            "",
            r"\begin{table}",
            (rf"\caption{{{_name(key['workload'])}, capacity {escape(key['capacity'])}, device {escape(key['device'])}, seed {key['seed']}. "
             r"Latency in ns, memory in MiB; waste in \%; \textasciitilde{} marks a quantile with fewer than ten samples beyond it.}"),
            f"\\label{{tab:allocmark-{index}}}",
            r"\begin{tabular}{l p{0.32\linewidth} rrrrrrr}",
            r"\toprule",
            r" & & OOM & \multicolumn{2}{c}{allocate} & free & \multicolumn{2}{c}{peak memory} & waste \\",
            r"allocator & config string & n & P50 & P99 & P50 & requested & reserved & \% \\",
            r"\midrule",
            *(_row(cell) for cell in experiment["cells"]),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"

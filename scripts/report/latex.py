"""LaTeX tables for papers: one per experiment, with booktabs, units in the heading and every config string. A Run flows in; a file to
\\input flows out. Needs \\usepackage{booktabs}. Nothing in a name can become a command."""

from columns import group_spans
from experiments import prepare
from facts import is_measured

# The columns that a paper has room for, of those that the run has: group and name.
SHOWN = (("time", "per step"), ("OOM", "n"), ("allocate", "P50"), ("allocate", "P99"), ("free", "P50"), ("peak", "requested"), ("peak", "reserved"),
         ("", "waste"), ("", "regret"))

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


def _row(cell, values):
    name = _name(cell["allocator"]) + " & " + (_name(cell["conf"]) if cell["conf"] else "unset")
    if not is_measured(cell):
        return f"{name} & \\multicolumn{{{len(values)}}}{{l}}{{{escape(cell['status'])}}} \\\\"
    return " & ".join([name, *map(escape, values)]) + r" \\"


def _head(headings):
    """Two lines: groups over their columns, then names with units."""
    groups = [rf"\multicolumn{{{count}}}{{c}}{{{escape(group)}}}" if group else " & ".join([""] * count) for group, count in group_spans(headings)]
    names = [escape(" ".join(part for part in (one["name"], one["unit"]) if part)) for one in headings]
    return [" & ".join([" ", "", *groups]) + r" \\", " & ".join(["allocator", "config string", *names]) + r" \\"]


def render_latex(run):
    experiments, _ = prepare(run)
    environment = run.environment
    shown = [index for index, one in enumerate(run.columns["headings"]) if (one["group"], one["name"]) in SHOWN]
    headings = [run.columns["headings"][index] for index in shown]
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
             r"\textasciitilde{} marks a quantile with fewer than ten samples beyond it.}"),
            f"\\label{{tab:allocmark-{index}}}",
            rf"\begin{{tabular}}{{l p{{0.32\linewidth}} {'r' * len(shown)}}}",
            r"\toprule",
            *_head(headings),
            r"\midrule",
            *(_row(cell, [run.columns["rows"][cell["cell_id"]][index] for index in shown]) for cell in experiment["cells"]),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"

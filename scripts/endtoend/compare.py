"""Prints what was recorded, what ran, and prediction beside reality."""


def gib(size_bytes):
    return f"{size_bytes / (1 << 30):.2f} GiB" if size_bytes is not None else "?"


def step_ms(row):
    """Mean wall time of a step; None where the job died."""
    return row["total_ms"] / len(row["step_host_ms"]) if row.get("step_host_ms") else None


def line_of_recording(row):
    if "error" in row:
        return f"{row['program']}: not recorded: {row['error']}"
    slower = row["total_ms"] / row["plain_total_ms"] - 1
    return (f"{row['program']}: peak {gib(row['live_peak_bytes'])}, {len(row['step_host_ms'])} steps of {step_ms(row):.1f} ms, "
            f"{row['operations']} operations in {row['rows']} rows, device work {row['device_work']}, {100 * slower:+.1f} % by recording, "
            f"{row['took_s']} s")


def fate(row):
    if "error" in row:
        return f"error: {row['error']}"
    if row["oom_step"] is not None:
        return f"dies in step {row['oom_step']}"
    mean = step_ms(row) if "total_ms" in row else row.get("step_ms")
    return "ends" + (f", {mean:.1f} ms a step" if mean is not None else "")


def line_of_run(row):
    return (f"{row['program']} at {row['limit']} {row['setting'] or 'unset'}: {fate(row)}, {row.get('retries')} retries, "
            f"reserved {gib(row.get('peak_reserved_bytes'))}, {row['took_s']} s")


def table(predicted, real, names):
    lines, equal, count = [], 0, 0
    said = {(row["program"], row["limit"], row["setting"]): row for row in predicted}
    for row in real:
        prediction = said.get((row["program"], row["limit"], row["setting"]))
        if row["program"] not in names or prediction is None or "error" in row:
            continue
        count += 1
        same = prediction.get("oom_step") == row["oom_step"]
        equal += same
        lines.append(f"{'' if same else '! '}{row['program']} at {row['limit']} {row['setting'] or 'unset'}: predicted {fate(prediction)}; real "
                     f"{fate(row)}; retries {prediction.get('retries')} / {row['retries']}; reserved "
                     f"{gib(prediction.get('peak_reserved_bytes'))} / {gib(row['peak_reserved_bytes'])}")
    return "\n".join([*lines, f"{equal} of {count} runs end or die as predicted, in the step predicted"])

"""What somebody would change in an A/B run who has read the rules: a side, the plan of both, the order of rounds. Cases for tamper_test.py, as in
tamper_cheats.py: TURNS change its folder.
"""
from tamper_cheats import case, edit_json, edit_rounds, edit_side
from tamper_runs import UNFIT, lines_of

TURNS = []


def edit_plan(folder, change):
    edit_json(folder / "interleaved.json", change)


for side in ("A", "B"):
    for name, change in (("of a debug build", {"build_type": "Debug"}), ("of a build with sanitizers", {"warnings": [UNFIT]})):
        def side_environment(folder, side=side, change=change):
            edit_side(folder, side, lambda lines: lines[0].update(change))

        case(TURNS, f"side {side} {name}")(side_environment)

    @case(TURNS, f"side {side}: a later round as its result")
    def later_round(folder, side=side):
        cells = [line["cell"] for line in lines_of(folder / "rounds.jsonl") if (line["side"], line["round"]) == ("AB".index(side), 2)]
        edit_side(folder, side, lambda lines: lines.__setitem__(slice(1, None), cells))

    @case(TURNS, f"side {side}: no result where there are rounds")
    def no_result(folder, side=side):
        edit_side(folder, side, lambda lines: lines.__delitem__(slice(1, None)))


# The same in every round and in the results of the side.
def everywhere(folder, number, change):
    def rounds(lines):
        for line in lines:
            if line["side"] == number:
                change(line["cell"])

    edit_rounds(folder, rounds)
    edit_side(folder, "AB"[number], lambda lines: [change(cell) for cell in lines[1:]])


for field in ("modelled_driver_ns_total", "step_ns_p50", "step_ns_mean", "program_ns", "allocate_driver_latency_ns_mean"):
    @case(TURNS, f"{field} of side B halved in its results and in every round")
    def modelled(folder, field=field):
        def change(cell):
            for one in [cell, *cell["passes"]]:
                if field in one:
                    one[field] /= 2

        everywhere(folder, 1, change)


@case(TURNS, "calls of the driver taken away on side B, in its results and in every round")
def fewer_calls(folder):
    everywhere(folder, 1, lambda cell: cell.update(driver_calls=type(cell["driver_calls"])()))


@case(TURNS, "the sides' cells exchanged in the plan")
def plan_exchanged(folder):
    def change(plan):
        for cell in plan["cells"]:
            cell["base"], cell["new"] = cell["new"], cell["base"]

    edit_plan(folder, change)


def plan_rounds(folder, count):
    def change(plan):
        plan.update(round_count=count, round_count_max=count)
        for cell in plan["cells"]:
            cell["round_count_max"] = count

    edit_plan(folder, change)


@case(TURNS, "a plan of more rounds than there are")
def more_rounds(folder):
    plan_rounds(folder, 8)


@case(TURNS, "another order of the sides than the plan's seed gives")
def other_order(folder):
    edit_plan(folder, lambda plan: plan.update(order_seed=plan["order_seed"] + 1))


@case(TURNS, "a plan of no turns, though passes took them")
def no_turns(folder):
    edit_plan(folder, lambda plan: plan.update(turns_by_pass=False))


@case(TURNS, "fewer passes planned than made")
def fewer_passes(folder):
    edit_plan(folder, lambda plan: plan.update(pass_count=1, pass_count_max=1))


@case(TURNS, "the last round left out, and of the plan", "cells left out")
def last_round(folder):
    edit_rounds(folder, lambda rounds: [line for line in rounds if line["round"] < 3])
    plan_rounds(folder, 3)


@case(TURNS, "conditions of the rounds left out")
def turns_no_conditions(folder):
    (folder / "conditions.json").unlink()

"""The page's derived numbers are those that allocmark itself writes: the golden results.csv is made by the C++ writer from the golden
results.jsonl. Then cases with known answers."""

import csv

import derived
import generate
import pytest


def golden_pairs():
    folder = generate.GOLDEN.parent
    with (folder / "results.csv").open(newline="") as file:
        rows = {row["cell_id"]: row for row in csv.DictReader(file)}
    cells = {line["cell_id"]: line for line in generate.golden_lines() if line["kind"] == "cell"}
    return [(rows[cell_id], cells[cell_id]) for cell_id in rows if cell_id in cells]


def test_derived_numbers_equal_those_of_the_csv_writer():
    pairs, compared = golden_pairs(), 0
    assert len(pairs) >= 5
    for row, cell in pairs:
        values = derived.derive(cell)
        values.pop("driver_calls")
        assert set(values) <= set(row)
        for name, value in values.items():
            if row[name] == "":
                assert value is None, (cell["cell_id"], name)
            else:
                assert value == pytest.approx(float(row[name]), rel=1e-12), (cell["cell_id"], name)
                compared += 1
    assert compared > 20


def test_wilson_interval_at_the_ends_and_in_the_middle():
    assert derived.wilson_interval(0, 0) is None
    assert derived.wilson_interval(5, 4) is None
    assert derived.wilson_interval(0, 10)[1] == 0
    assert derived.wilson_interval(10, 10)[2] == 1
    share, low, high = derived.wilson_interval(5, 10)
    assert (share, round(low, 4), round(high, 4)) == (0.5, 0.2366, 0.7634)


def test_a_quantile_needs_ten_samples_beyond_it():
    for percentile, least in (("p50", 20), ("p90", 100), ("p99", 1000), ("p999", 10000)):
        assert derived.has_enough_samples(percentile, least)
        assert not derived.has_enough_samples(percentile, least - 1)


def test_cells_without_numbers_have_no_derived_numbers():
    cell = generate.measured_cell()
    cell["status"] = "crashed"
    assert set(derived.derive(cell).values()) == {None}

"""Results that are broken, old, empty or still being written: each gets a clear word, and never half a page."""

import json

import pytest

import generate


def refused(folder, *said):
    """`allocmark report` reads the results before the page is made."""
    done = generate.run_program("report", folder)
    assert done.returncode in (2, 4, 6), done.stdout
    assert all(words in done.stderr for words in said), done.stderr
    assert not (folder / "report.html").exists()


def write(tmp_path, text):
    (tmp_path / "results.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path


def golden_text():
    return generate.GOLDEN.read_text()


def changed(change, line_index=1):
    lines = generate.golden_lines()
    change(lines[line_index])
    return "".join(json.dumps(line) + "\n" for line in lines)


def without_histograms(cell):
    for one in cell["passes"]:
        one.update({name: None for name in one if name.endswith("_histogram")})
    return cell


def test_the_page_has_every_cell_as_it_is_stored():
    lines = generate.golden_lines()
    run = generate.read_with_facts(generate.GOLDEN.parent)
    assert run.environment == lines[0]
    stored = {line["cell_id"]: without_histograms(line) for line in lines[1:]}
    assert set(stored) == {cell["cell_id"] for cell in run.cells}
    for cell in run.cells:
        line = stored[cell["cell_id"]]
        assert {name: cell[name] for name in line if line[name] is not None} == {name: value for name, value in line.items() if value is not None}


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda cell: cell.pop("workload"), "'workload' is missing"),
        (lambda cell: cell.update(oom_count="3"), "'oom_count'"),
        (lambda cell: cell.update(status="fine"), "one of ok"),
        (lambda cell: cell.update(schema_version="2.0.0"), "1.x.y"),
        (lambda cell: cell.update(surprise=1), "'surprise'"),
        (lambda cell: cell.update(cell_id="<script>"), "cell_id"),
        (lambda cell: cell.update(passes=[{"surprise": 1}]), "surprise"),
        (lambda cell: cell.update(wall_s=float("nan")), "no whole JSON"),
    ],
)
def test_a_broken_line_is_named(tmp_path, change, said):
    refused(write(tmp_path, changed(change)), "results.jsonl:2", said)


@pytest.mark.parametrize("raw", [b"{\n", b"[]\n", b"\xff\xfe\n", b'{"kind":NaN}\n', b"[" * 100000 + b"\n", b"\n", b"null\n"])
def test_a_line_that_is_no_result_is_named(tmp_path, raw):
    refused(write(tmp_path, golden_text().encode() + raw), f"results.jsonl:{len(generate.golden_lines()) + 1}")


def test_a_newer_minor_version_may_have_more_keys(tmp_path):
    assert generate.read_with_facts(write(tmp_path, changed(lambda cell: cell.update(schema_version="1.99.0", surprise=1)))).cells


def test_empty_and_missing_files(tmp_path):
    refused(write(tmp_path, ""), "empty")
    refused(write(tmp_path, golden_text().splitlines()[0] + "\n"), "no cells yet")
    refused(tmp_path / "nowhere", "results.jsonl")


def test_a_run_still_being_written_is_read_and_told(tmp_path):
    run = generate.read_with_facts(write(tmp_path, golden_text()[:-40]))
    assert any("incomplete" in note for note in run.notes)
    assert len(run.cells) == len({line["cell_id"] for line in generate.golden_lines()[1:-1]})


def test_the_last_line_of_a_repeated_cell_counts(tmp_path):
    lines = generate.golden_lines()
    again = dict(lines[1], wall_s=77.0)
    run = generate.read_with_facts(write(tmp_path, "".join(json.dumps(line) + "\n" for line in [*lines, again])))
    assert [cell["wall_s"] for cell in run.cells if cell["cell_id"] == again["cell_id"]] == [77.0]
    assert any("run again" in note for note in run.notes)


def test_a_large_run_has_a_small_page(tmp_path):
    """Experiments where nothing was decided lose their tables first; all are counted."""
    lines = generate.make_lines(1530)
    folder = generate.write_folder(tmp_path, lines)
    run = generate.read_with_facts(folder)
    others = run.answers["others"]
    assert len(run.cells) <= 1500 and len(run.cells) + sum(len(one["cells"]) for one in others) == len(lines) - 1
    assert {one["verdict"] for one in others} == {"served"}
    generate.make_report(folder)
    text = (folder / "report.html").read_text()
    assert f"{len(others)} of {len(others) + len(run.answers['experiments'])} experiments have no table here" in text


OTHER_KIND_OF_BLOCK = [{"event_index": 1, "segments": [{"address": 0, "blocks": [[0, 1, 7]]}]}]


def with_pools(**fields):
    pools = {"event_index": [1], "reserved_bytes": [9], "live_bytes": [4], "captures": []}
    return json.dumps({**generate.make_timeline("0"), "private_pools": {**pools, **fields}})


@pytest.mark.parametrize("broken", ["{", "[]", json.dumps({**generate.make_timeline("0"), "snapshots": OTHER_KIND_OF_BLOCK}),
                                    json.dumps({**generate.make_timeline("0"), "private_pools": [1]}),
                                    with_pools(live_bytes=[1, 2]), with_pools(reserved_bytes=[None]), with_pools(captures=[[3, 2, 0]]),
                                    with_pools(captures=[[1, 2]]), with_pools(captures={}),
                                    '{"kind":"timeline"}',
                                    '{"kind":"timeline","schema_version":"1.0.0","event_index":[1],"requested_bytes":["x"]}'])
def test_a_broken_timeline_costs_only_its_chart(tmp_path, broken):
    folder = write(tmp_path, golden_text())
    (folder / "timelines").mkdir()
    (folder / "timelines" / f"{generate.measured_cell()['cell_id']}.json").write_text(broken)
    generate.make_report(folder)
    text = (folder / "report.html").read_text()
    assert "cannot be used" in text and '"timelines":{}' in text

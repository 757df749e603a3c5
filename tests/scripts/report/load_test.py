"""Results that are broken, old, empty or still being written: each gets a clear word, and never half a page."""

import json

import generate
import load
import pytest
import report


def refused(folder):
    """The results are looked at before the facts, which here are none."""
    return report.main(["--facts", "/dev/null", str(folder)]) == 4


def write(tmp_path, text):
    (tmp_path / "results.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path


def golden_text():
    return generate.GOLDEN.read_text()


def changed(change, line_index=1):
    lines = generate.golden_lines()
    change(lines[line_index])
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_golden_results_are_read():
    lines = generate.golden_lines()
    run = load.read_run(generate.GOLDEN.parent)
    assert len(run.cells) == len({line["cell_id"] for line in lines[1:]})
    assert run.environment == lines[0]


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda cell: cell.pop("workload"), "workload is missing"),
        (lambda cell: cell.update(oom_count="3"), "oom_count: wanted integer"),
        (lambda cell: cell.update(oom_count=-1), "oom_count: -1 is out of range"),
        (lambda cell: cell.update(status="fine"), "status: wanted one of ok"),
        (lambda cell: cell.update(schema_version="2.0.0"), "this report reads 1.x, got '2.0.0'"),
        (lambda cell: cell.update(schema_version=None), "this report reads 1.x, got None"),
        (lambda cell: cell.update(surprise=1), "unknown key 'surprise'"),
        (lambda cell: cell.update(cell_id="<script>"), "cell_id"),
        (lambda cell: cell.update(kind="row"), "kind: wanted environment or cell"),
        (lambda cell: cell.update(passes=[{}]), "is missing"),
        (lambda cell: cell.update(counters={"x": 0.5}), "counters.x: wanted integer"),
    ],
)
def test_a_broken_line_is_named(tmp_path, change, said, capsys):
    folder = write(tmp_path, changed(change))
    assert refused(folder)
    message = capsys.readouterr().err
    assert "results.jsonl:2" in message and said in message
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize("raw", [b"{\n", b"[]\n", b"\xff\xfe\n", b'{"kind":NaN}\n', b"[" * 100000 + b"\n", b"\n", b"null\n"])
def test_a_line_that_is_no_result_is_named(tmp_path, raw, capsys):
    folder = write(tmp_path, golden_text().encode() + raw)
    assert refused(folder)
    assert f"results.jsonl:{len(generate.golden_lines()) + 1}" in capsys.readouterr().err


def test_not_a_number_is_refused(tmp_path, capsys):
    folder = write(tmp_path, changed(lambda cell: cell.update(wall_s=float("nan"))))
    assert refused(folder)
    assert "NaN" in capsys.readouterr().err


def test_a_newer_minor_version_may_have_more_keys(tmp_path):
    folder = write(tmp_path, changed(lambda cell: cell.update(schema_version="1.99.0", surprise=1)))
    assert load.read_run(folder).cells


def test_empty_and_missing_files(tmp_path, capsys):
    for text, said in (("", "no complete line"), (golden_text().splitlines()[0] + "\n", "no cells yet"), ('{"kind"', "no complete line")):
        assert refused(write(tmp_path, text))
        assert said in capsys.readouterr().err
    assert refused(tmp_path / "nowhere")
    assert "allocmark run" in capsys.readouterr().err


def test_a_run_still_being_written_is_read_and_told(tmp_path):
    text = golden_text()
    run = load.read_run(write(tmp_path, text[:-40]))
    assert any("incomplete" in note for note in run.notes)
    assert len(run.cells) == len({line["cell_id"] for line in generate.golden_lines()[1:-1]})


def test_the_last_line_of_a_repeated_cell_counts(tmp_path):
    lines = generate.golden_lines()
    again = dict(lines[1], wall_s=77.0)
    run = load.read_run(write(tmp_path, "".join(json.dumps(line) + "\n" for line in [*lines, again])))
    assert [cell["wall_s"] for cell in run.cells if cell["cell_id"] == again["cell_id"]] == [77.0]
    assert any("run again" in note for note in run.notes)


@pytest.mark.parametrize("broken", ["{", "[]", json.dumps(dict(generate.make_timeline("0"), snapshots=[{"event_index": 1, "segments": [{"address": 0, "blocks": [[0, 1, 7]]}]}])), '{"kind":"timeline"}', '{"kind":"timeline","schema_version":"1.0.0","event_index":[1],"requested_bytes":["x"]}'])
def test_a_broken_timeline_costs_only_its_chart(tmp_path, broken):
    folder = write(tmp_path, golden_text())
    (folder / "timelines").mkdir()
    (folder / "timelines" / f"{generate.measured_cell()['cell_id']}.json").write_text(broken)
    generate.make_report(folder)
    text = (folder / "report.html").read_text()
    assert "cannot be used" in text and '"timelines":{}' in text

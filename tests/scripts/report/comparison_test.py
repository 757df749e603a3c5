"""The comparison on the page: what stands there is what `allocmark compare --format json` says, in its order, and nothing else; and what a
reader sees of comparisons that pass, fail or cannot be decided."""

import copy
import json

import pytest

import comparisons
import conftest
import generate


def folders(tmp_path, change):
    """(new, base): nine cells, and the same with `change` made to the new ones."""
    lines = generate.make_lines(9)
    base = generate.write_folder(tmp_path / "base", lines)
    changed = copy.deepcopy(lines)
    change(changed)
    return generate.write_folder(tmp_path / "new", changed), base


def judged_by_program(new, base):
    done = generate.run_program("compare", base, new, "--format", "json")
    return done.returncode, json.loads(done.stdout)


def shown(new, base):
    run = generate.read_with_facts(new, "--baseline", base)
    return run, comparisons.prepare_comparisons(run)[0]


def fail_a_request(lines):
    lines[1].update(oom_count=lines[1]["oom_count"] + 3)
    lines[2].update(placement_hash="00000000000000ff")
    lines[3].update(reserved_bytes_peak=lines[3]["reserved_bytes_peak"] - 512)


def test_verdicts_and_order_are_the_programs(tmp_path):
    new, base = folders(tmp_path, fail_a_request)
    code, comparison = judged_by_program(new, base)
    run, view = shown(new, base)
    assert run.comparisons[0]["comparison"] == comparison and code == comparison["exit_code"] == 1
    assert [row["verdict"] for row in view["rows"]] == [cell["verdict"] for cell in comparison["cells"]]
    assert [row["key"]["cell_id"] for row in view["rows"]] == [cell["cell_id"] for cell in comparison["cells"]]
    assert view["decision"] == "Fails the policy: 1 of 9 cells are worse" and not view["passed"]
    assert view["rows"][0]["main"]["name"] == "failed requests" and view["rows"][0]["main"]["change"] == "+3"
    data = comparisons.comparison_data(run)[0]
    for cell, row in zip(comparison["cells"], data["cells"]):
        assert len(row["numbers"]) + row["same"] == len(cell["numbers"])
        assert {one[1] for one in row["numbers"]} >= {one["verdict"] for one in cell["numbers"]} - {"same"}


@pytest.mark.parametrize(
    "change, decision",
    [
        (lambda lines: None, "Passes the policy: 9 cells compared, nothing is worse, 9 undecided"),
        (lambda lines: lines[3].update(reserved_bytes_peak=lines[3]["reserved_bytes_peak"] - 512),
         "Passes the policy: 9 cells compared, 1 of them better, 8 undecided"),
        (lambda lines: lines[5].update(status="crashed", reason="signal 11"), "Fails the policy: 1 of 9 cells are worse"),
        (lambda lines: [line.update(seed=99) for line in lines[1:]], "Cannot be decided: nothing was compared"),
    ],
)
def test_the_decision_says_what_the_exit_code_says(tmp_path, change, decision):
    new, base = folders(tmp_path, change)
    code, _ = judged_by_program(new, base)
    _, view = shown(new, base)
    assert view["decision"] == decision
    assert view["passed"] == (code == 0)
    generate.make_report(new, "--baseline", base)
    assert decision in (new / "report.html").read_text()


def test_texts_of_changes():
    assert comparisons.share_text(0.1234) == "+12.3 %"
    assert comparisons.share_text(-0.05) == "−5 %"
    assert comparisons.share_text(99) == "×100"
    assert comparisons.share_text(0.0) == "0 %"
    assert comparisons.value_text("allocate_latency_ns_p50", 1234.5) == "1.234 us"
    assert comparisons.value_text("reserved_bytes_peak", None) == "-"
    assert comparisons.change_text({"number": "oom_count", "change": None, "base": 0, "new": 3}) == "+3"
    assert comparisons.change_text({"number": "placement_hash", "change": None, "base": "a", "new": "b"}) == "changed"


def test_two_baselines_make_two_sections(tmp_path):
    new, base = folders(tmp_path, fail_a_request)
    generate.make_report(new, "--baseline", base, "--baseline", new)
    text = (new / "report.html").read_text()
    assert text.count('class="comparison"') == 2
    assert text.index("Fails the policy") < text.index("Passes the policy") < text.index('id="answer"')


def test_a_run_still_being_written_is_never_a_pass(tmp_path):
    new, base = folders(tmp_path, lambda lines: None)
    text = (new / "results.jsonl").read_text()
    (new / "results.jsonl").write_text(text[:-100])
    _, view = shown(new, base)
    assert not view["passed"] and any("cut short" in failure for failure in view["failures"])


def test_what_is_no_facts_is_refused():
    import facts
    import load

    for text in ("", "{}", "[]", '{"kind":"report_facts","schema_version":"7.0.0"}'):
        with pytest.raises(load.ReportError, match="no facts"):
            facts.read_facts(text, "stdin")


def test_hostile_names_stay_text_in_the_comparison(golden_page):
    text = golden_page.read_text()
    assert 'class="comparison"' in text and conftest.HOSTILE not in text

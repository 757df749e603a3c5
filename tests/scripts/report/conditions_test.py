"""What else went on during a run is shown with the warnings of its environment."""

import pytest

import generate


def folder_with(tmp_path, text):
    generate.write_folder(tmp_path, generate.golden_lines())
    (tmp_path / "conditions.json").write_text(text)
    return tmp_path


def test_warnings_of_the_conditions_follow_those_of_the_environment(tmp_path):
    before = generate.golden_lines()[0]["warnings"]
    run = generate.read_with_facts(folder_with(tmp_path, '{"warnings": ["a neighbour was loud"]}'))
    assert run.environment["warnings"] == before + ["a neighbour was loud"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"warnings": "x"}', '{"warnings": [1]}'])
def test_conditions_that_cannot_be_read_are_named(tmp_path, text):
    done = generate.run_program("report", folder_with(tmp_path, text))
    assert done.returncode == 2 and "conditions.json" in done.stderr

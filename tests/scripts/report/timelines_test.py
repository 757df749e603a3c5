"""Timelines thinned for the page: peaks survive, maps keep their lengths, and the budget holds."""

import json

import generate
import timelines


def test_peaks_and_the_end_survive_thinning():
    timeline = generate.make_timeline("00", 2000)
    timeline["requested_bytes"][777] = 1 << 60
    requested = timeline["requested_bytes"]
    at = timelines.kept_moments(requested, 100)
    assert len(at) <= 100 and 777 in at and at[-1] == 1999 and list(at) == sorted(at)
    assert list(timelines.kept_moments(requested, 2000)) == list(range(2000))


def test_maps_keep_lengths_states_and_holes():
    snapshot = {
        "event_index": 9,
        "segments": [
            {"address": 1024, "size_bytes": 4096, "stream": 0, "blocks": [[1024, 512, 1], [1536, 1, 2], [2048, 1024, 0], [4096, 1024, 1]]}
        ],
    }
    # The block of one byte is too small to be drawn; the room that no block covers is free.
    assert timelines.compact_map(snapshot) == [9, [2, 1, 1, 1, 0, 2, 0, 2, 0, 2, 1]]


def test_every_timeline_gets_its_part_of_the_budget(tmp_path, monkeypatch):
    monkeypatch.setattr(timelines, "CHARACTERS_MAX", 200_000)
    cells = generate.make_lines(10)[1:]
    parts = [generate.make_timeline(cell["cell_id"], 2000) for cell in cells]
    run = generate.read_with_facts(generate.write_folder(tmp_path, [generate.golden_lines()[0], *cells], parts))
    kept, left_out = timelines.fit_timelines(run, cells, lambda *_: "")
    assert len(kept) == 10 and left_out == 0
    assert len(json.dumps(kept, separators=(",", ":"))) < 210_000
    run.timelines = {}
    assert timelines.fit_timelines(run, cells, lambda *_: "") == ({}, 0)

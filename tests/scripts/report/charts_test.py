"""Charts as SVG files: well-formed, alone in the world, with the marks that the numbers ask for, and with names that stay text."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import chart_parts
import charts as charts_module
import conftest
import facts
import generate
import svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def charts(tmp_path_factory):
    """Of hostile results with timelines and a comparison: {file name: root element}."""
    folder = tmp_path_factory.mktemp("charts")
    lines = conftest.hostile_lines()
    timelines = [generate.make_timeline(generate.cell_id(generate.measured_cell()))]
    generate.write_folder(folder, lines, timelines)
    said = generate.make_report(folder, "--no-html", "--svg", folder / "svg", "--baseline", conftest.write_baseline(folder))
    paths = sorted((folder / "svg").glob("*.svg"))
    assert f"charts: {len(paths)} in" in said
    return {path.name: ElementTree.fromstring(path.read_text()) for path in paths}


def test_every_kind_of_chart_is_made(charts):
    kinds = {name.split("-", 2)[2].split("-")[0].removesuffix(".svg") for name in charts if name.startswith("experiment")}
    assert kinds - {"tails"} == {"cost", "latency", "memory", "oom", "slow", "timeline"}


def test_every_cause_has_a_colour_of_its_own_in_both_themes():
    sheet = (Path(charts_module.__file__).parent / "page" / "style.css").read_text()
    colours = [re.findall(rf"--cause{number}: (#[0-9a-f]{{6}});", sheet) for number in range(len(facts.CAUSES))]
    assert [len(one) for one in colours] == [2] * len(facts.CAUSES)
    assert [len(set(theme)) for theme in zip(*colours)] == [len(facts.CAUSES)] * 2


def test_nothing_but_shapes_and_text(charts):
    for name, root in charts.items():
        tags = {element.tag.removeprefix(SVG) for element in root.iter()}
        assert tags <= {"svg", "title", "rect", "line", "circle", "polyline", "text"}, name
        names = {attribute for element in root.iter() for attribute in element.attrib}
        assert not {one for one in names if one.startswith("on") or "href" in one or one == "style"}, name


def test_numbers_are_finite_and_inside_the_page(charts):
    for name, root in charts.items():
        width, height = float(root.get("width")), float(root.get("height"))
        for element in root.iter():
            for axis, limit in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y", height), ("y1", height), ("y2", height), ("cy", height)):
                if element.get(axis) is not None:
                    assert 0 <= float(element.get(axis)) <= limit, (name, ElementTree.tostring(element))


def test_a_latency_chart_has_a_dot_per_quantile(charts):
    lines = conftest.hostile_lines()
    of_hostile = [line for line in lines[1:] if conftest.HOSTILE in line["workload"]]
    name = next(name for name, root in charts.items() if name.endswith("latency.svg") and conftest.HOSTILE[:20] in root.find(f"{SVG}title").text)
    assert len(charts[name].findall(f"{SVG}circle")) == 5 * len(of_hostile)


def test_tails_are_drawn_from_histograms(tmp_path):
    folder = generate.write_folder(tmp_path, generate.make_lines(9))
    generate.make_report(folder, "--no-html", "--svg", tmp_path / "svg")
    root = ElementTree.fromstring((tmp_path / "svg" / "experiment-1-tails.svg").read_text())
    assert len(root.findall(f"{SVG}polyline")) == 9


def test_a_drawing_escapes_what_xml_cannot_have():
    drawing = svg.Drawing(10, 10, "<a>\x00", {"page": "#fff", "text": "#000"})
    drawing.text(1, 1, "</svg><script>\x1b&")
    root = ElementTree.fromstring(drawing.render())
    assert root.find(f"{SVG}text").text == "</svg><script>\N{REPLACEMENT CHARACTER}&"
    assert root.find(f"{SVG}title").text == "<a>\N{REPLACEMENT CHARACTER}"


def test_scales_and_ticks():
    assert svg.Scale(0, 10, 0, 100)(5) == 50
    assert svg.Scale(1, 100, 0, 100, log=True)(10) == pytest.approx(50)
    assert svg.round_ticks(20, 4) == [0, 5, 10, 15, 20]
    assert svg.decades(3, 700) == [1, 10, 100, 1000]
    assert svg.round_ticks(0) == [0]


def test_settings_of_the_only_release_are_named_by_their_config_string():
    cell = {"conf": "max_split_size_mb:64", "allocator": "caching@2.11"}
    unset, newest = {"conf": "", "allocator": "caching@2.11"}, {"conf": "max_split_size_mb:64", "allocator": "caching"}
    alone, both = chart_parts.only_release([cell, unset]), chart_parts.only_release([cell, newest])
    assert [chart_parts.label_text(one, alone) for one in (cell, unset)] == ["max_split_size_mb:64", "caching@2.11 unset"]
    assert [chart_parts.label_text(one, both) for one in (cell, newest)] == ["caching@2.11 max_split_size_mb:64", "max_split_size_mb:64"]


POOLS = {"event_index": [0, 400, 400, 1000], "reserved_bytes": [0, 0, 4 << 20, 8 << 20], "live_bytes": [0, 0, 4 << 20, 1 << 20],
         "captures": [[100, 300, 0], [500, 700, 1]]}


def test_private_pools_are_steps_and_captures_a_strip():
    timeline = {**generate.make_timeline("00"), "private_pools": POOLS}
    text = charts_module.timeline_chart(generate.measured_cell(), timeline, chart_parts.file_style())
    root = ElementTree.fromstring(text)
    lines = [one.get("points").split() for one in root.findall(f"{SVG}polyline")]
    assert len(lines) == 6 and [len(one) for one in lines[4:]] == [7, 7]
    heights = [float(one.split(",")[1]) for one in lines[5]]
    # Nothing is stranded until the last moment, and the step is upright.
    assert heights[:6] == [heights[0]] * 6 and heights[6] < heights[0] and lines[5][5].split(",")[0] == lines[5][6].split(",")[0]
    strips = {one.find(f"{SVG}title").text: one for one in root.findall(f"{SVG}rect") if one.find(f"{SVG}title") is not None}
    assert list(strips) == ["capture of a graph, events 100 to 300", "failed capture of a graph, events 500 to 700"]
    fills = [one.get("fill") for one in strips.values()]
    assert fills == [chart_parts.light_colours()[name] for name in ("cause1", "bad")]
    assert {"in private pools", "stranded in them"} <= {one.text for one in root.findall(f"{SVG}text")}


def test_captures_alone_and_no_pools_draw_no_curve():
    for pools, strips in (({**POOLS, "event_index": [], "reserved_bytes": [], "live_bytes": []}, 2), (None, 0)):
        timeline = {**generate.make_timeline("00"), **({"private_pools": pools} if pools else {})}
        root = ElementTree.fromstring(charts_module.timeline_chart(generate.measured_cell(), timeline, chart_parts.file_style()))
        assert len(root.findall(f"{SVG}polyline")) == 4
        assert sum(one.find(f"{SVG}title") is not None for one in root.findall(f"{SVG}rect")) == strips

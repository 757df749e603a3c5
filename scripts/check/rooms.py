#!/usr/bin/env python3
"""Holds the code to the plan of rooms. A room is a folder whose CMakeLists.txt calls allocmark_room; its USES name the rooms
that it may include. Prints file:line and the rule for: an include that USES does not name, a USES that nothing needs, a
circle of rooms, a tool that includes another tool, an arrow back from below the harness into it, a source file outside any room,
a room without a README, a README whose "May include" is not what USES name or that does not say what to open first, a file or
a room that the README next above it does not name, a file named in a README that is not there.

scripts/check/rooms.py          checks; exit code 1 where a rule is broken
scripts/check/rooms.py --write  makes USES and "May include" say what is included
scripts/check/rooms.py --text   draws the rooms as a list, each with what it uses
scripts/check/rooms.py --dot    the same as a graph for Graphviz
"""
import argparse
import fnmatch
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'\s*#\s*include "([^"]+)"')
# Programs and plugins: they use rooms, and no room uses them.
MAIN = "harness/tools"  # only what lies in it directly: its folders are rooms
PROGRAMS = (
    MAIN,
    "harness/tools/capture/preload",
    "harness/simcuda/shim",
    "harness/simcuda/launcher",
    "harness/simcuda/example",
    "harness/tools/bench",
    "allocators/examples",
)


def listed(words, keyword):
    """The words after a keyword of a CMake call, up to the next keyword."""
    values, taking = [], False
    for word in words:
        if re.fullmatch(r"[A-Z_]+", word):
            taking = word == keyword
        elif taking:
            values.append(word)
    return values


def read_rooms(root):
    """{room: rooms it may use}, from every CMakeLists.txt that calls allocmark_room."""
    rooms = {}
    for path in sorted(root.rglob("CMakeLists.txt")):
        name = path.parent.relative_to(root).as_posix()
        if name.startswith(("build", "tests")):
            continue
        call = re.search(r"^allocmark_room\((.*?)\)", path.read_text(), re.S | re.M)
        if call:
            rooms[name] = listed(call.group(1).split(), "USES")
    return rooms


def room_of(path, known):
    """The innermost room or program that a file lies in; None where there is none."""
    folder = Path(path).parent
    while folder.as_posix() != ".":
        name = folder.as_posix()
        if name in known and (name != MAIN or folder == Path(path).parent):
            return name
        folder = folder.parent
    return None


def sources(root, endings=(".h", ".cc", ".cu", ".c")):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True)
    for name in names.stdout.split():
        if name.endswith(endings) and not name.startswith("tests/") and (root / name).is_file():
            yield name


def includes(root, name):
    for number, line in enumerate((root / name).read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match and "/" in match.group(1):
            yield number, match.group(1)


def find_circle(rooms):
    """Rooms that include each other, as a list that begins and ends with the same one; empty where there are none."""
    done = set()

    def walk(room, trail):
        if room in trail:
            return trail[trail.index(room):] + [room]
        if room in done:
            return []
        for used in rooms.get(room, []):
            circle = walk(used, trail + [room])
            if circle:
                return circle
        done.add(room)
        return []

    for room in rooms:
        circle = walk(room, [])
        if circle:
            return circle
    return []


MAY_INCLUDE = re.compile(r"(?<=^## May include\n\n).*?(?=\n\n|\n*\Z)", re.S | re.M)
USES = re.compile(r"(^allocmark_room\([^)]*?^  USES\n)([^)]*?)(?=^  [A-Z]|\))", re.S | re.M)


def may_include(targets):
    """The paragraph of a README that names these rooms."""
    names = [f"`{target}`" for target in targets]
    if not names:
        return "No other room."
    text = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) + "."
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False)


def arrows(root, known):
    """(file, its room, line, what it includes, that one's room) for every include of another room or program of ours; a file
    in no room comes once, without the rest."""
    for name in sources(root):
        room = room_of(name, known)
        if room is None:
            yield name, None, 1, None, None
            continue
        for number, included in includes(root, name):
            target = room_of(included, known)
            if target not in (None, room) and (root / included).is_file():  # else made at build time, or another library's
                yield name, room, number, included, target


def write(root):
    """Makes every CMakeLists.txt and README.md name the rooms that are included."""
    rooms = read_rooms(root)
    used = {room: set() for room in rooms}
    for _, room, _, _, target in arrows(root, set(rooms) | set(PROGRAMS)):
        if room in rooms and target in rooms:
            used[room].add(target)
    for room, targets in used.items():
        write_room(root / room, sorted(targets))


def write_room(folder, targets):
    path, readme = folder / "CMakeLists.txt", folder / "README.md"
    names = "".join(f"  {target}\n" for target in targets)
    text = USES.sub(lambda found: found.group(1) + names, path.read_text(), count=1)
    path.write_text(re.sub(r"\n\)", ")", text))
    if readme.is_file():
        readme.write_text(MAY_INCLUDE.sub(lambda _: may_include(targets), readme.read_text(), count=1))


def tool_of(room):
    """The folder of the tool that a room belongs to; None for others."""
    return "/".join(room.split("/")[:3]) if room.startswith("harness/tools/") else None


def check_arrow(room, target):
    """Why a room of the plan may not use another; None where it may."""
    if tool_of(target) and tool_of(room) not in (None, tool_of(target)):
        return "a tool includes no other tool; what two need belongs to harness/core or harness/shell"
    if target.startswith("harness/") and not room.startswith("harness/"):
        return "only the harness includes the harness"
    order = ["harness/core", "harness/shell", "harness/tools"]
    level = [next((at for at, name in enumerate(order) if one.startswith(name)), None) for one in (room, target)]
    if None not in level and level[0] < level[1]:
        return f"{order[level[0]]} includes nothing of {order[level[1]]}"
    return None


def check_readme(root, room, targets):
    readme = root / room / "README.md"
    if not readme.is_file():
        yield f"{room}/CMakeLists.txt:1: the room has no README.md"
        return
    text = readme.read_text()
    found = MAY_INCLUDE.search(text)
    if found is None or found.group(0) != may_include(sorted(targets)):
        line = text.count("\n", 0, found.start()) + 1 if found else 1
        yield f'{room}/README.md:{line}: "May include" is not what USES name; write it: scripts/check/rooms.py --write'
    if "**Open first" not in text:
        yield f"{room}/README.md:1: does not say which file to open first; write a line '**Open first:** `FILE`'"
    above = next((one for one in Path(room).parents if (root / one / "README.md").is_file()), Path())
    if above != Path() and not names_folder((root / above / "README.md").read_text(), Path(room).relative_to(above)):
        yield f"{room}/README.md:1: {above.as_posix()}/README.md does not name the room; link it there"


def spelled_out(text):
    """The texts that a text with {one,other} stands for."""
    choice = re.search(r"{([^{}]*)}", text)
    if choice is None:
        return [text]
    return [each for one in choice[1].split(",") for each in spelled_out(text[: choice.start()] + one + text[choice.end() :])]


def names_in(page):
    """Files and folders that a README names in code or by a link: `a.h`, `a.*`, `a_{b,c}.cc` or `folder/`."""
    for span in re.findall(r"`([^`\n]+)`|\]\(([^)\s]+)\)", page):
        for text in spelled_out("".join(span)):
            yield from text.replace(",", " ").split()


def is_named(path, names):
    """Whether names have the file, seen from their README, or its header, or a folder that it lies in."""
    folders = {f"{parent.name}/" for parent in path.parents if parent.name}
    for name in names:
        if name.endswith("/") and f"{name.rstrip('/').rsplit('/', 1)[-1]}/" in folders:
            return True
        stem = name.rsplit("/", 1)[-1].rpartition(".")[0]
        if stem.strip("*") and fnmatch.fnmatchcase(path.stem, stem):
            return True
    return False


def names_folder(page, folder):
    """Whether a README links a folder below it, or names it."""
    names = (name.rstrip("/").removesuffix("/README.md") for name in names_in(page))
    return any(f"/{name}".endswith(f"/{folder.as_posix()}") for name in names)


# Of others, and what stands for a name.
FOREIGN = re.compile(r"cuda\.h|cuda_runtime_api\.h|.*[A-Z].*")
SOURCE = re.compile(r"[\w./-]*\w\.(?:cc|h|cu|py|sh|cmake|inc)")


def check_existing(root):
    """A file that a README of a folder of code names, and that is nowhere."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True)
    files = [name for name in listed.stdout.split() if (root / name).is_file()]
    for page in files:
        if not page.endswith("README.md") or page.startswith("results/published/"):
            continue
        for name in names_in((root / page).read_text()):
            path = name.removeprefix("./").replace("../", "")
            if SOURCE.fullmatch(name) and not FOREIGN.fullmatch(name) and not any(f"/{one}".endswith(f"/{path}") for one in files):
                yield f"{page}:1: names {name}, which is not there"


def check_named(root):
    """A file that the README next above it does not name. Commands follow from the names of their folders."""
    pages = {}
    for name in sources(root, (".h", ".cc", ".cu", ".c", ".py", ".sh")):
        path = Path(name)
        folder = next((one for one in path.parents if (root / one / "README.md").is_file()), Path())
        if folder == Path() or name.startswith("results/published/") or path.name.endswith("_command.cc"):
            continue
        if folder not in pages:
            pages[folder] = list(names_in((root / folder / "README.md").read_text()))
        if not is_named(path.relative_to(folder), pages[folder]):
            yield f"{name}:1: {folder.as_posix()}/README.md does not name it; say there what it is for"


def check(root):
    rooms = read_rooms(root)
    known = set(rooms) | set(PROGRAMS)
    used = {room: set() for room in rooms}
    for name, room, number, included, target in arrows(root, known):
        if room is None:
            yield f"{name}:1: lies in no room; a room's CMakeLists.txt calls allocmark_room"
        elif target in PROGRAMS:
            yield f"{name}:{number}: {included} belongs to a program, {target}/; no room includes one"
        elif room in rooms:
            used[room].add(target)
            if target not in rooms[room]:
                yield f"{name}:{number}: {room}/ may not include {included}; its USES do not name {target}"
    for room, targets in rooms.items():
        for target in targets:
            if target not in rooms:
                yield f"{room}/CMakeLists.txt:1: USES {target}, which is no room"
            elif target not in used[room]:
                yield f"{room}/CMakeLists.txt:1: USES {target} and includes nothing of it"
            if reason := check_arrow(room, target):
                yield f"{room}/CMakeLists.txt:1: USES {target}: {reason}"
        yield from check_readme(root, room, targets)
    yield from check_named(root)
    yield from check_existing(root)
    circle = find_circle(rooms)
    if circle:
        yield "a circle of rooms: " + " -> ".join(circle)


def draw_text(rooms):
    width = max(map(len, rooms))
    return "".join(f"{room:<{width}}  {' '.join(targets)}".rstrip() + "\n" for room, targets in rooms.items())


def draw_dot(rooms):
    arrows = [f'  "{room}" -> "{target}";\n' for room, targets in rooms.items() for target in targets]
    return 'digraph rooms {\n  rankdir=LR;\n  node [shape=box];\n' + "".join(arrows) + "}\n"


def main(argv=None):
    parser = argparse.ArgumentParser(description="Hold the code to the plan of rooms, or draw it.")
    parser.add_argument("--write", action="store_true", help="make USES and READMEs say what is included")
    parser.add_argument("--text", action="store_true", help="draw the rooms as a list")
    parser.add_argument("--dot", action="store_true", help="draw the rooms for Graphviz")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout [the one of this script]")
    arguments = parser.parse_args(argv)
    if arguments.text or arguments.dot:
        rooms = read_rooms(arguments.root)
        sys.stdout.write(draw_dot(rooms) if arguments.dot else draw_text(rooms))
        return 0
    if arguments.write:
        write(arguments.root)
    broken = list(check(arguments.root))
    for line in broken:
        print(line, file=sys.stderr)
    print(f"rooms: {len(read_rooms(arguments.root))}, {len(broken)} rules broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

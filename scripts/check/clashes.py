#!/usr/bin/env python3
"""Finds names that the preset dev keeps apart and other presets do not. These compile several files as one unit, in which an
unnamed namespace is one for all of them. CTest runs it as `clashes`. Prints file:line and the other place.

The rule: what a file has for itself, in an unnamed namespace or as `static`, no other file that may be in its unit and no
header of theirs names likewise in the same namespace. Two may be equal aliases, or functions whose parameters differ. But
- texts count as one type and numbers as another, since a call might silently go to the other function;
- a header's function must have a parameter of a type of ours: otherwise calls find the file's own function alone;
- a function that is handed on by its name is the only one of that name;
- an alias inside a function has not the name of another file's alias: the compiler warns that it hides that one.
All COLD rooms and UNTIMED files are one group of such files, and all WARM rooms another: then a file that grows cannot move
names into one unit that clash there. Every other room is a group of its own, and so is a target that is compiled together
and a test program.
"""
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOM = re.compile(r"^allocmark_room\(([^()]*)\)", re.M)
UNTIMED = re.compile(r"\bUNTIMED((?:\s+\w+[.]cc)+)")
TARGET = re.compile(r"^allocmark_together\(", re.M)
TEST = re.compile(r"\ballocmark_test\(([^()]*)")
ALONE = re.compile(r"\bset_source_files_properties\(([^()]*)\bSKIP_UNITY_BUILD_INCLUSION")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
LOCAL_ALIAS = re.compile(r"^ +using (\w+) =", re.M)
TEST_CASE = re.compile(r"^[A-Z_]*TEST_CASE[A-Z_]*\s*\((?:[^()]|\([^()]*\))*\)", re.M)
# Comments, texts, characters and lines of the preprocessor, and separators of digits.
BLANKED = re.compile(r"""(?<=[\da-fA-F])'(?=[\da-fA-F])|//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'"""
                     r"""|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*""", re.S | re.M)
TYPE = re.compile(r"(?:struct|class|union|enum(?: class)?)\s+(\w+)(?:\s+final)?\s*(?::(?!:).*)?", re.S)
TEXTS = {"std::string", "std::string_view", "char*", "fs::path", "std::filesystem::path"}
OURS = re.compile(r"(?<![\w:])(?!CU[a-z])[A-Z]\w*[a-z]")
NUMBERS = re.compile(r"(std::)?(u?int\d+_t|size_t|ptrdiff_t)|bool|char|double|float|(unsigned |long )*(int|long|unsigned)")


@dataclass
class Name:
    file: str
    line: int
    scope: str  # "allocmark::qualify": the named namespaces
    own: bool  # of this file alone
    kind: str  # "function", "type", "variable" or "alias"
    text: str
    same: str  # of two functions of one name with the same text here, one may take the other's calls; of aliases: what for


def blank(text):
    """The text without what is no code; lines stay."""
    return BLANKED.sub(lambda match: ("" if (match[0][0] in "/#'" and len(match[0]) < 3) or match[0].lstrip()[0] in "/#" else '""')
                       + "\n" * match[0].count("\n"), text)


def without_angles(text):
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>]*>", "", text)
    return text


def parameter_type(text):
    if "=" in text:
        return f"[{parameter_type(text.split('=')[0])}]"  # a call may leave it away
    text = re.sub(r"\bconst\b|&|\[\[\w+\]\]", " ", text)
    if named := re.fullmatch(r"\s*(.*[\s>*])(\w+)\s*(\[\w*\]\s*)?", text, re.S):
        text = named[1] if re.search(r"\w", named[1]) else text
    text = re.sub(r"\s*([*<>,])\s*", r"\1", " ".join(text.split()))
    return "text" if text in TEXTS else "number" if NUMBERS.fullmatch(text) else text


def parameter_types(text):
    """Of "(int a, const X& b) const" what tells overloads apart: "number, X"."""
    parts, depth = [""], 0
    for letter in text[1:]:
        depth += (letter in "(<[{") - (letter in ")>]}")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return ", ".join(parameter_type(part) for part in parts)


def declared(head):
    """(kind, name, what makes it the same as another) of a declaration up to its body, value or semicolon; else None."""
    head = re.sub(r"\[\[.*?\]\]", "", head).strip()
    if alias := re.fullmatch(r"(?:using|namespace)\s+(\w+)\s*=\s*(.*)", head, re.S):
        return "alias", alias[1], " ".join(alias[2].split())
    if used := re.fullmatch(r"using\s+([\w:]*::(\w+))", head):
        return "alias", used[2], used[1]
    if not head or re.match(r"(using|static_assert|extern|friend|namespace)\b", head):
        return None
    # What a template may be called for tells it apart from nothing: its parameters are written as "any".
    if template := re.match(r"template\s*<((?:[^<>]|<[^<>]*>)*)>\s*", head):
        head = head[template.end():]
        for parameter in re.findall(r"\b(?:typename|class)\s*(?:\.\.\.\s*)?(\w+)", template[1]):
            head = re.sub(rf"\b{parameter}\b", "any", head)
    if named := TYPE.fullmatch(head):
        return "type", named[1], ""
    plain = re.sub(r"=.*", "", without_angles(head), flags=re.S)
    if called := re.search(r"\s([\w:~]+)\s*\(", plain):
        start = re.search(rf"\b{re.escape(called[1])}\s*(<[^()]*>)?\s*\(", head)
        return "function", called[1], parameter_types(head[start.end() - 1:] if start else "()")
    if named := re.search(r"\s(\w+)\s*(\[[^\]]*\]\s*)*$", plain):
        return "variable", named[1], ""
    return None


class Reader:
    """Walks over the code of a file; names holds what it declares outside functions and types."""

    def __init__(self, file, text):
        self.file, self.code, self.names = file, TEST_CASE.sub(self.without_name, blank(text)), []
        self.scopes, self.depth, self.start, self.kept, self.ends_with_semicolon = [], 0, 0, -1, False
        parentheses = 0
        for place, letter in enumerate(self.code):
            parentheses += (letter == "(") - (letter == ")")
            if letter in "{}" and parentheses > 0:
                continue  # a value, or the body of a lambda that is handed on
            if letter == "{":
                self.open(place)
            elif letter == "}":
                self.close(place)
            elif letter == ";" and self.depth == 0 and parentheses == 0:
                self.keep(place, declaration=True)
                self.start = place + 1

    @staticmethod
    def without_name(match):
        """A case of Catch2 has no name to clash with."""
        return "void ~() " + "\n" * match[0].count("\n")

    def open(self, place):
        if self.depth == 0:
            head = self.code[self.start:place]
            if space := re.fullmatch(r'\s*(?:inline\s+)?(?:namespace\s*([\w:]*)|extern\s*"")\s*', head):
                self.scopes.append(space[1])
                self.start = place + 1
                return
            self.keep(place, declaration=False)
        self.depth += 1

    def close(self, place):
        if self.depth > 0:
            self.depth -= 1
            if self.depth == 0 and not self.ends_with_semicolon:
                self.start = place + 1
            return
        if self.scopes:
            self.scopes.pop()
        self.start = place + 1

    def keep(self, place, declaration):
        head = self.code[self.start:place]
        found = None if "operator" in head else declared(head)
        if not declaration:
            self.ends_with_semicolon = not found or found[0] != "function" or "=" in without_angles(head)
            self.kept = place
        elif self.start <= self.kept:
            return  # the end of what had braces
        if found:
            line = 1 + self.code.count("\n", 0, self.start + len(head) - len(head.lstrip()))
            own = "" in self.scopes or (bool(re.match(r"\s*static\s|\s*constexpr\s", head)) and self.file.endswith(".cc"))
            if not (declaration and found[0] == "function" and own) and not re.search("::|~", found[1]):
                scope = "::".join(name for name in self.scopes if name)
                self.names.append(Name(self.file, line, scope, own, *found))
                if not declaration and re.match(r"\s*enum\s+(?!class)", head):
                    body = self.code[place + 1:self.code.index("}", place)]
                    self.names += [Name(self.file, line, scope, own, "variable", word, "")
                                   for word in re.findall(r"(?:^|,)\s*(\w+)", body)]


def with_defaults(name):
    return re.sub(r"[][]", "", name.same)


def clash(one, other):
    if one.kind == other.kind == "function":
        shared = other if one.own else one
        needed = re.sub(r"\[.*?\]", "", shared.same)
        return with_defaults(one) == with_defaults(other) or (not shared.own and not OURS.search(needed))
    return one.kind != other.kind or one.kind != "alias" or one.same != other.same


class Checkout:
    def __init__(self, root):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True)
        self.root, self.readers = root, {}
        self.files = [name for name in listed.stdout.split() if not name.startswith("build") and (root / name).is_file()]

    def read(self, file):
        if file not in self.readers:
            text = (self.root / file).read_text()
            self.readers[file] = Reader(file, text)
            self.readers[file].includes = INCLUDE.findall(text)
        return self.readers[file]

    def groups(self):
        """The files that one unit of some preset may hold."""
        cold, warm = [], []
        for name in self.files:
            if not name.endswith("CMakeLists.txt"):
                continue
            text, folder = re.sub(r"#.*", "", (self.root / name).read_text()), Path(name).parent
            alone = {word for call in ALONE.findall(text) for word in call.split()}
            here = [file for file in self.files if file.endswith(".cc") and Path(file).parent == folder and Path(file).name not in alone]
            for words in ROOM.findall(text):
                kind = (words.split() or [""])[-1]
                untimed = {word for call in UNTIMED.findall(words) for word in call.split()}
                cold += [file for file in here if kind == "COLD" or Path(file).name in untimed]
                warm += here if kind == "WARM" else []
                if kind not in ("COLD", "WARM"):
                    yield [file for file in here if Path(file).name not in untimed]
            if TARGET.search(text):
                yield here
            for words in TEST.findall(text):
                named = [os.path.normpath(folder / word) for word in words.split() if word.endswith(".cc") and word not in alone]
                yield [file for file in named if (self.root / file).is_file()]
        yield from (cold, warm)

    def headers(self, files):
        """All that these files include, directly or not."""
        found, left = set(), list(files)
        while left:
            for header in self.read(left.pop()).includes:
                if header not in found and (self.root / header).is_file():
                    found.add(header)
                    left.append(header)
        return found

    def check(self, files):
        by_name = {}
        for file in sorted({*files, *self.headers(files)}):
            for name in self.read(file).names:
                if name.own or file.endswith(".h"):
                    by_name.setdefault((name.scope, name.text), []).append(name)
        for (scope, text), names in by_name.items():
            for place, one in enumerate(names):
                others = [other for other in names[:place] if other.file != one.file and (one.own or other.own)]
                others = [other for other in others if clash(one, other) or self.hands_on(one) or self.hands_on(other)]
                if others:
                    yield f"{one.file}:{one.line}: {scope}::{text} is in {others[0].file}:{others[0].line} too: give one a name that says more"

        aliases = {text: name for (_, text), names in by_name.items() for name in names if name.kind == "alias"}
        for file in files:
            for match in LOCAL_ALIAS.finditer(self.read(file).code):
                other = aliases.get(match[1])
                if other and other.file != file:
                    line = self.read(file).code.count("\n", 0, match.start()) + 1
                    yield f"{file}:{line}: {match[1]} hides that of {other.file}:{other.line}: give one a name that says more"

    def hands_on(self, name):
        """Does its file give this function to another by its name?"""
        return name.own and name.kind == "function" and re.search(rf"[(,]\s*&?{name.text}\s*[,)]", self.read(name.file).code)


def check(root):
    checkout = Checkout(root)
    return sorted({line for files in checkout.groups() for line in checkout.check(files)})


def main():
    broken = check(ROOT)
    for line in broken:
        print(line, file=sys.stderr)
    files = {file for group in Checkout(ROOT).groups() for file in group}
    print(f"clashes: {len(files)} files, {len(broken)} names clash")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Finds names that the preset dev keeps apart and the preset release does not. There the files of all COLD rooms are compiled
in a few units (scripts/cmake/allocmark_cold.cmake), and an unnamed namespace is one for all files of a unit. CTest runs it as
`clashes`. Prints file:line and the other place.

The rule: what a file of a COLD room has for itself, in an unnamed namespace or as `static`, no other of these files and no
header names likewise in the same namespace. Two may be equal aliases, or functions whose parameters differ. Texts count as
one type and numbers as another, since a call might silently go to the other function. The rule is for all COLD rooms, not
for one unit: then a file that grows cannot move names into one unit that clash there.
"""
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLD = re.compile(r"^allocmark_room\([^()]*\bCOLD\)", re.M)
# Comments, texts, characters and lines of the preprocessor, and separators of digits.
BLANKED = re.compile(r"""(?<=[\da-fA-F])'(?=[\da-fA-F])|//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'"""
                     r"""|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*""", re.S | re.M)
TYPE = re.compile(r"(?:struct|class|union|enum(?: class)?)\s+(\w+)(?:\s+final)?\s*(?::(?!:).*)?", re.S)
TEXTS = {"std::string", "std::string_view", "char*", "fs::path", "std::filesystem::path"}
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
    return BLANKED.sub(lambda match: ("" if match[0][0] in "/#'" and len(match[0]) < 3 or match[0].lstrip()[0] in "/#" else '""')
                       + "\n" * match[0].count("\n"), text)


def without_angles(text):
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>]*>", "", text)
    return text


def parameter_type(text):
    text = re.sub(r"\bconst\b|&|\[\[\w+\]\]", " ", text.split("=")[0])
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
    head = re.sub(r"^template\s*<(?:[^<>]|<[^<>]*>)*>\s*", "", head)
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
        self.file, self.code, self.names = file, blank(text), []
        self.scopes, self.depth, self.start, self.kept, self.ends_with_semicolon = [], 0, 0, -1, False
        parentheses = 0
        for place, letter in enumerate(self.code):
            parentheses += (letter == "(") - (letter == ")")
            if letter == "{":
                self.open(place, parentheses)
            elif letter == "}":
                self.close(place)
            elif letter == ";" and self.depth == 0 and parentheses == 0:
                self.keep(place, declaration=True)
                self.start = place + 1

    def open(self, place, parentheses):
        if self.depth == 0:
            head = self.code[self.start:place]
            if space := re.fullmatch(r'\s*(?:inline\s+)?(?:namespace\s*([\w:]*)|extern\s*"")\s*', head):
                self.scopes.append(space[1])
                self.start = place + 1
                return
            if parentheses == 0:
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
            own = "" in self.scopes or bool(re.match(r"\s*static\s|\s*constexpr\s", head)) and self.file.endswith(".cc")
            if not (declaration and found[0] == "function" and own) and "::" not in found[1]:
                scope = "::".join(name for name in self.scopes if name)
                self.names.append(Name(self.file, line, scope, own, *found))
                if not declaration and re.match(r"\s*enum\s+(?!class)", head):
                    body = self.code[place + 1:self.code.index("}", place)]
                    self.names += [Name(self.file, line, scope, own, "variable", word, "")
                                   for word in re.findall(r"(?:^|,)\s*(\w+)", body)]


def clash(one, other):
    if one.kind in ("function", "alias") and one.kind == other.kind:
        return one.same == other.same if one.kind == "function" else one.same != other.same
    return True


def sources(root):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.split() if not name.startswith(("tests/", "build")) and (root / name).is_file()]
    cold = {str(Path(name).parent) for name in names if name.endswith("CMakeLists.txt") and COLD.search((root / name).read_text())}
    return [name for name in names if name.endswith(".h") or name.endswith(".cc") and str(Path(name).parent) in cold]


def check(root):
    by_name = {}
    for file in sorted(sources(root)):
        for name in Reader(file, (root / file).read_text()).names:
            if name.own or file.endswith(".h"):
                by_name.setdefault((name.scope, name.text), []).append(name)
    for (scope, text), names in by_name.items():
        for place, one in enumerate(names):
            others = [other for other in names[:place] if other.file != one.file and (one.own or other.own) and clash(one, other)]
            if others:
                yield f"{one.file}:{one.line}: {scope}::{text} is in {others[0].file}:{others[0].line} too: give one a name that says more"


def main():
    broken = list(check(ROOT))
    for line in broken:
        print(line, file=sys.stderr)
    print(f"clashes: {len(sources(ROOT))} files, {len(broken)} names clash")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

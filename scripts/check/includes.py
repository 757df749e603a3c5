#!/usr/bin/env python3
"""Finds a missing #include without compiling; run by CTest as `includes`. Where several files are compiled as one, the others
bring what a file forgot.

usage: includes.py [ROOT]

It follows the #include lines of each file of the product to all headers that they reach. A name of ours that a header
declares must be declared in one of these or in the file itself. A name of a library must have one of the headers that
include_names.py lists for it among them. Prints file:line, the name and the header that is missing.

The preset dev compiles each file by itself and sees more: the base of a class, a complete type behind a forward
declaration, a function found by its arguments, a system's header that no name here stands for.
"""
import re
import sys
from pathlib import Path

from clashes import ROOT, Reader, blank
from include_names import LIBRARIES, headers_of

ROOMS = ("base", "workloads", "allocators", "results", "harness")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
WORD = re.compile(r"\b([A-Za-z_]\w*)\b(?=\s*([(]|<(?! |=)|))")
BEFORE = re.compile(r"(->|[.]|\w*::)\s*$")
LIBRARY_WORD = re.compile(r"\b(" + "|".join(sorted(LIBRARIES, key=len, reverse=True))
                          + r")::(?:ranges::)?(\w+)|(?<![\w.>:])()(cuda[A-Z]\w+|cu[A-Z]\w+|CU\w+)\b")
# A word that a type stands before: a member, a parameter, a variable or a function of the file itself.
DECLARED = re.compile(r"(?:\b(\w+)|[>\]])(?:\s+[&*]*|\s*[&*]+\s*)(\w+)\s*(?=[;,={(\[)]|:(?!:)|$)", re.M)
NO_TYPES = {"return", "co_return", "co_yield", "co_await", "case", "else", "new", "throw", "goto", "delete", "operator",
            "const", "constexpr", "static", "inline", "mutable", "explicit", "typename", "struct", "class"}
ENUMERATORS = re.compile(r"\benum\s+(?:class\s+)?\w*[^{;]*\{([^}]*)\}")
# Types, aliases, what a lambda captures with a value, and structured bindings.
NAMED = re.compile(r"\b(?:struct|class|enum class|enum|using|namespace|typename|concept)\s+(\w+)|\[(?:[^\[\]]*?[\s,&])?(\w+)\s*="
                   r"|auto&*\s*\[([^\]]*)\]")
# A function, and a macro, that a header declares; Reader does not see all of them.
OUTERMOST = re.compile(r"^(?!using|namespace)[\w\[][^;{}()=\n]*?\b([a-z]\w*)\(", re.M)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?!private\b)(\w+)", re.M)  # a keyword is nobody's name
# Words of the language, which a declaration of a function may look like to Reader.
NO_NAMES = {"void", "bool", "char", "int", "double", "float", "uint64_t"}


def line_of(code, place):
    return 1 + code.count("\n", 0, place)


def names_of(file, code):
    """What the file itself names anywhere, in its functions and types too."""
    found = {match[2] for match in DECLARED.finditer(code) if match[1] not in NO_TYPES}
    for match in [*NAMED.finditer(code), *ENUMERATORS.finditer(code)]:
        found.update(re.findall(r"\w+", " ".join(filter(None, match.groups()))))
    return found


class Sources:
    def __init__(self, root):
        self.root, self.code, self.includes, self.own, self.closures = root, {}, {}, {}, {}
        # The headers that declare a name of ours, by kind; and all that a folder's files reach.
        self.declared, self.rooms, self.namespaces = {}, {}, {""}
        for path in sorted(path for room in ROOMS for kind in ("*.h", "*.cc", "*.inc") for path in (root / room).rglob(kind)):
            file, text = path.relative_to(root).as_posix(), path.read_text()
            self.includes[file] = [self.found(file, *words) for words in INCLUDE.findall(text)]
            self.code[file] = blank(text)
            self.own[file] = names_of(file, self.code[file])
            if file.endswith(".h"):
                for name in Reader(file, text).names:
                    self.declared.setdefault(name.text, {}).setdefault(name.kind, set()).add(file)
                    self.namespaces.update(name.scope.split("::"))
                for kind, pattern, where in (("function", OUTERMOST, self.code[file]), ("macro", MACRO, text)):
                    for name in pattern.findall(where):
                        self.declared.setdefault(name, {}).setdefault(kind, set()).add(file)
        self.namespaces -= set(LIBRARIES)
        for file in self.code:
            self.rooms.setdefault(str(Path(file).parent), set()).update(self.closure(file))

    def found(self, file, kind, name):
        """A file of ours, seen from the root, or "<name>"."""
        beside = (Path(file).parent / name).as_posix()
        if kind == '"' and (self.root / beside).is_file():
            return beside
        return name if (self.root / name).is_file() else f"<{name}>"

    def closure(self, file):
        """All headers that a file's #include lines reach, and the file."""
        if file not in self.closures:
            found, left = {file}, [file]
            while left:
                new = set(self.includes.get(left.pop(), [])) - found
                found |= new
                left += new
            self.closures[file] = found
        return self.closures[file]


def missing_of_ours(sources, file):
    """(place, name, header) of names that a header of this room, or of one that it uses, declares out of reach."""
    code, reach, room = sources.code[file], sources.closure(file), sources.rooms[str(Path(file).parent)]
    known = NO_NAMES.union(*(sources.own[name] for name in reach if name in sources.own))
    for match in WORD.finditer(code):
        name, called = match.groups()
        if name not in sources.declared or name in known:
            continue
        # A member, or something inside a type or a library.
        before = BEFORE.search(code, max(0, match.start() - 60), match.start())
        if before and before[1].removesuffix("::") not in sources.namespaces:
            continue
        kinds = {kind: places & room for kind, places in sources.declared[name].items() if places & room}
        if kinds and not any(reach & places for places in kinds.values()) and (called or set(kinds) != {"function"}):
            known.add(name)
            yield match.start(), name, f'"{sorted(set.union(*kinds.values()))[0]}"'


def missing_of_libraries(sources, file):
    """The same of names of libraries."""
    code, reach, seen = sources.code[file], sources.closure(file), set()
    known = set().union(*(sources.own[name] for name in reach if name in sources.own))
    for match in LIBRARY_WORD.finditer(code):
        space, name = (match[1], match[2]) if match[1] else ("", match[4])
        if (space, name) in seen or (space != "std" and name in known):  # a type that is declared and not defined
            continue
        seen.add((space, name))
        headers = headers_of(space, name)
        if headers is None:
            yield match.start(), f"{space}::{name}", "none: add the name to scripts/check/include_names.py"
        elif headers and not any(f"<{header}>" in reach for header in headers):
            yield match.start(), f"{space}::{name}".removeprefix("::"), f"<{headers[0]}>"


def check(root):
    sources = Sources(root)
    if not sources.code:
        raise SystemExit(f"includes: no sources below {root}; wanted the folders {', '.join(ROOMS)}: give the root of the sources")
    for file, code in sources.code.items():
        if not file.endswith(".inc"):
            for place, name, header in [*missing_of_ours(sources, file), *missing_of_libraries(sources, file)]:
                yield f"{file}:{line_of(code, place)}: {name} needs #include {header}"


def main():
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    broken = list(check(root))
    for line in broken:
        print(line, file=sys.stderr)
    print(f"includes: {len(broken)} missing")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

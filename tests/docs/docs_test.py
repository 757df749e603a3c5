#!/usr/bin/env python3
"""Builds the target docs, and looks for each public function of its headers in the pages: an entry with a description.
Method: an own reading of the headers names the functions, so one that Doxygen does not see is missed. Skipped (77) where
Doxygen is not installed.

docs_test.py BUILD_FOLDER CMAKE
"""
import re
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
BUILD, CMAKE = Path(sys.argv[1]).resolve(), sys.argv[2]
HEADERS = {
    "harness/simcuda/simcu.h": 25,
    "harness/simcuda/simcu_test.h": 5,
    "harness/simcuda/simcu_threads.h": 1,
    "allocators/backend/backend.h": 10,
}
SCOPE = re.compile(r'\b(?:namespace|class|struct|extern "C")')
DETAIL = "namespace detail"


def code_of(text):
    """The header without comments, directives and attributes."""
    text = re.sub(r"//.*|^[ \t]*#.*(?:\\\n.*)*|\[\[\w+\]\]", "", text, flags=re.M)
    return re.sub(r"\b(public|private):", lambda word: f";{word[1].upper()};", text)


def public_functions(text):
    """Names of the functions that the header declares where everybody may call them."""
    scopes, public, found = [], [], []
    for statement, end in re.findall(r"([^{};]*)([{};])", code_of(text)):
        if statement.strip() in ("PUBLIC", "PRIVATE"):
            public[-1] = statement.strip() == "PUBLIC"
            continue
        if end != "}" and all(public) and all(SCOPE.search(scope) and DETAIL not in scope for scope in scopes):
            found += function_in(statement)
        if end == "{":
            scopes.append(statement)
            public.append(not re.search(r"\bclass\b", statement))
        elif end == "}":
            scopes.pop()
            public.pop()
    return found


def function_in(statement):
    """The name of the function that a statement declares, in a list; an empty one where it declares none."""
    while "<" in statement and statement != (shorter := re.sub(r"<[^<>]*>", "", statement)):
        statement = shorter
    match = re.search(r"(~?\b\w+)\(", statement.split("=")[0])
    if match is None or "= delete" in statement or re.search(r"\b(?:operator|typedef|decltype)\b", statement):
        return []
    return [match[1]]


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run([CMAKE, "--build", BUILD, "--target", "docs"], capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"the target docs fails: comment what Doxygen names\n{done.stdout}{done.stderr}")
        cls.entries = {}
        for member in xml.parse(BUILD / "docs/allocmark.tag").getroot().iter("member"):
            if member.get("kind") == "function":
                cls.entries[member.findtext("name")] = (member.findtext("anchorfile"), member.findtext("anchor"))

    def test_the_headers_have_about_as_many_functions_as_are_known(self):
        for header, count in HEADERS.items():
            with self.subTest(header):
                self.assertGreaterEqual(len(public_functions((SOURCE / header).read_text())), count)

    def test_each_public_function_has_an_entry_with_a_description(self):
        for header in HEADERS:
            for name in public_functions((SOURCE / header).read_text()):
                with self.subTest(f"{header}: {name}"):
                    self.assertTrue(name in self.entries, "Doxygen's pages lack it: put a comment with /// above it")
                    file, anchor = self.entries[name]
                    page = (BUILD / "docs/html" / file).read_text()
                    self.assertRegex(page, rf'memdesc:{anchor}".*class="mdescRight">\s*\S', "its entry says nothing")

    def test_what_is_private_has_none(self):
        self.assertNotIn("sleeps", self.entries)
        self.assertNotIn("ends", self.entries)


if __name__ == "__main__":
    if shutil.which("doxygen") is None:
        print("docs: skipped: doxygen is not installed (Debian: apt-get install doxygen)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""scripts/check/clashes.py finds each planted pair of names, and passes names that do not meet. Method: a small checkout of its own."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "check"))
import clashes

OWN = "namespace allocmark {{\nnamespace {{\n{}\n}}  // namespace\n}}  // namespace allocmark\n"
SHARED = "namespace allocmark {{\n{}\n}}  // namespace allocmark\n"


class Clashes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        subprocess.run(["git", "init", "-q", folder.name], check=True)
        for room, kind in (("first", "COLD"), ("second", "COLD"), ("timed", ""), ("warm", "WARM"), ("tepid", "WARM"), ("base", "FEWER_KINDS")):
            self.write(f"{room}/CMakeLists.txt", f"# A room.\nallocmark_room(\n  SOURCES\n  a.cc\n  USES\n  base\n  {kind})\n")

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def found(self, one, other, frame=OWN, place="second/b.cc", first="first/a.cc"):
        include = f'#include "{place}"\n' if place.endswith(".h") else "\n"
        self.write(first, include + OWN.format(one))
        self.write(place, "\n" + frame.format(other))
        broken = list(clashes.check(self.root))
        for file in first, place:
            (self.root / file).unlink()
        return broken

    def test_two_of_a_name(self):
        for one, other in (
            ("struct Row {\n  int a;\n};", "class Row final : public Base {\n};"),
            ("constexpr std::size_t kMax = 3;", "constexpr double kMax{2};"),
            ("using Json = nlohmann::json;", "using Json = nlohmann::ordered_json;"),
            ("using caching::Event;", "struct Event {};"),
            ("enum Place { kRequest, kStep };", "constexpr int kStep = 1;"),
            ("int mean(const std::vector<double>& values) { return 1; }", "int mean(std::vector<double> v) { return 2; }"),
            ("std::string text(const Unit& unit) { return {}; }", "constexpr int text = 3;"),
            ("template <typename Row, class F>\nvoid visit(Row& row, F&& f) {}", "template <typename Entry, class G>\nvoid visit(Entry& e, G&& g) {}"),
        ):
            self.assertRegex("".join(self.found(one, other)), r"^second/b.cc:4: allocmark::\w+ is in first/a.cc:4 too", (one, other))

    def test_static_and_constexpr_are_a_files_own(self):
        self.assertEqual(len(self.found("int kMax = 1;", "constexpr int kMax = 2;", SHARED)), 1)
        self.assertEqual(len(self.found("int count() { return 1; }", "static int count() { return 2; }", SHARED)), 1)

    def test_a_call_could_go_to_the_other_function(self):
        for one, other in (("std::string_view text", "const std::string& name"), ("std::uint64_t n", "double share"), ("bool a = true", "int a")):
            self.assertEqual(len(self.found(f"int count({one}) {{ return 1; }}", f"int count({other}) {{ return 2; }}")), 1, (one, other))

    def test_names_that_do_not_meet(self):
        for one, other in (
            ("using Json = nlohmann::json;\nnamespace fs = std::filesystem;", "using Json = nlohmann::json;\nnamespace fs = std::filesystem;"),
            ("void print(const Row& row) {}", "void print(const Table& table, int width) {}"),
            ("int count();\nint first() { return count(); }", "int second() { int first = 3; return first; }"),
            ("// struct Row {\nstruct Line {};", 'const char* const kText = "struct Line {}; {";'),
            ("enum class Place { Step };", "struct Step {};"),
        ):
            self.assertEqual(self.found(one, other), [], (one, other))

    def test_namespaces_and_files_that_stay_apart(self):
        row = "struct Row {};"
        self.assertEqual(self.found(row, row, OWN.replace("allocmark", "allocmark::qualify")), [])
        self.assertEqual(self.found(row, row, place="timed/b.cc"), [])
        self.assertEqual(self.found(row, "void f() {\n  struct Row {};\n}"), [])

    def test_a_header_of_any_room_may_be_in_the_unit(self):
        self.assertEqual(len(self.found("struct Row {};", "struct Row {};", SHARED, "timed/b.h")), 1)
        self.assertEqual(self.found("void print(const Row& row) {}", "void print(const Table& table);", SHARED, "timed/b.h"), [])
        self.assertEqual(len(self.found("void print(const Row& row) {}", "void print(const Row& row);", SHARED, "timed/b.h")), 1)

    def test_a_function_hides_that_of_a_header(self):
        for parameters in ("std::string_view name", "", "const CLI::App& app", "CUdeviceptr address", "const std::optional<double>& value",
                           "const std::string& path, Detail detail = Detail::Whole"):  # a call may leave it away
            one, other = "void print(const Row& row) {}", f"void print({parameters});"
            self.assertEqual(len(self.found(one, other, SHARED, "timed/b.h")), 1, parameters)
        self.assertEqual(self.found("int a() {\n  return 1;\n}\nRow row(int a = {}) {\n  return Row(a);\n}\nint b() {\n  return 2;\n}", "struct Row {};",
                                    SHARED, "timed/b.h"), [])
        for parameters in ("const Row& row, int width", "const std::vector<Table>& tables", "Table* table"):  # found by the argument
            one, other = "void print(int width) {}", f"void print({parameters});"
            self.assertEqual(self.found(one, other, SHARED, "timed/b.h"), [], parameters)

    def test_a_function_handed_on_by_its_name_is_the_only_one(self):
        one, other = "void print(const Row& row) {}", "void print(const Table& table) {}\nvoid all() { each(tables, print); }"
        self.assertEqual(len(self.found(one, other)), 1)
        self.assertEqual(len(self.found(other, one)), 1)

    def test_an_alias_in_a_function_hides_another_files(self):
        one, other = "using Json = nlohmann::json;", "void f() {\n  using Json = nlohmann::json;\n}"
        self.assertRegex("".join(self.found(one, other)), r"^second/b.cc:5: Json hides that of first/a.cc:4")
        self.assertEqual(self.found("using Row = int;", other), [])

    def test_files_of_all_warm_rooms_may_meet(self):
        row = "struct Row {};"
        self.assertEqual(len(self.found(row, row, place="warm/b.cc", first="warm/a.cc")), 1)
        self.assertEqual(len(self.found(row, row, place="warm/b.cc", first="tepid/a.cc")), 1)
        self.assertEqual(self.found(row, row, place="warm/b.cc", first="first/a.cc"), [])

    def test_files_of_one_room_may_meet(self):
        row = "struct Row {};"
        self.assertEqual(len(self.found(row, row, place="base/b.cc", first="base/a.cc")), 1)
        self.assertEqual(len(self.found(row, row, place="timed/b.cc", first="timed/a.cc")), 1)
        self.assertEqual(self.found(row, row, place="base/b.cc", first="warm/a.cc"), [])

    def test_untimed_files_meet_those_of_cold_rooms(self):
        row = "struct Row {};"
        self.write("timed/CMakeLists.txt", "allocmark_room(\n  SOURCES\n  a.cc\n  UNTIMED\n  b.cc\n  c.cc\n  USES\n  base)\n")
        self.assertEqual(len(self.found(row, row, place="timed/c.cc")), 1)
        self.assertEqual(self.found(row, row, place="timed/a.cc"), [])

    def test_a_target_that_is_compiled_together(self):
        text = "add_library(one SHARED a.cc b.cc c.cc)\nset_source_files_properties(c.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)\n"
        self.write("library/CMakeLists.txt", text + "# allocmark_together(one)\n")
        row = "struct Row {};"
        self.assertEqual(self.found(row, row, place="library/b.cc", first="library/a.cc"), [])
        self.write("library/CMakeLists.txt", text + "allocmark_together(one)\n")
        self.assertEqual(len(self.found(row, row, place="library/b.cc", first="library/a.cc")), 1)
        self.assertEqual(self.found(row, row, place="library/b.cc", first="library/c.cc"), [])

    def test_files_of_one_test_program(self):
        row = 'struct Row {};\nTEST_CASE("a row (of a table) {") {\n  struct Line {};\n}'
        self.write("checks/CMakeLists.txt", "allocmark_test(one SOURCES a.cc deep/b.cc LIBS x::x)\nallocmark_test(\n  two\n  SOURCES\n  c.cc)\n")
        self.write("checks/deep/README.md", "")
        self.assertEqual(len(self.found(row, row, place="checks/deep/b.cc", first="checks/a.cc")), 1)
        self.assertEqual(self.found(row, row, place="checks/c.cc", first="checks/a.cc"), [])


if __name__ == "__main__":
    unittest.main()

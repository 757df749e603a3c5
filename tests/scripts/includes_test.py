#!/usr/bin/env python3
"""scripts/check/includes.py finds each include that is taken away, and asks for none too much. Method: a small tree of its own."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "check"))
import includes

SHAPES = """#pragma once
#include <string>
#define ALLOCMARK_TRY(what) what
namespace allocmark {
enum class Kind { Round, Square };
struct Shape {
  std::string name;
  Kind kind = Kind::Round;
};
[[nodiscard]] std::string text_of(const Shape& shape, const std::string& more = {});
template <class What>
What* made(What what) {
  return nullptr;
}
constexpr int kShapes = 3;
}  // namespace allocmark
"""


class Includes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("base/shapes.h", SHAPES)
        # A neighbour that reaches the header: without one, nothing of the room could hide that it is missing.
        self.write("results/neighbour.cc", '#include "base/shapes.h"\n')

    def write(self, name, text):
        (self.root / name).parent.mkdir(exist_ok=True)
        (self.root / name).write_text(text)

    def found(self, code, head=""):
        self.write("results/a.cc", f"{head}namespace allocmark {{\n{code}\n}}  // namespace allocmark\n")
        return list(includes.check(self.root))

    def test_a_name_of_ours_needs_its_header(self):
        for code, name in (
            ("Shape one;", "Shape"),
            ("int area() { return text_of(3); }", "text_of"),
            ("int area() { return allocmark::text_of(3); }", "text_of"),
            ("auto* one = made(3);", "made"),
            ("auto* one = made<int>(3);", "made"),
            ("int three = kShapes;", "kShapes"),
            ("int area() { return ALLOCMARK_TRY(3); }", "ALLOCMARK_TRY"),
            ("auto kind = Kind::Round;", "Kind"),
        ):
            with self.subTest(code):
                self.assertEqual(self.found(code), [f'results/a.cc:2: {name} needs #include "base/shapes.h"'])
                self.assertEqual(self.found(code, '#include "base/shapes.h"\n'), [])

    def test_a_header_that_another_header_includes_will_do(self):
        self.write("results/b.h", '#pragma once\n#include "base/shapes.h"\n')
        self.assertEqual(self.found("Shape one;", '#include "results/b.h"\n'), [])
        self.write("results/b.h", "#pragma once\n")
        self.assertEqual(len(self.found("Shape one;", '#include "results/b.h"\n')), 1)

    def test_what_a_file_names_itself_needs_none(self):
        for code in (
            "struct Shape;\nShape* one = nullptr;",
            "int area(int text_of) { return text_of; }",
            "int area(const Box& box) { return box.text_of() + box.kShapes; }",
            "int area() { return std::text_of(3); }".replace("std::", "Box::"),
            "enum class Other { Shape, Line };\nauto one = Other::Shape;",
            "const auto [Shape, rest] = pair();\nint one = Shape;",
            '// Shape\nconst char* text = "Shape";',
        ):
            with self.subTest(code):
                self.assertEqual(self.found(code), [])

    def test_a_name_of_a_library_needs_its_header(self):
        for code, name, header in (
            ("std::vector<int> all;", "std::vector", "<vector>"),
            ("int area() { return std::ranges::find(all, 3); }", "std::find", "<algorithm>"),
            ("std::error_code code;", "std::error_code", "<system_error>"),
            ("auto text = fmt::format(3);", "fmt::format", "<fmt/format.h>"),
            ("auto text = fmt::gmtime(3);", "fmt::gmtime", "<fmt/chrono.h>"),
            ("nlohmann::json file;", "nlohmann::json", "<nlohmann/json.hpp>"),
            ("cudaStream_t stream;", "cudaStream_t", "<cuda_runtime_api.h>"),
            ("CUresult result;", "CUresult", "<cuda.h>"),
        ):
            with self.subTest(code):
                self.assertEqual(self.found(code), [f"results/a.cc:2: {name} needs #include {header}"])
                self.assertEqual(self.found(code, f"#include {header}\n"), [])
        self.assertEqual(self.found("std::error_code code;", "#include <filesystem>\n"), [])

    def test_a_name_that_nobody_knows_is_asked_for(self):
        self.assertRegex(self.found("std::mdspan all;")[0], r"std::mdspan needs #include none: add the name to scripts/check/include_names.py")

    def test_a_folder_without_sources_is_no_success(self):
        with self.assertRaisesRegex(SystemExit, "no sources below"):
            list(includes.check(self.root / "nothing"))


if __name__ == "__main__":
    unittest.main()

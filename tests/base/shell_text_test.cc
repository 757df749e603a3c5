// Words of a command line that a person pastes, as bash and zsh read them.
#include "base/shell_text.h"

#include "tests/catch.h"

namespace allocmark {
namespace {

TEST_CASE("what a shell reads nothing into stays as it is") {
  CHECK(shell_word("runs/2026-11-25_a.b:c,d+e=f@g%h") == "runs/2026-11-25_a.b:c,d+e=f@g%h");
}

TEST_CASE("what a shell would read more into is quoted") {
  CHECK(shell_word("") == "''");
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("$(x)`y`;&|<>*?[]{}~#!\\") == "'$(x)`y`;&|<>*?[]{}~#!\\'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("=ls") == "'=ls'");
}

TEST_CASE("a word with control characters stays on its line") {
  CHECK(shell_word("a\nb\x1b[m\x7f") == "$'a\\x0ab\\x1b[m\\x7f'");
  CHECK(shell_word("it's\\\n") == "$'it\\'s\\\\\\x0a'");
}

}  // namespace
}  // namespace allocmark

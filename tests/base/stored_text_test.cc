// Goal: a long text reads as it was written, whether it lies in memory or in a file, and a file
// that changed is an error. Method: texts around the bound where a spool leaves the memory.
#include "base/stored_text.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "base/sha256.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

// Every byte says where it stands, so that a piece from elsewhere differs.
std::string text_of(std::size_t size_bytes) {
  std::string text(size_bytes, '\0');
  for (std::size_t i = 0; i < size_bytes; ++i) text[i] = static_cast<char>('a' + i % 23);
  return text;
}

}  // namespace

TEST_CASE("a spool gives its bytes back on both sides of the bound of memory") {
  for (const std::size_t size_bytes :
       {std::size_t{1}, kSpoolMemoryBytes, kSpoolMemoryBytes + 1, 2 * kSpoolMemoryBytes + 5}) {
    const std::string text = text_of(size_bytes);
    const auto spool = std::make_shared<Spool>();
    const std::size_t first = size_bytes / 2;
    spool->append(text.substr(0, first));
    spool->append(text.substr(first));
    const StoredText stored(spool);
    CHECK(stored.size_bytes() == size_bytes);
    CHECK(stored.equals(text));
    CHECK(stored.whole() == text);
    CHECK(sha256_of(stored.bytes()) == sha256_hex(text));
    std::string end(100, '\0');
    end.resize(stored.read(size_bytes - 1, end));
    CHECK(end == text.substr(size_bytes - 1));
    CHECK_FALSE(stored.equals(text + "x"));
    CHECK_FALSE(stored.equals("x" + text.substr(1)));
  }
}

TEST_CASE("parts of one spool are texts of their own") {
  const auto spool = std::make_shared<Spool>();
  spool->append("first and second");
  CHECK(StoredText(spool, 0, 5).whole() == "first");
  CHECK(StoredText(spool, 10, 6).equals("second"));
  CHECK(StoredText().whole().empty());
}

TEST_CASE("lines are handed over with their newlines, and a long one in parts") {
  std::vector<std::string> lines;
  const auto take = [&](std::string_view line) { lines.emplace_back(line); };
  StoredText("a\n\nb").each_line(100, take);
  CHECK(lines == std::vector<std::string>{"a\n", "\n", "b"});
  lines.clear();
  // The second begins in one piece of 1 MiB and ends in another.
  const std::string text = text_of(1'000'000) + "\n" + text_of(200'000) + "\n";
  StoredText(text).each_line(3'000'000, take);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] + lines[1] == text);
  lines.clear();
  StoredText(text_of(3'000'000)).each_line(1000, take);
  CHECK(lines.size() == 3);
}

TEST_CASE("a file is read as long as it was, and one that became shorter is an error") {
  const TemporaryFolder folder;
  write_file(folder.path("a"), "first");
  const StoredText text = StoredText::of_file(folder.path("a"), kOtherInput);
  write_file(folder.path("a"), "first and more");
  CHECK(text.whole() == "first");
  write_file(folder.path("a"), "f");
  CHECK_THROWS_AS(text.whole(), FileError);
  CHECK_THROWS_AS(StoredText::of_file(folder.path("none"), kOtherInput), FileError);
}

}  // namespace allocmark

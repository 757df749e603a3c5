#include "harness/tools/bound/block_lives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/number_text.h"
#include "harness/core/replay/trace_blocks.h"
#include "workloads/import/minimalloc_rows.h"
#include "workloads/trace/byte_stream.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 60;  // of all blocks
constexpr std::array<std::string_view, 5> kColumns = {"id", "lower", "upper", "size", "offset"};

UsageError block_error(const std::string& path, std::uint64_t line, std::string what,
                       std::string wanted, std::string_view got) {
  return UsageError({.what = std::move(what),
                     .where = fmt::format("{}, line {}", path, line),
                     .wanted = std::move(wanted),
                     .got = std::string(got),
                     .next = "correct the line, or see: allocmark bound --help"});
}

std::vector<std::string_view> fields_of(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find(',', begin);
    fields.push_back(line.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return fields;
    begin = end + 1;
  }
}

// Where each of kColumns stands; nothing where one of the first four does not.
std::optional<std::array<std::size_t, 5>> places_of(const std::vector<std::string_view>& header) {
  std::array<std::size_t, 5> places{};
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    places[i] = static_cast<std::size_t>(std::ranges::find(header, kColumns[i]) - header.begin());
    if (i < 4 && places[i] == header.size()) return std::nullopt;
  }
  return places;
}

std::uint64_t number_of(const std::string& path, std::uint64_t line, std::string_view column,
                        std::string_view text) {
  const std::optional<std::uint64_t> value = number_in_text<std::uint64_t>(text);
  if (!value || *value > kBytesMax) {
    throw block_error(path, line, fmt::format("'{}' is no number", column),
                      "a whole number from 0 to 2^60", text);
  }
  return *value;
}

void add(NamedBlocks* named, BlockLife block, std::string name) {
  named->blocks.push_back(block);
  named->names.push_back(std::move(name));
}

}  // namespace

NamedBlocks blocks_of_trace(std::unique_ptr<EventSource> source) {
  PreparedTrace trace(std::move(source));
  std::optional<TraceBlocks> blocks = blocks_of(trace, kPackedBlocksMax);
  if (!blocks) {
    throw UsageError({.what = "these are too many requests to pack",
                      .where = trace.name(),
                      .wanted = fmt::format("at most {}", kPackedBlocksMax),
                      .got = std::to_string(trace.facts().allocate_count),
                      .next = "take fewer steps of it, as with steps=2"});
  }
  NamedBlocks named{.blocks = std::move(blocks->lives)};
  for (const std::uint64_t id : blocks->ids) named.names.push_back(std::to_string(id));
  return named;
}

bool is_block_file(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return false;
  std::string head(256, 0);
  InputFile file(path, kOtherInput);
  head.resize(file.read(head));
  return places_of(fields_of(std::string_view(head).substr(0, head.find('\n')))).has_value();
}

NamedBlocks read_block_file(const std::string& path) {
  std::istringstream file(read_file(path));
  std::string text;
  std::getline(file, text);
  const std::string header_text = text;
  const std::vector<std::string_view> header = fields_of(header_text);
  for (const std::string_view column : header) {
    if (std::ranges::find(kColumns, column) == kColumns.end()) {
      throw block_error(path, 1, "a packing would not obey this column",
                        "the columns id, lower, upper, size, and offset", column);
    }
  }
  const std::array<std::size_t, 5> places = places_of(header).value();
  NamedBlocks named;
  std::uint64_t sum_bytes = 0;
  for (std::uint64_t line = 2; std::getline(file, text); ++line) {
    if (text.empty() || text == "\r") continue;
    const std::vector<std::string_view> fields = fields_of(text);
    if (fields.size() != header.size()) {
      throw block_error(path, line, "this line has another number of columns",
                        fmt::format("{} columns", header.size()), text);
    }
    const auto number = [&](std::size_t column) {
      return number_of(path, line, kColumns[column], fields[places[column]]);
    };
    const BlockLife block{.begin = number(1), .end = number(2), .size_bytes = number(3)};
    if (block.end <= block.begin)
      throw block_error(path, line, "this block ends before it begins", "upper above lower", text);
    sum_bytes += block.size_bytes;
    if (sum_bytes > kBytesMax || named.blocks.size() == kPackedBlocksMax) {
      throw block_error(path, line, "these are too many blocks",
                        fmt::format("at most {}, and 2^60 bytes in all", kPackedBlocksMax), text);
    }
    add(&named, block, std::string(fields[places[0]]));
  }
  return named;
}

void write_packing_file(const NamedBlocks& named, const BlockPacking& packing,
                        const std::string& path) {
  ByteWriter bytes(path);
  bytes.write(kMinimallocSolutionHeader);
  for (std::size_t i = 0; i < named.blocks.size(); ++i) {
    const BlockLife& block = named.blocks[i];
    bytes.write(minimalloc_line({.id = named.names[i],
                                 .lower = block.begin,
                                 .upper = block.end,
                                 .size_bytes = block.size_bytes,
                                 .offset_bytes = packing.offsets[i]}));
  }
  bytes.finish();
}

}  // namespace allocmark

#include "harness/tools/bound/block_lives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
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
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > kBytesMax) {
    throw block_error(path, line, fmt::format("'{}' is no number", column),
                      "a whole number from 0 to 2^60", text);
  }
  return value;
}

void add(NamedBlocks* named, BlockLife block, std::string name) {
  named->blocks.push_back(block);
  named->names.push_back(std::move(name));
}

}  // namespace

NamedBlocks blocks_of_trace(EventSource* source) {
  NamedBlocks named;
  std::unordered_map<std::uint64_t, std::size_t> live;  // id -> block
  std::uint64_t now = 0;
  for (auto events = source->next(); !events.empty(); events = source->next()) {
    for (const Event& event : events) {
      ++now;
      if (event.kind == EventKind::Alloc && event.tensor != TensorKind::Failed) {
        if (named.blocks.size() == kPackedBlocksMax) {
          throw UsageError({.what = "these are too many requests to pack",
                            .where = source->header().name,
                            .wanted = fmt::format("at most {}", kPackedBlocksMax),
                            .got = "",
                            .next = "take fewer steps of it, as with steps=2"});
        }
        live[event.id] = named.blocks.size();
        add(&named, {.begin = now, .end = ~std::uint64_t{0}, .size_bytes = event.size_bytes},
            std::to_string(event.id));
      }
      if (event.kind != EventKind::Free) continue;
      const auto found = live.find(event.id);
      if (found == live.end()) continue;
      named.blocks[found->second].end = now;
      live.erase(found);
    }
  }
  for (const auto& [id, block] : live) named.blocks[block].end = now + 1;
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
  bytes.write("id,lower,upper,size,offset\n");
  for (std::size_t i = 0; i < named.blocks.size(); ++i) {
    const BlockLife& block = named.blocks[i];
    bytes.write(fmt::format("{},{},{},{},{}\n", named.names[i], block.begin, block.end,
                            block.size_bytes, packing.offsets[i]));
  }
  bytes.finish();
}

}  // namespace allocmark

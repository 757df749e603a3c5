#include "harness/tools/why/owners_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

constexpr std::size_t kGroupsTold = 8;

double percent(std::uint64_t bytes, const Owners& owners) {
  return owners.live_bytes == 0
             ? 0
             : 100.0 * static_cast<double>(bytes) / static_cast<double>(owners.live_bytes);
}

// The first ones, as far as each has a hundredth of the whole.
std::span<const OwnerGroup> largest(const std::vector<OwnerGroup>& groups, const Owners& owners) {
  std::size_t count = 1;
  while (count < std::min(groups.size(), kGroupsTold) && percent(groups[count].bytes, owners) >= 1)
    ++count;
  return std::span(groups).first(count);
}

std::string counted(std::uint64_t count) {
  return fmt::format("{} block{}", count, count == 1 ? "" : "s");
}

std::string moment_words(const Owners& owners) {
  return owners.at_failure ? "when the request failed"
                           : fmt::format("at its peak (entry {})", owners.entry_index);
}

// What the allocator adds to the sizes that were asked for.
std::uint64_t rounding_of(const Owners& owners, std::uint64_t rounded_bytes) {
  return rounded_bytes > owners.live_bytes ? rounded_bytes - owners.live_bytes : 0;
}

// What the text says below the table, a sentence a line. `as_shown`: how a name stands there.
std::vector<std::string> owner_sentences(const Owners& owners,
                                         std::string (*as_shown)(std::string_view)) {
  std::vector<std::string> lines;
  if (!owners.has_stacks) {
    lines.emplace_back(
        "No stacks were recorded, so only lifetimes and sizes tell blocks apart. "
        "torch.cuda.memory._record_memory_history() records stacks unless context=None.");
  }
  if (owners.request) {
    const std::string owner(to_string(owners.request->owner));
    lines.push_back(owners.request->name.empty()
                        ? fmt::format("The request that failed, {}, has no stack{}.",
                                      format_bytes(owners.request->bytes),
                                      owners.has_stacks ? ", as in PyTorch's backward pass" : "")
                        : fmt::format("The request that failed: {}, {}: {}",
                                      format_bytes(owners.request->bytes), owner,
                                      as_shown(owners.request->name)));
  }
  return lines;
}

std::string group_name(const OwnerGroup& group) {
  return group.name.empty() ? fmt::format("{} each", format_bytes(group.size_bytes)) : group.name;
}

std::string groups_text(std::string_view head, const Owners& owners,
                        const std::vector<OwnerGroup>& groups) {
  if (groups.empty()) return "";
  std::string text = fmt::format("\n{}, the largest first:\n", head);
  for (const OwnerGroup& group : largest(groups, owners)) {
    text += fmt::format("  {:>10}  in {:<12} {}: {}\n", format_bytes(group.bytes),
                        counted(group.block_count), to_string(group.owner), group_name(group));
  }
  return text;
}

std::string groups_markdown(std::string_view head, const Owners& owners,
                            const std::vector<OwnerGroup>& groups) {
  if (groups.empty()) return "";
  std::string text =
      fmt::format("\n| {} | bytes | blocks | owner |\n| :-- | --: | --: | :-- |\n", head);
  for (const OwnerGroup& group : largest(groups, owners)) {
    text += fmt::format("| {} | {} | {} | {} |\n",
                        group.name.empty() ? group_name(group) : markdown_cell_code(group.name),
                        format_bytes(group.bytes), group.block_count, to_string(group.owner));
  }
  return text;
}

nlohmann::ordered_json groups_json(const std::vector<OwnerGroup>& groups) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const OwnerGroup& group : groups) {
    nlohmann::ordered_json one = {{"owner", to_string(group.owner)},
                                  {"bytes", group.bytes},
                                  {"block_count", group.block_count}};
    if (group.name.empty()) {
      one["size_bytes"] = group.size_bytes;
    } else {
      one["name"] = group.name;
    }
    json.push_back(std::move(one));
  }
  return json;
}

nlohmann::ordered_json flame_json(const FlameNode& node) {
  nlohmann::ordered_json json = {
      {"name", node.name}, {"owner", to_string(node.owner)}, {"bytes", node.bytes}};
  if (node.children.empty()) return json;
  json["children"] = nlohmann::ordered_json::array();
  for (const FlameNode& child : node.children) json["children"].push_back(flame_json(child));
  return json;
}

}  // namespace

std::string owners_text(const Owners& owners, std::uint64_t rounded_bytes) {
  if (owners.block_count == 0) return "";
  std::string text = fmt::format("What held {} {}, as the program asked, in {}:\n",
                                 format_bytes(owners.live_bytes), moment_words(owners),
                                 counted(owners.block_count));
  for (const OwnerShare& share : owners.shares) {
    text += fmt::format("  {:>10}  {:>5.1f} %  {}, {}: {}\n", format_bytes(share.bytes),
                        percent(share.bytes, owners), to_string(share.owner),
                        counted(share.block_count), reason_of(share.owner, owners.has_stacks));
  }
  if (const std::uint64_t rounding_bytes = rounding_of(owners, rounded_bytes); rounding_bytes > 0) {
    text += fmt::format("  {:>10}           more for these: the allocator rounds sizes up\n",
                        format_bytes(rounding_bytes));
  }
  for (const std::string& line : owner_sentences(owners, printable)) text += line + "\n";
  text += groups_text("By stack", owners, owners.stacks);
  text += groups_text("By module of the forward pass", owners, owners.modules);
  return text + groups_text(owners.has_stacks ? "Without a stack, by size" : "By size", owners,
                            owners.sizes);
}

std::string owners_markdown(const Owners& owners, std::uint64_t rounded_bytes) {
  if (owners.block_count == 0) return "";
  std::string text = fmt::format(
      "What held {} {}, as the program asked:\n\n| owner | bytes | share | blocks | why it counts "
      "as such |\n| :-- | --: | --: | --: | :-- |\n",
      format_bytes(owners.live_bytes), moment_words(owners));
  for (const OwnerShare& share : owners.shares) {
    text += fmt::format("| {} | {} | {:.1f} % | {} | {} |\n", to_string(share.owner),
                        format_bytes(share.bytes), percent(share.bytes, owners), share.block_count,
                        reason_of(share.owner, owners.has_stacks));
  }
  if (const std::uint64_t rounding_bytes = rounding_of(owners, rounded_bytes); rounding_bytes > 0) {
    text += fmt::format("| rounding | {} | | | the allocator rounds sizes up |\n",
                        format_bytes(rounding_bytes));
  }
  for (const std::string& line : owner_sentences(owners, markdown_code)) text += "\n" + line + "\n";
  text += groups_markdown("stack", owners, owners.stacks);
  text += groups_markdown("module of the forward pass", owners, owners.modules);
  return text + groups_markdown("size, without a stack", owners, owners.sizes);
}

std::string most_held(const Owners& owners) {
  if (!owners.has_stacks) return "";
  std::string text;
  std::size_t count = 0;
  for (const OwnerShare& share : owners.shares) {
    if (share.owner == Owner::Unknown || share.owner == Owner::Before) continue;
    if (count == 2 || percent(share.bytes, owners) < 10) break;
    text += fmt::format("{}{} ({})", count == 0 ? "" : " and ", to_string(share.owner),
                        format_bytes(share.bytes));
    ++count;
  }
  return text;
}

nlohmann::ordered_json owners_json(const Owners& owners, std::uint64_t rounded_bytes) {
  nlohmann::ordered_json json = {{"at_failure", owners.at_failure},
                                 {"entry_index", owners.entry_index},
                                 {"has_stacks", owners.has_stacks},
                                 {"live_bytes", owners.live_bytes},
                                 {"block_count", owners.block_count},
                                 {"rounding_bytes", rounding_of(owners, rounded_bytes)},
                                 {"owners", nlohmann::ordered_json::array()}};
  for (const OwnerShare& share : owners.shares) {
    json["owners"].push_back({{"name", to_string(share.owner)},
                              {"bytes", share.bytes},
                              {"block_count", share.block_count},
                              {"reason", reason_of(share.owner, owners.has_stacks)}});
  }
  json["stacks"] = groups_json(owners.stacks);
  json["modules"] = groups_json(owners.modules);
  json["sizes"] = groups_json(owners.sizes);
  if (owners.request) json["request"] = groups_json({*owners.request}).front();
  return json;
}

nlohmann::ordered_json owners_page_json(const Owners& owners, std::uint64_t rounded_bytes) {
  nlohmann::ordered_json json = owners_json(owners, rounded_bytes);
  json["sentences"] = owner_sentences(owners, printable);
  json["flame"] = flame_json(owners.flame);
  json["moments"] = owners.moments;
  json["over_time"] = nlohmann::ordered_json::array();
  for (const auto& [owner, bytes] : owners.over_time)
    json["over_time"].push_back({{"name", to_string(owner)}, {"bytes", bytes}});
  return json;
}

}  // namespace allocmark

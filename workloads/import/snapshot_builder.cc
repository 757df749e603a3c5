// The containers of a pickle, and which of them are records of a snapshot. What the records' fields
// mean is in snapshot_fields.cc.
#include "workloads/import/snapshot_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "workloads/trace/model_keys.h"

namespace allocmark {

using Tag = PickleValue::Tag;

PickleValue SnapshotBuilder::text(std::string_view text) {
  const auto [found, is_new] =
      text_indexes_.try_emplace(std::string(text), static_cast<std::uint32_t>(text_keys_.size()));
  if (is_new) {
    text_bytes_ += text.size() + 96;
    if (text_bytes_ > kTextBytesMax) {
      throw PickleError("the pickle holds too many different texts",
                        fmt::format("at most {} MiB of them", kTextBytesMax >> 20), "more");
    }
    static const std::vector<std::string_view> names = words_of(kSnapshotKeyNames);
    const auto known = std::ranges::find(names, text);
    text_keys_.push_back(known == names.end() ? Key::None
                                              : static_cast<Key>(known - names.begin() + 1));
    snapshot_.texts.emplace_back(text);
  }
  return {.bits = found->second, .tag = Tag::Text};
}

// Values that are kept as they are until they become part of a record.
void SnapshotBuilder::hold(std::uint64_t count) {
  held_count_ += count;
  if (held_count_ <= kHeldCountMax) return;
  throw PickleError("the pickle holds too much that is no record of a snapshot",
                    fmt::format("at most {} values", kHeldCountMax), "more");
}

PickleValue SnapshotBuilder::make_node(Kind kind) {
  hold(1);
  std::uint32_t index = 0;
  if (spare_items_.empty()) {
    index = static_cast<std::uint32_t>(items_.size());
    items_.emplace_back();
  } else {
    index = spare_items_.back();
    spare_items_.pop_back();
  }
  nodes_.push_back({.kind = kind, .index = index});
  return {.bits = nodes_.size() - 1, .tag = Tag::Node};
}

PickleValue SnapshotBuilder::make_tuple(std::span<const PickleValue> items) {
  const bool two_numbers = items.size() == 2 && items[0].is(Tag::Int) && items[1].is(Tag::Int);
  if (!two_numbers) {
    const PickleValue tuple = make_node(Kind::Tuple);
    hold(items.size());
    items_[nodes_.back().index].assign(items.begin(), items.end());
    return tuple;
  }
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15u;
  const std::uint64_t key = items[0].bits * kMix ^ items[1].bits;
  const auto [found, is_new] =
      pair_indexes_.try_emplace(key, static_cast<std::uint32_t>(pairs_.size()));
  const std::pair pair{static_cast<std::int64_t>(items[0].bits),
                       static_cast<std::int64_t>(items[1].bits)};
  if (is_new && pairs_.size() >= kPairCountMax) {
    throw PickleError("the pickle holds too many different pairs of numbers",
                      fmt::format("at most {}", kPairCountMax), "more");
  }
  if (is_new) {
    pairs_.push_back(pair);
    pool_indexes_.push_back(0);
  } else if (pairs_[found->second] != pair) {
    throw PickleError("two pool ids cannot be told apart", "", "");
  }
  return {.bits = found->second, .tag = Tag::Pair};
}

SnapshotBuilder::Node& SnapshotBuilder::node_of(const PickleValue& value, Kind kind,
                                                std::string_view name) {
  if (!value.is(Tag::Node) || nodes_[value.bits].kind != kind) {
    throw PickleError("not a memory snapshot", std::string(name), "another type");
  }
  return nodes_[value.bits];
}

void SnapshotBuilder::give_up_items(Node& node) {
  Items& items = items_[node.index];
  held_count_ -= 1 + items.size();
  items.clear();
  // A large vector would stay large for every later use.
  if (items.capacity() > 64) Items().swap(items);
  spare_items_.push_back(node.index);
}

// The items of a node, which is given up.
SnapshotBuilder::Items SnapshotBuilder::items_of(const PickleValue& value, Kind kind,
                                                 std::string_view name) {
  Node& node = node_of(value, kind, name);
  if (node.used) {
    throw PickleError(fmt::format("{} stands in the file twice", name), "each one once", "");
  }
  node.used = true;
  Items items;
  items.swap(items_[node.index]);
  held_count_ -= items.size();
  return items;
}

// Records that follow each other stand in a list as one value.
void SnapshotBuilder::append(const PickleValue& list, std::span<const PickleValue> items) {
  if (!is_list(list)) {
    throw PickleError("something is appended to what is no list", "a list", "another type");
  }
  const std::uint32_t index = nodes_[list.bits].index;
  for (PickleValue item : items) {
    if (item.is(Tag::Node)) {
      Node& node = nodes_[item.bits];
      Tag tag = Tag::None;
      if (node.kind == Kind::Entry) tag = Tag::Entry;
      if (node.kind == Kind::Block) tag = Tag::Block;
      if (node.kind == Kind::Segment) tag = Tag::Segment;
      if (node.kind == Kind::Annotation) tag = Tag::Annotation;
      if (node.kind == Kind::Frame) tag = Tag::Frame;
      if (node.kind == Kind::Past) tag = Tag::Past;
      if (tag != Tag::None) {
        if (node.used && tag != Tag::Frame && tag != Tag::Past) {
          throw PickleError("an entry, block or segment stands in the file twice", "each one once",
                            "");
        }
        node.used = true;
        item = {.bits = node.index, .tag = tag};
      }
    }
    Items& list_items = items_[index];
    const bool joins = !list_items.empty() && list_items.back().tag == item.tag &&
                       (item.is(Tag::Entry) || item.is(Tag::Block)) &&
                       list_items.back().bits + list_items.back().count == item.bits;
    if (joins) {
      ++list_items.back().count;
    } else {
      hold(1);
      list_items.push_back(item);
    }
  }
}

void SnapshotBuilder::set_items(const PickleValue& dict, std::span<const PickleValue> items) {
  if (!dict.is(Tag::Node)) {
    throw PickleError("keys are set in what is no dictionary", "a dictionary", "another type");
  }
  Node& node = nodes_[dict.bits];
  if (node.kind == Kind::List || node.kind == Kind::Tuple || node.kind == Kind::Stack) {
    throw PickleError("keys are set in what is no dictionary", "a dictionary", "a list");
  }
  if (node.kind != Kind::Dict) {
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      set_field(node, key_of(items[i]), items[i + 1]);
    return;
  }
  hold(items.size());
  Items& own = items_[node.index];
  own.insert(own.end(), items.begin(), items.end());
  if (!recognise(node)) return;
  // set_field may make nodes and so move `own`.
  Items fields;
  const std::uint32_t record = node.index;
  fields.swap(items_[recognised_items_]);
  held_count_ -= 1 + fields.size();
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2)
    set_field(Node{.kind = node.kind, .index = record}, key_of(fields[i]), fields[i + 1]);
  fields.clear();
  fields.swap(items_[recognised_items_]);
  spare_items_.push_back(recognised_items_);
}

SnapshotKey SnapshotBuilder::key_of(const PickleValue& value) const {
  return value.is(Tag::Text) ? text_keys_[value.bits] : Key::None;
}

// Makes the node a record where its keys are those of one.
bool SnapshotBuilder::recognise(Node& node) {
  const Items& own = items_[node.index];
  std::uint32_t keys = 0;
  for (std::size_t i = 0; i + 1 < own.size(); i += 2)
    keys |= std::uint32_t{1} << static_cast<std::uint32_t>(key_of(own[i]));
  const auto has = [keys](Key key) { return (keys >> static_cast<std::uint32_t>(key) & 1) != 0; };
  const auto become = [&](Kind kind, auto& records) {
    const std::uint64_t count_max = kind == Kind::Entry ? kEntryCountMax : kRecordCountMax;
    if (records.size() >= count_max) {
      throw PickleError("the snapshot has too many entries, blocks, segments or frames",
                        fmt::format("at most {}", count_max), "more");
    }
    recognised_items_ = node.index;
    node.kind = kind;
    node.index = static_cast<std::uint32_t>(records.size());
    records.emplace_back();
    return true;
  };
  if (has(Key::Action) && (has(Key::Addr) || has(Key::Size)))
    return become(Kind::Entry, snapshot_.entries);
  if (has(Key::Blocks) && has(Key::Address)) return become(Kind::Segment, snapshot_.segments);
  if (has(Key::Addr) && has(Key::RealSize)) return become(Kind::Past, pasts_);
  if (has(Key::State) && has(Key::Size)) return become(Kind::Block, snapshot_.blocks);
  if (has(Key::Filename) && has(Key::Name)) return become(Kind::Frame, snapshot_.frames);
  if (has(Key::Stage) && has(Key::TimeUs)) return become(Kind::Annotation, snapshot_.annotations);
  return false;
}

void SnapshotBuilder::set_field(const Node& node, Key key, const PickleValue& value) {
  if (value.is(Tag::None)) return;  // as if the key were not there
  switch (node.kind) {
    case Kind::Entry:
      return set_entry(snapshot_.entries[node.index], key, value);
    case Kind::Block:
      return set_block(snapshot_.blocks[node.index], key, value);
    case Kind::Segment:
      return set_segment(snapshot_.segments[node.index], key, value);
    case Kind::Annotation:
      return set_annotation(snapshot_.annotations[node.index], key, value);
    case Kind::Past:
      return set_block(pasts_[node.index], key, value);
    case Kind::Frame:
      return set_frame(snapshot_.frames[node.index], key, value);
    default:
      return;
  }
}

}  // namespace allocmark

// Turns the containers that a pickle makes into a memory snapshot, one dictionary at a time: what
// is an entry, a block, a segment, a frame or an annotation becomes a compact record as soon as its
// keys are there, and its dictionary is given up. Throws PickleError.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "workloads/import/memory_snapshot.h"
#include "workloads/import/pickle_value.h"

namespace allocmark {

// The keys of PyTorch's snapshots that mean something to us; all others are read over.
enum class SnapshotKey : std::uint8_t {
  None,
  Action,
  Addr,
  Address,
  Blocks,
  Device,
  DeviceFree,
  Filename,
  Frames,
  History,
  InternalMetadata,
  IsExpandable,
  Line,
  Name,
  PoolId,
  RealSize,
  RequestedSize,
  SegmentPoolId,
  SegmentType,
  Size,
  Stage,
  State,
  Stream,
  TimeUs,
  TotalSize,
};

// The names of all but None, in this order.
inline constexpr std::string_view kSnapshotKeyNames =
    "action addr address blocks device device_free filename frames history internal_metadata "
    "is_expandable line name pool_id real_size requested_size segment_pool_id segment_type size "
    "stage state stream time_us total_size";

// What is wrong; the reader adds file and offset.
class PickleError : public std::runtime_error {
 public:
  PickleError(std::string what, std::string wanted_text, std::string got_text)
      : std::runtime_error(std::move(what)),
        wanted(std::move(wanted_text)),
        got(std::move(got_text)) {}
  std::string wanted;
  std::string got;
};

class SnapshotBuilder {
 public:
  // More than this is refused, so that no file takes all memory. An entry of a history takes 48
  // bytes; real files have few of everything else.
  static constexpr std::uint64_t kEntryCountMax = std::uint64_t{1} << 25;
  static constexpr std::uint64_t kRecordCountMax = std::uint64_t{1} << 22;  // of each other kind
  static constexpr std::uint64_t kHeldCountMax = std::uint64_t{1} << 22;
  static constexpr std::uint64_t kPairCountMax = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kStackFrameCountMax = std::uint64_t{1} << 24;  // of all stacks
  static constexpr std::uint64_t kTextBytesMax = std::uint64_t{1} << 27;

  [[nodiscard]] PickleValue text(std::string_view text);
  [[nodiscard]] PickleValue make_dict() { return make_node(Kind::Dict); }
  [[nodiscard]] PickleValue make_list() { return make_node(Kind::List); }
  [[nodiscard]] PickleValue make_tuple(std::span<const PickleValue> items);
  [[nodiscard]] bool is_list(const PickleValue& value) const {
    return value.is(PickleValue::Tag::Node) && nodes_[value.bits].kind == Kind::List;
  }
  void append(const PickleValue& list, std::span<const PickleValue> items);
  // Keys and values in turn.
  void set_items(const PickleValue& dict, std::span<const PickleValue> items);

  // The snapshot that the file's last value is.
  [[nodiscard]] MemorySnapshot finish(const PickleValue& top);

 private:
  using Items = std::vector<PickleValue>;
  using Key = SnapshotKey;
  enum class Kind : std::uint8_t {
    Dict,
    List,
    Tuple,
    Stack,
    Entry,
    Block,
    Segment,
    Frame,
    Annotation,
    Past,  // what a block was before, in files of PyTorch 2.0
    Pool   // an id that is a list
  };
  struct Node {
    Kind kind = Kind::Dict;
    bool used = false;        // became part of the snapshot: it must not become so twice
    std::uint32_t index = 0;  // of the items, or of the record
  };

  [[nodiscard]] PickleValue make_node(Kind kind);
  void hold(std::uint64_t count);
  [[nodiscard]] Node& node_of(const PickleValue& value, Kind kind, std::string_view name);
  void give_up_items(Node& node);
  [[nodiscard]] bool recognise(Node& node);
  [[nodiscard]] Key key_of(const PickleValue& value) const;
  void set_field(const Node& node, Key key, const PickleValue& value);
  void set_entry(SnapshotEntry& entry, Key key, const PickleValue& value);
  void set_block(SnapshotBlock& block, Key key, const PickleValue& value);
  void set_segment(SnapshotSegment& segment, Key key, const PickleValue& value);
  void set_annotation(SnapshotAnnotation& annotation, Key key, const PickleValue& value);
  void set_frame(SnapshotFrame& frame, Key key, const PickleValue& value);
  void set_blocks(SnapshotSegment& segment, const PickleValue& value);
  void tile(SnapshotSegment& segment);
  [[nodiscard]] bool is_dict(const PickleValue& value) const;
  [[nodiscard]] std::vector<std::pair<std::string, PickleValue>> fields_of(
      const PickleValue& dict) const;
  void set_settings(const PickleValue& value);
  void set_divisions(const PickleValue& value);
  void set_traces(const PickleValue& value);
  void set_segments(const PickleValue& value);
  void set_host(const PickleValue& value);
  void set_host_trace(const PickleValue& value);
  [[nodiscard]] const std::string& text_in(const PickleValue& value, std::string_view key) const;
  [[nodiscard]] std::uint32_t stack_of(const PickleValue& value);
  [[nodiscard]] std::uint32_t stream_of(const PickleValue& value);
  [[nodiscard]] std::uint32_t pool_of(PickleValue value);
  void take_past(SnapshotBlock& block, const PickleValue& value);
  void normalise_frees();
  [[nodiscard]] std::uint64_t relative_us(std::uint64_t time_us);
  [[nodiscard]] Items items_of(const PickleValue& value, Kind kind, std::string_view name);

  MemorySnapshot snapshot_;
  std::vector<SnapshotBlock> pasts_;  // address and requested bytes, of blocks of PyTorch 2.0
  std::deque<Node> nodes_;
  std::vector<Items> items_;
  std::vector<std::uint32_t> spare_items_;
  std::unordered_map<std::string, std::uint32_t> text_indexes_;
  std::vector<Key> text_keys_;  // by text
  std::unordered_map<std::string, std::uint32_t> stack_indexes_;
  std::unordered_map<std::uint64_t, std::uint32_t> stream_indexes_ = {{0, 0}};
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs_;
  std::unordered_map<std::uint64_t, std::uint32_t> pair_indexes_;
  std::vector<std::uint32_t> pool_indexes_;  // by pair, + 1; 0 where it is no pool yet
  std::uint32_t recognised_items_ = 0;       // what the last recognised dictionary held
  std::uint64_t text_bytes_ = 0;
  // Lists, tuples and dictionaries that are no record so far, and the values in them.
  std::uint64_t held_count_ = 0;
  std::uint64_t stack_frame_count_ = 0;
  bool has_time_ = false;
};

}  // namespace allocmark

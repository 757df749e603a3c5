#include "workloads/import/snapshot_writer.h"

#include <bit>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "workloads/trace/byte_stream.h"

namespace allocmark {
namespace {

constexpr std::size_t kPickleFlushBytes = std::size_t{1} << 18;

// The opcodes of a pickle, for values without classes.
class PickleWriter {
 public:
  explicit PickleWriter(const std::string& path) : bytes_(path) { out_ += "\x80\x04"; }

  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  void number(std::int64_t value);
  void real(double value);
  // Every text is written once and referred to afterwards.
  void text(std::string_view text);
  void pair(std::int64_t first, std::int64_t second) {
    number(first);
    number(second);
    out_ += '\x86';
  }
  void flush_some() {
    if (out_.size() < kPickleFlushBytes) return;
    bytes_.write(out_);
    out_.clear();
  }
  void finish() {
    out_ += '.';
    bytes_.write(out_);
    bytes_.finish();
  }

 private:
  void little_endian(std::uint64_t value, int byte_count) {
    for (int i = 0; i < byte_count; ++i) out_ += static_cast<char>(value >> (8 * i));
  }

  ByteWriter bytes_;
  std::string out_;
  std::unordered_map<std::string, std::uint32_t> memo_;
};

void PickleWriter::number(std::int64_t value) {
  if (value >= 0 && value < 256) {
    out_ += 'K';
    little_endian(static_cast<std::uint64_t>(value), 1);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    out_ += 'J';
    little_endian(static_cast<std::uint64_t>(value), 4);
  } else {
    out_ += "\x8a\x08";
    little_endian(static_cast<std::uint64_t>(value), 8);
  }
}

void PickleWriter::real(double value) {
  out_ += 'G';
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int i = 7; i >= 0; --i) out_ += static_cast<char>(bits >> (8 * i));
}

void PickleWriter::text(std::string_view text) {
  const auto next = static_cast<std::uint32_t>(memo_.size());
  const auto [found, is_new] = memo_.try_emplace(std::string(text), next);
  if (!is_new) {
    out_ += found->second < 256 ? 'h' : 'j';
    return little_endian(found->second, found->second < 256 ? 1 : 4);
  }
  out_ += 'X';
  little_endian(text.size(), 4);
  out_ += text;
  out_ += '\x94';
}

class SnapshotWriter {
 public:
  SnapshotWriter(const MemorySnapshot& snapshot, const std::string& path)
      : snapshot_(snapshot), pickle_(path) {}

  void write();

 private:
  void key(std::string_view name) { pickle_.text(name); }
  void field(std::string_view name, std::uint64_t value) {
    key(name);
    pickle_.number(static_cast<std::int64_t>(value));
  }
  void field(std::string_view name, std::string_view value) {
    key(name);
    pickle_.text(value);
  }
  void frames(std::uint32_t stack);
  void block(const SnapshotBlock& block);
  void segment(const SnapshotSegment& segment);
  void entry(const SnapshotEntry& entry);
  void settings();

  const MemorySnapshot& snapshot_;
  PickleWriter pickle_;
};

void SnapshotWriter::frames(std::uint32_t stack) {
  key("frames");
  pickle_.begin_list();
  for (const std::uint32_t index : snapshot_.stacks[stack]) {
    const SnapshotFrame& frame = snapshot_.frames[index];
    pickle_.begin_dict();
    field("filename", std::string_view(snapshot_.texts[frame.file]));
    field("line", frame.line);
    field("name", std::string_view(snapshot_.texts[frame.name]));
    pickle_.end_dict();
  }
  pickle_.end_list();
}

void SnapshotWriter::block(const SnapshotBlock& block) {
  pickle_.begin_dict();
  field("address", block.address);
  field("size", block.size_bytes);
  field("requested_size", block.requested_bytes);
  field("state", block.state == SnapshotBlockState::Inactive    ? "inactive"
                 : block.state == SnapshotBlockState::Allocated ? "active_allocated"
                                                                : "active_pending_free");
  frames(block.stack);
  pickle_.end_dict();
}

void SnapshotWriter::segment(const SnapshotSegment& segment) {
  std::uint64_t allocated_bytes = 0, active_bytes = 0, requested_bytes = 0;
  for (const SnapshotBlock& block : snapshot_.blocks_of(segment)) {
    if (block.state == SnapshotBlockState::Inactive) continue;
    active_bytes += block.size_bytes;
    requested_bytes += block.requested_bytes;
    if (block.state == SnapshotBlockState::Allocated) allocated_bytes += block.size_bytes;
  }
  const auto& pool = snapshot_.pools[segment.pool];
  pickle_.begin_dict();
  field("device", static_cast<std::uint64_t>(segment.device));
  field("address", segment.address);
  field("total_size", segment.size_bytes);
  field("allocated_size", allocated_bytes);
  field("active_size", active_bytes);
  field("requested_size", requested_bytes);
  field("stream", snapshot_.streams[segment.stream]);
  field("segment_type", segment.is_large ? "large" : "small");
  key("segment_pool_id");
  pickle_.pair(pool.first, pool.second);
  key("is_expandable");
  pickle_.boolean(segment.is_expandable);
  frames(segment.stack);
  key("blocks");
  pickle_.begin_list();
  for (const SnapshotBlock& each : snapshot_.blocks_of(segment)) block(each);
  pickle_.end_list();
  pickle_.end_dict();
  pickle_.flush_some();
}

void SnapshotWriter::entry(const SnapshotEntry& entry) {
  pickle_.begin_dict();
  field("action", to_string(entry.action));
  field(entry.action == SnapshotAction::Oom ? "device_free" : "addr", entry.address);
  field("size", std::uint64_t{entry.size_bytes});
  field("stream", snapshot_.streams[entry.stream]);
  field("time_us", snapshot_.time_us_first + entry.time_us);
  field("compile_context", "N/A");
  field("user_metadata", "");
  if (entry.has_pool) {
    const auto& pool = snapshot_.pools[entry.pool];
    key("pool_id");
    pickle_.pair(pool.first, pool.second);
  }
  if (entry.stack != kNoStack) frames(entry.stack);
  pickle_.end_dict();
  pickle_.flush_some();
}

void SnapshotWriter::settings() {
  const SnapshotSettings& settings = snapshot_.settings;
  pickle_.begin_dict();
  field("PYTORCH_CUDA_ALLOC_CONF", std::string_view(settings.conf));
  field("max_split_size", static_cast<std::uint64_t>(settings.max_split_bytes));
  key("garbage_collection_threshold");
  pickle_.real(settings.garbage_collection_threshold);
  key("expandable_segments");
  pickle_.boolean(settings.expandable_segments);
  key("roundup_power2_divisions");
  pickle_.begin_dict();
  for (const auto& [interval, divisions] : settings.roundup_divisions) field(interval, divisions);
  pickle_.end_dict();
  pickle_.end_dict();
}

void SnapshotWriter::write() {
  pickle_.begin_dict();
  key("segments");
  pickle_.begin_list();
  for (const SnapshotSegment& each : snapshot_.segments) segment(each);
  pickle_.end_list();
  key("device_traces");
  pickle_.begin_list();
  for (std::size_t device = 0; device < snapshot_.traces.size(); ++device) {
    pickle_.begin_list();
    snapshot_.for_each_entry(device, [this](const SnapshotEntry& each) { entry(each); });
    pickle_.end_list();
  }
  pickle_.end_list();
  if (snapshot_.settings.known) {
    key("allocator_settings");
    settings();
  }
  key("external_annotations");
  pickle_.begin_list();
  for (const SnapshotAnnotation& annotation : snapshot_.annotations) {
    pickle_.begin_dict();
    field("name", std::string_view(snapshot_.texts[annotation.name]));
    field("stage", annotation.is_start ? "START" : "END");
    field("device", static_cast<std::uint64_t>(annotation.device));
    field("time_us", snapshot_.time_us_first + annotation.time_us);
    pickle_.end_dict();
  }
  pickle_.end_list();
  pickle_.end_dict();
  pickle_.finish();
}

}  // namespace

void write_memory_snapshot(const MemorySnapshot& snapshot, const std::string& path) {
  SnapshotWriter(snapshot, path).write();
}

}  // namespace allocmark

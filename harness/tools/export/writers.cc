// See writers.h.
#include "harness/tools/export/writers.h"

#include <cstddef>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/json_text.h"
#include "workloads/import/minimalloc_rows.h"
#include "workloads/trace/byte_stream.h"

namespace allocmark {
namespace {

constexpr std::size_t kTextFlushBytes = std::size_t{1} << 18;

// One JSON document of the Trace Event Format, written as it grows.
class PerfettoWriter {
 public:
  explicit PerfettoWriter(const std::string& path) : bytes_(path) {
    text_ = R"({"displayTimeUnit":"ms","traceEvents":[)"
            R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"caching allocator"}})";
  }

  void counter(std::string_view name, std::uint64_t time_us, std::uint64_t value) {
    add(R"(,{{"ph":"C","pid":1,"name":"{}","ts":{},"args":{{"bytes":{}}}}})", name, time_us, value);
  }
  void instant(const std::string& name, std::uint64_t time_us, std::uint64_t size_bytes) {
    const std::string quoted = json_text(nlohmann::json(name));
    add(R"(,{{"ph":"i","s":"p","pid":1,"tid":1,"name":{},"ts":{},"args":{{"bytes":{}}}}})", quoted,
        time_us, size_bytes);
  }
  void finish() {
    text_ += "]}\n";
    bytes_.write(text_);
    bytes_.finish();
  }

 private:
  template <typename... Values>
  void add(fmt::format_string<const Values&...> format, const Values&... values) {
    fmt::format_to(std::back_inserter(text_), format, values...);
    text_ += '\n';
    if (text_.size() < kTextFlushBytes) return;
    bytes_.write(text_);
    text_.clear();
  }

  ByteWriter bytes_;
  std::string text_;
};

constexpr std::uint64_t kFirstAddress = std::uint64_t{1} << 32;
constexpr std::uint64_t kAddressStep = 256;

struct LoggedBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t stream = 0;
};

std::string clock_text(std::uint64_t time_us) {
  constexpr std::uint64_t kSecond = 1'000'000;
  const std::uint64_t seconds = time_us / kSecond;
  return fmt::format("{:02}:{:02}:{:02}.{:06}", seconds / 3600 % 24, seconds / 60 % 60,
                     seconds % 60, time_us % kSecond);
}

std::string address_text(std::uint64_t address) {
  return address == 0 ? "(nil)" : fmt::format("{:#x}", address);
}

std::string stream_text(std::uint32_t stream) {
  return stream == 0 ? "0" : fmt::format("{:#x}", stream);
}

}  // namespace

void write_minimalloc(const MemorySnapshot& snapshot, const std::string& path) {
  struct Block {
    std::uint64_t id = 0;
    std::uint64_t begin = 0;
    std::uint64_t size_bytes = 0;
  };
  ByteWriter bytes(path);
  bytes.write(kMinimallocHeader);
  std::unordered_map<std::uint64_t, Block> live;  // by address
  std::uint64_t now = 0, id = 0;
  const auto write = [&](const Block& block) {
    bytes.write(minimalloc_line({.id = fmt::format("b{}", block.id),
                                 .lower = block.begin,
                                 .upper = now,
                                 .size_bytes = block.size_bytes}));
  };
  snapshot.for_each_entry(snapshot.main_device(), [&](const SnapshotEntry& entry) {
    if (entry.action == SnapshotAction::Alloc)
      live[entry.address] = {.id = ++id, .begin = now, .size_bytes = entry.size_bytes};
    if (entry.action == SnapshotAction::FreeRequested) {
      const auto found = live.find(entry.address);
      if (found != live.end()) {
        write(found->second);
        live.erase(found);
      }
    }
    ++now;
  });
  for (const auto& [address, block] : live) write(block);
  bytes.finish();
}

void write_perfetto(const MemorySnapshot& snapshot, const std::string& path) {
  PerfettoWriter writer(path);
  std::uint64_t reserved_bytes = 0, live_bytes = 0;
  for (const SnapshotAnnotation& mark : snapshot.annotations)
    writer.instant(snapshot.texts[mark.name], mark.time_us, 0);
  snapshot.for_each_entry(snapshot.main_device(), [&](const SnapshotEntry& entry) {
    const std::uint64_t time_us = entry.time_us;
    const std::uint64_t size_bytes = entry.size_bytes;
    switch (entry.action) {
      case SnapshotAction::SegmentAlloc:
      case SnapshotAction::SegmentMap:
        reserved_bytes += size_bytes;
        writer.counter("reserved", time_us, reserved_bytes);
        break;
      case SnapshotAction::SegmentFree:
      case SnapshotAction::SegmentUnmap:
        reserved_bytes -= size_bytes;
        writer.counter("reserved", time_us, reserved_bytes);
        break;
      case SnapshotAction::Alloc:
        live_bytes += size_bytes;
        writer.counter("live (requested)", time_us, live_bytes);
        break;
      case SnapshotAction::FreeRequested:
        live_bytes -= size_bytes;
        writer.counter("live (requested)", time_us, live_bytes);
        break;
      case SnapshotAction::Oom:
        writer.instant("out of memory", time_us, size_bytes);
        return;
      default:
        return;
    }
    writer.counter("reserved, not live", time_us,
                   reserved_bytes > live_bytes ? reserved_bytes - live_bytes : 0);
  });
  writer.finish();
}

RmmLogCounts write_rmm_log(EventSource& source, const std::string& path) {
  RmmLogCounts counts;
  ByteWriter bytes(path);
  bytes.write("Thread,Time,Action,Pointer,Size,Stream\n");
  std::unordered_map<std::uint64_t, LoggedBlock> live;  // by id
  std::uint64_t block_count = 0;
  const auto write = [&](const char* action, const LoggedBlock& block) {
    bytes.write(fmt::format("1,{},{},{},{},{}\n", clock_text(counts.row_count++), action,
                            address_text(block.address), block.size_bytes,
                            stream_text(block.stream)));
  };
  for (auto events = source.next(); !events.empty(); events = source.next()) {
    for (const Event& event : events) {
      if (event.kind == EventKind::Free) {
        const auto found = live.find(event.id);
        if (found == live.end()) continue;  // of a request that failed
        write("free", found->second);
        live.erase(found);
      } else if (event.kind != EventKind::Alloc) {
        ++counts.left_out_count;
      } else if (event.tensor == TensorKind::Failed) {
        write("allocate failure", {.size_bytes = event.size_bytes, .stream = event.stream});
      } else {
        const LoggedBlock block{.address = kFirstAddress + kAddressStep * block_count++,
                                .size_bytes = event.size_bytes,
                                .stream = event.stream};
        write("allocate", block);
        live[event.id] = block;
      }
    }
  }
  bytes.finish();
  return counts;
}

}  // namespace allocmark

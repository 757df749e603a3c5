#include "harness/tools/export/writers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <iterator>

#include "base/json_text.h"
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

}  // namespace

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

}  // namespace allocmark

#include "workloads/import/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <utility>

#include "base/error.h"
#include "workloads/trace/byte_stream.h"
#include "workloads/trace/event_names.h"
#include "workloads/trace/trace_reader.h"

namespace allocmark {
namespace {

constexpr std::size_t kSniffBytes = 512;

[[noreturn]] void refuse_recording(const std::string& path, std::string what, std::string next) {
  throw UsageError({.what = std::move(what),
                    .where = path,
                    .wanted = "a trace, a PyTorch snapshot, an RMM log, an Nsight Systems export, "
                              "a STAlloc log or a CSV of minimalloc",
                    .next = std::move(next)});
}

bool is_stalloc_line(std::string_view line) {
  if (line.size() < 4 || (line[0] != '0' && line[0] != '1') || line[1] != ' ') return false;
  return std::ranges::count(line.substr(0, line.find('\n')), ' ') >= 3 &&
         line.find(',') == std::string_view::npos;
}

// In the order of the events, for a log that fits memory.
class LogSource final : public EventSource {
 public:
  LogSource(const std::string& path, AddressLog log) : log_(std::move(log)) {
    header_ = {.name = recording_name(path),
               .generator = std::string(kLogGenerator),
               .seed = 0,
               .stream_count = log_.stream_count()};
  }

  std::span<const Event> next() override {
    const std::vector<Event>& events = log_.batch.events();
    const std::size_t count = std::min(kBatchEventCount, events.size() - at_);
    const std::span<const Event> batch = std::span(events).subspan(at_, count);
    at_ += count;
    return batch;
  }
  void rewind() override { at_ = 0; }
  const TraceHeader& header() const override { return header_; }
  const std::vector<std::string>& labels() const override { return log_.batch.labels(); }

 private:
  AddressLog log_;
  TraceHeader header_;
  std::size_t at_ = 0;
};

}  // namespace

bool AddressLog::allocate(std::uint64_t address, const BlockSpec& block) {
  if (address == 0) {
    if (block.size_bytes > 0) fail(block);
    return true;
  }
  if (live_.size() >= kTraceLiveCountMax) {
    throw UsageError({.what = "too many blocks are live at once in this log",
                      .where = fmt::format("address {:#x}", address),
                      .wanted = fmt::format("at most {}", kTraceLiveCountMax),
                      .got = "one more",
                      .next = "record one process and one device to a file"});
  }
  const auto [found, is_new] = live_.try_emplace(address);
  if (is_new) found->second = {.id = batch.allocate(block), .stream = block.stream};
  return is_new;
}

std::optional<std::uint32_t> AddressLog::stream_of(std::uint64_t address) const {
  const auto found = live_.find(address);
  return found == live_.end() ? std::nullopt : std::optional(found->second.stream);
}

bool AddressLog::free(std::uint64_t address) {
  if (address == 0) return true;
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  batch.free(found->second.id);
  live_.erase(found);
  return true;
}

void AddressLog::fail(const BlockSpec& block) {
  BlockSpec failed = block;
  failed.tensor = TensorKind::Failed;
  batch.free(batch.allocate(failed));
  ++failed_count;
}

std::uint32_t AddressLog::stream_index(std::uint64_t raw) {
  return streams_.try_emplace(raw, static_cast<std::uint32_t>(streams_.size())).first->second;
}

std::unique_ptr<EventSource> make_log_source(const std::string& path, AddressLog log) {
  return std::make_unique<LogSource>(path, std::move(log));
}

void add_unknown_frees(std::uint64_t count, Recording* recording) {
  if (count == 0) return;
  recording->notes.push_back(fmt::format(
      "{} frees of blocks that were allocated before the log began are left out", count));
}

void add_failures(const AddressLog& log, Recording* recording) {
  recording->failed_count = log.failed_count;
  if (log.failed_count == 0) return;
  recording->notes.push_back(
      fmt::format("{} request{} failed while recording; such a request was never live",
                  log.failed_count, log.failed_count == 1 ? "" : "s"));
}

std::string recording_name(const std::string& path) {
  return name_without(
      path, {".gz", ".zst", ".csv", ".pickle", ".pkl", ".sqlite", ".txt", ".log", ".ops"});
}

RecordingKind recording_kind(const std::string& path) {
  ByteReader reader(path);
  std::array<char, kSniffBytes> bytes{};
  const std::string_view head(bytes.data(), reader.read(bytes));
  const auto second = head.size() > 1 ? static_cast<unsigned char>(head[1]) : 0;
  if (head.starts_with('\x80') && second <= 5) return RecordingKind::PytorchSnapshot;
  if (head.starts_with("(dp0") || head.starts_with("(d") || head.starts_with("}q") ||
      head.starts_with("(lp0")) {
    refuse_recording(
        path, "a pickle of protocol 0 or 1; a snapshot has protocol 2 to 5",
        "write it with torch.cuda.memory._dump_snapshot(), or pickle.dump(..., protocol=4)");
  }
  if (head.starts_with("PK\x03\x04")) {
    refuse_recording(path, "a zip file, as torch.save writes; a snapshot is a plain pickle",
                     "write it with torch.cuda.memory._dump_snapshot()");
  }
  if (head.starts_with("SQLite format 3")) return RecordingKind::NsightSqlite;
  const std::string_view line = head.substr(0, head.find('\n'));
  if (line.find("Thread") != std::string_view::npos &&
      line.find("Action") != std::string_view::npos &&
      line.find("Pointer") != std::string_view::npos)
    return RecordingKind::RmmLog;
  if (line.find("memoryOperationType") != std::string_view::npos &&
      line.find("address") != std::string_view::npos)
    return RecordingKind::NsightCsv;
  if (is_minimalloc_header(line)) return RecordingKind::MinimallocCsv;
  if (is_stalloc_line(head)) return RecordingKind::StallocLog;
  return RecordingKind::Trace;
}

Recording open_recording(const std::string& path) {
  std::error_code ignored;
  // What comes through a pipe can be read once only, and is a trace.
  if (!std::filesystem::is_regular_file(path, ignored)) return {open_trace_file(path)};
  switch (recording_kind(path)) {
    case RecordingKind::PytorchSnapshot:
      return open_pytorch_snapshot(path);
    case RecordingKind::RmmLog:
      return open_rmm_log(path);
    case RecordingKind::NsightSqlite:
      return open_nsight_sqlite(path);
    case RecordingKind::NsightCsv:
      return open_nsight_csv(path);
    case RecordingKind::StallocLog:
      return open_stalloc_log(path);
    case RecordingKind::MinimallocCsv:
      return open_minimalloc_csv(path);
    case RecordingKind::Trace:
      break;
  }
  return {open_trace_file(path)};
}

}  // namespace allocmark

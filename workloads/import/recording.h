// A recording that another tool made, as events. Opens a file by what is in it, whatever its name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "workloads/trace/event_batch.h"
#include "workloads/trace/source.h"

namespace allocmark {

enum class RecordingKind : std::uint8_t {
  Trace,            // our own format
  PytorchSnapshot,  // a pickle of torch.cuda.memory._snapshot()
  RmmLog,           // the CSV of RMM's logging resource adaptor
  NsightSqlite,     // nsys export --type sqlite
  NsightCsv,        // its table of memory operations as CSV
  StallocLog,       // STAlloc's mem_log_devN.txt
  MinimallocCsv,    // a problem of minimalloc: id,lower,upper,size
};

// By the first bytes, unpacked. Throws UsageError for what is known and cannot be read (a pickle of
// protocol 0, a zip file), and FileError where the file cannot be opened.
[[nodiscard]] RecordingKind recording_kind(const std::string& path);

struct Recording {
  std::unique_ptr<EventSource> events;
  std::vector<std::string> notes{};  // what a reader should know about it, a sentence each
  std::uint64_t failed_count = 0;    // requests that failed when it was recorded
};

// Throws UsageError that says what the file is, what was expected, and how to record it right.
[[nodiscard]] Recording open_recording(const std::string& path);

// Requests and frees by address, as logs have them, become events with ids. Used by all importers
// of logs. Not copied: `batch` grows.
class AddressLog {
 public:
  // False where the address is live already. Address 0 is no block: a request that got it failed,
  // and one of 0 bytes is left out.
  [[nodiscard]] bool allocate(std::uint64_t address, const BlockSpec& block);
  // False where it is not live; 0 never is, and giving it back is nothing.
  [[nodiscard]] bool free(std::uint64_t address);
  // A request that failed is marked so, and given back at once: its owner never had it.
  void fail(const BlockSpec& block);
  // The default stream is 0; others count up as they appear.
  [[nodiscard]] std::uint32_t stream_index(std::uint64_t raw);
  [[nodiscard]] std::uint32_t stream_count() const {
    return static_cast<std::uint32_t>(streams_.size());
  }
  [[nodiscard]] std::size_t live_count() const { return live_.size(); }
  // As stream_index() gave it when the live block there was asked for; nothing where none is.
  [[nodiscard]] std::optional<std::uint32_t> stream_of(std::uint64_t address) const;

  EventBatch batch;
  std::uint64_t failed_count = 0;

 private:
  struct Live {
    std::uint64_t id = 0;
    std::uint32_t stream = 0;
  };
  std::unordered_map<std::uint64_t, Live> live_;  // by address
  std::unordered_map<std::uint64_t, std::uint32_t> streams_ = {{0, 0}};
};

// The events of a log that was read to its end.
[[nodiscard]] std::unique_ptr<EventSource> make_log_source(const std::string& path, AddressLog log);

// Whether a line names the columns of a problem of minimalloc.
[[nodiscard]] bool is_minimalloc_header(std::string_view line);

// Says how many frees had no request in the log, in a note where any had none.
void add_unknown_frees(std::uint64_t count, Recording* recording);

// Says how many requests of the log failed, in a note where any did.
void add_failures(const AddressLog& log, Recording* recording);

// The file's name without its endings.
[[nodiscard]] std::string recording_name(const std::string& path);

[[nodiscard]] Recording open_rmm_log(const std::string& path);
[[nodiscard]] Recording open_nsight_sqlite(const std::string& path);
[[nodiscard]] Recording open_nsight_csv(const std::string& path);
[[nodiscard]] Recording open_stalloc_log(const std::string& path);
[[nodiscard]] Recording open_minimalloc_csv(const std::string& path);
[[nodiscard]] Recording open_pytorch_snapshot(const std::string& path);

}  // namespace allocmark

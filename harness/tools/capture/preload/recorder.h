// Turns what a process does with device memory into traces, one for each GPU. Requests, frees and
// waits flow in from all threads; rows flow out in the order of these calls. Under one lock, which
// is never held while the runtime or PyTorch is called.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/tools/capture/preload/trace_file.h"
#include "workloads/trace/live_blocks.h"

namespace allocmark_capture {

inline constexpr int kDeviceCountMax = 64;

// The streams of one device as dense indexes. 0 is the default stream; the index of a stream that
// was destroyed is used again.
class StreamIndexes {
 public:
  [[nodiscard]] std::uint32_t of(std::uint64_t stream);
  void release(std::uint64_t stream);
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> indexes_;
  std::vector<std::uint32_t> released_;
  std::uint32_t count_ = 1;
};

// What was counted, for the words at the end.
struct CaptureCounts {
  std::uint64_t requests = 0;
  std::uint64_t failed = 0;
  std::uint64_t held = 0;    // given back while another stream still used them
  std::uint64_t pooled = 0;  // of private pools, which traces do not tell apart
};

struct MemoryRequest {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;  // raw handle, or what stands for it
};

// What PyTorch's entries tell only by what follows them.
struct Follow {
  bool in_trim = false;             // the program's empty_cache gives segments back
  std::uint64_t freed_address = 0;  // whose free was asked for last; 0 where that is done
};

class DeviceTrace {
 public:
  void allocated(const MemoryRequest& request);
  // The request is asked and given back at once: its owner never had memory.
  void failed(const MemoryRequest& request);
  // False where the address is not live here.
  bool freed(std::uint64_t address);
  // The same on a stream of its own: where that is another one, the block was used there, too.
  bool freed_on(std::uint64_t address, std::uint64_t stream);
  void trimmed();
  void marked(std::string_view label);
  // Waits are written before the next row, many in a row once.
  void waited() { wait_is_due_ = file_.is_open(); }
  void stream_destroyed(std::uint64_t stream) { streams_.release(stream); }
  void everything_freed();
  [[nodiscard]] bool knows(std::uint64_t address) const { return blocks_.find(address) != nullptr; }

  TraceFile& file() { return file_; }
  CaptureCounts& counts() { return counts_; }
  Follow& follow() { return follow_; }

 private:
  struct Row;
  void write(const Row& row);
  [[nodiscard]] std::uint32_t stream_index(std::uint64_t stream);

  TraceFile file_;
  // By address. `birth` is the id of the block's row, `size_bytes` its stream's index.
  allocmark::LiveBlocks blocks_;
  StreamIndexes streams_;
  CaptureCounts counts_;
  Follow follow_;
  std::uint64_t id_last_ = 0;
  bool wait_is_due_ = false;
};

// Every thread's way to the traces of this process.
class Recorder {
 public:
  // Null where nobody records, or no file can be made for that device: it has said why.
  [[nodiscard]] DeviceTrace* device(int index);
  // The device whose block that is; null where nobody knows it.
  [[nodiscard]] DeviceTrace* owner_of(std::uint64_t address);
  [[nodiscard]] bool begin(std::string folder);
  [[nodiscard]] bool is_on() const { return !folder_.empty(); }
  [[nodiscard]] bool has_files() const;
  template <class Visit>
  void for_each(Visit visit) {
    for (const std::unique_ptr<DeviceTrace>& trace : devices_) {
      if (trace != nullptr) visit(*trace);
    }
  }
  // A call whose memory no trace can hold.
  void left_out(const char* function) { ++unrecorded_[function]; }
  // In the child of a vfork, which runs in its parent's memory, this is another process's.
  [[nodiscard]] bool is_of_this_process() const;
  // Says what was written. Nothing is recorded afterwards.
  void finish();
  // In the child of a fork: the files are the parent's, and so are the blocks.
  void start_anew();

 private:
  std::string folder_;
  pid_t process_ = 0;
  std::map<std::string, std::uint64_t> unrecorded_;  // calls by function
  std::unique_ptr<DeviceTrace> devices_[kDeviceCountMax];
  bool refused_[kDeviceCountMax] = {};
};

// The process's recorder, for as long as this exists.
class LockedRecorder {
 public:
  LockedRecorder();
  ~LockedRecorder();
  LockedRecorder(const LockedRecorder&) = delete;
  LockedRecorder& operator=(const LockedRecorder&) = delete;
  Recorder* operator->() const;
  // Ends all files after their last rows, without a word. Gives up where the lock stays taken.
  static void cut_files();
};

// Words for a person, on stderr.
void say(const std::string& text);

}  // namespace allocmark_capture

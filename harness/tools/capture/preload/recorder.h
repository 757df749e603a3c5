// Turns what a process does with memory of its GPUs, and with pinned memory, into traces, one for
// each GPU. Requests, frees and
// waits flow in from all threads; rows flow out in the order of these calls. Under one lock, which
// is never held while the runtime or PyTorch is called.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/tools/capture/preload/graph_pools.h"
#include "harness/tools/capture/preload/trace_file.h"
#include "workloads/trace/live_blocks.h"

namespace allocmark_capture {

struct Row;

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
  std::uint64_t held = 0;            // given back while another stream still used them
  std::uint64_t astray = 0;          // PyTorch took them from another pool than the rows say
  std::uint64_t graph_requests = 0;  // of graphs' own memory, without PyTorch
};

// A private pool by PyTorch's id, or by a number of ours behind a 0; {0, 0} is no pool.
using PoolKey = std::array<std::uint64_t, 2>;

// A private pool as the rows have it so far.
struct TracedPool {
  std::uint64_t number = 0;  // in the trace, from 1 on
  int use_count = 0;
  bool begun = false;
  bool on_oom = false;
  bool has_graph = false;
  std::optional<std::uint32_t> captured_stream{};  // of the capture under way
};

struct MemoryRequest {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;                    // raw handle, or what stands for it
  std::uint64_t capture_id = 0;                // 0: in none
  std::optional<std::uint64_t> driver_pool{};  // of the stream-ordered functions; 0: the default
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
  // Pinned memory of the host.
  void host_allocated(std::uint64_t address, std::uint64_t size_bytes);
  // Nothing where the address is not live here.
  void host_freed(std::uint64_t address);
  void trimmed();
  void marked(std::string_view label);
  // Waits are written before the next row, many in a row once.
  void waited() { wait_is_due_ = file_.is_open(); }
  void stream_destroyed(std::uint64_t stream) { streams_.release(stream); }
  void everything_freed();

  // Private pools (pool_rows.cc). What was begun before the recording is put in, so that the rows
  // are a valid trace.
  void pool_created(const PoolKey& key);
  // Requests go to the pool: of one stream, by its handle, or of all.
  void pool_begun(const PoolKey& key, std::optional<std::uint64_t> stream = std::nullopt);
  void pool_ended(const PoolKey& key);
  void pool_released(const PoolKey& key);
  void pool_on_oom(const PoolKey& key, bool is_on);
  void pool_never_splits(const PoolKey& key);
  void pool_trimmed(const PoolKey& key);
  // Of a graph into the pool; false where no requests go to it.
  bool capture_begun(const PoolKey& key, std::uint64_t stream);
  void capture_ended(const PoolKey& key);
  void replayed(const PoolKey& key, std::uint64_t stream);
  [[nodiscard]] bool has_pool(const PoolKey& key) const { return pools_.contains(key); }
  // The pool that requests of all streams go to; {0, 0} where there is none.
  [[nodiscard]] PoolKey pool_begun_last() const;

  // The file ends after what its rows began has ended.
  void finish();
  [[nodiscard]] bool knows(std::uint64_t address) const { return blocks_.find(address) != nullptr; }

  TraceFile& file() { return file_; }
  CaptureCounts& counts() { return counts_; }
  // Whose free PyTorch was asked for last; 0 where that is done.
  std::uint64_t& freed_address() { return freed_address_; }

 private:
  void write(const Row& row);
  void write_of_pool(std::string_view operation, const TracedPool& pool, std::uint64_t flag = 0,
                     std::uint32_t stream = 0);
  // A new one where there is none of that key, or it was released.
  TracedPool& pool_of(const PoolKey& key);
  [[nodiscard]] TracedPool* find_pool(const PoolKey& key);
  void end_pool(TracedPool& pool);
  [[nodiscard]] std::uint32_t stream_index(std::uint64_t stream);

  TraceFile file_;
  // By address. `birth` is the id of the block's row, `size_bytes` its stream's index.
  allocmark::LiveBlocks blocks_;
  StreamIndexes streams_;
  CaptureCounts counts_;
  std::uint64_t freed_address_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> host_blocks_;  // ids of live ones, by address
  std::uint64_t id_last_ = 0;
  std::map<PoolKey, TracedPool> pools_;        // that are used
  std::map<PoolKey, std::uint64_t> released_;  // numbers of those that are not any more
  std::uint64_t pool_number_last_ = 0;
  std::vector<PoolKey> begun_;  // of all streams, the last one last
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
  // A request went to that pool of the driver.
  void used_driver_pool(std::uint64_t pool) { driver_pools_.insert(pool); }
  GraphPools& graphs() { return graphs_; }
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
  std::set<std::uint64_t> driver_pools_;             // 0: the device's default one
  GraphPools graphs_;
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

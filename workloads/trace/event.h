// The event: one step of a program as an allocator sees it. The same struct is what a generator
// makes, what a trace row holds, what the fuzzer runs and what a bug report shows.
#pragma once

#include <cstdint>

namespace allocmark {

enum class EventKind : std::uint8_t {
  Alloc,   // request size_bytes on stream; id names the block from here on
  Free,    // the owner gives id back (skipped where its Alloc failed)
  Record,  // id was used on another stream (PyTorch's record_stream)
  Kernel,  // a kernel of duration_ns() starts on stream; the host goes on
  Busy,    // a kernel that does not end by itself starts on stream; the next Sync ends it
  Sync,    // every Busy kernel ends, then the host waits for the whole device
  Trim,    // the allocator is asked to give cached memory back (empty_cache); with an id what the
           // private pool of that id has cached, where nobody uses it any more
  Mark,    // a step boundary, news of a request or a meeting of ranks (request_marks.h), no effect
           // on an allocator; id is an index into the trace's labels
  Host,    // the program itself works on the host for duration_ns() before its next event; the
           // launches of its kernels are in that time

  // Private pools (torch.cuda.MemPool, the pools of CUDA graphs); id names the pool.
  PoolCreate,  // the pool is made, or used once more
  PoolBegin,   // used once more; from here on requests on stream go to it, or those on every stream
               // (all_streams()), before those of pools begun earlier
  PoolEnd,     // no more
  PoolRelease,   // used once less; what an unused pool has cached can go back to the device
  PoolOnOom,     // is_on(): from here on its cached blocks serve requests that find no other memory
  PoolNoSplit,   // from here on a request to it gets a whole segment
  CaptureBegin,  // a graph is captured on stream; its requests go to the pool, which was begun
  CaptureEnd,    // the graph of the stream is there
  GraphReplay,   // a graph that was captured into the pool runs on stream; no effect on an
                 // allocator, whose memory it uses where it is

  // Pinned memory of the host; id names the block, apart from those of the device. No effect on an
  // allocator of device memory.
  HostAlloc,   // request size_bytes of pinned memory
  HostFree,    // the owner gives id back
  HostRecord,  // work that stream has, a copy, uses id: it is not reused before that is done
};

// What a block holds; Unknown where the trace does not say (recorded traces). Failed:
// workloads/TRACES.md.
enum class TensorKind : std::uint8_t {
  Unknown,
  Parameter,
  Gradient,
  OptimizerState,
  Activation,
  Workspace,
  KvCache,
  Communication,
  Failed,  // nothing: the request failed when the trace was recorded, and its Free follows
};

struct Event {
  std::uint64_t id = 0;  // Alloc, Free, Record: block, unique in the trace; so are those of
                         // HostAlloc, HostFree, HostRecord among themselves. Mark: label index.
                         // Pool..., Capture..., GraphReplay: pool, from 1 on; Trim: likewise, or
                         // 0. Else 0
  std::uint64_t size_bytes = 0;  // Alloc, HostAlloc: requested bytes, may be 0. Kernel, Host:
                                 // duration in ns.
                                 // Mark of a request: time in ns; of a meeting or of managed
                                 // memory: bytes. PoolBegin:
                                 // 1 for every stream. PoolOnOom: 1 for on. Else 0
  std::uint32_t stream = 0;  // dense stream index, 0 = default stream; Alloc, Record, Kernel, Busy,
                             // HostRecord; Mark of a meeting; PoolBegin of one stream;
                             // Capture..., GraphReplay
  EventKind kind = EventKind::Mark;
  TensorKind tensor = TensorKind::Unknown;

  [[nodiscard]] std::uint64_t duration_ns() const { return size_bytes; }
  [[nodiscard]] bool all_streams() const { return size_bytes != 0; }
  [[nodiscard]] bool is_on() const { return size_bytes != 0; }
  friend bool operator==(const Event&, const Event&) = default;
};
static_assert(sizeof(Event) == 24);

[[nodiscard]] constexpr bool is_of_pool(EventKind kind) {
  return kind >= EventKind::PoolCreate && kind <= EventKind::GraphReplay;
}
// Of pinned memory.
[[nodiscard]] constexpr bool is_of_host(EventKind kind) { return kind >= EventKind::HostAlloc; }

}  // namespace allocmark

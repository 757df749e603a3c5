/// @file
/// The one interface every allocator under test stands behind, and the registry entry that makes
/// one. Calls flow in from the replayer on the host; memory comes from the CUDA runtime (a real one
/// or simcuda).
///
/// - **Units**: sizes and addresses are bytes.
/// - **Ownership**: what allocate() returns belongs to the caller until deallocate(), which must be
///   called on the same instance. The instance must outlive it.
/// - **Threads**: one thread calls, unless BackendCapabilities says more.
/// - **Errors**: out of memory is a value. CUDA errors throw EnvironmentError.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace allocmark {

namespace caching {
class Driver;
}

/// How a request went.
enum class AllocateStatus : std::uint8_t {
  /// The pointer is valid, or null for size 0.
  Ok,
  /// Nothing changed; a smaller request may succeed.
  OutOfMemory,
};

/// What Backend::allocate() gives.
struct AllocateResult {
  /// Memory of BackendCapabilities::side, aligned to BackendCapabilities::alignment_bytes; null
  /// unless Ok.
  void* pointer = nullptr;
  /// Whether there was memory.
  AllocateStatus status = AllocateStatus::Ok;
};

/// What a request gets for which there is no memory.
inline constexpr AllocateResult kOutOfMemory{.pointer = nullptr,
                                             .status = AllocateStatus::OutOfMemory};
/// The block at the address; out of memory where there is none.
[[nodiscard]] inline AllocateResult result_at(std::optional<std::uint64_t> address) {
  if (!address) return kOutOfMemory;
  return {.pointer = reinterpret_cast<void*>(*address), .status = AllocateStatus::Ok};
}

/// What the backend holds now, in bytes. A field the backend cannot know is nullopt, never 0.
struct MemoryStats {
  /// Handed out and not given back, rounded as the backend rounds.
  std::optional<std::uint64_t> allocated_bytes = std::nullopt;
  /// allocated_bytes plus blocks waiting for another stream.
  std::optional<std::uint64_t> active_bytes = std::nullopt;
  /// Taken from the device and not returned.
  std::optional<std::uint64_t> reserved_bytes = std::nullopt;
  /// Cached, but only for another stream than the one asked about.
  std::optional<std::uint64_t> free_other_streams_bytes = std::nullopt;
  /// Largest cached block on the stream asked about.
  std::optional<std::uint64_t> free_largest_bytes = std::nullopt;
  /// Calls that took memory from the device.
  std::optional<std::uint64_t> device_allocate_count = std::nullopt;
  /// Calls that gave memory back.
  std::optional<std::uint64_t> device_free_count = std::nullopt;
  /// Device calls repeated after giving cached memory back.
  std::optional<std::uint64_t> retry_count = std::nullopt;
  /// Times the backend waited for all its streams.
  std::optional<std::uint64_t> synchronize_all_count = std::nullopt;
  /// The most that the backend allows itself (PyTorch's memory fraction); nothing: no limit.
  std::optional<std::uint64_t> limit_bytes = std::nullopt;
  /// Cached by other processes, where the backend stands for several; in none of the fields above.
  std::optional<std::uint64_t> free_other_processes_bytes = std::nullopt;
};

/// A counter of the backend's own.
struct NamedCounter {
  /// The name its users know ("allocated_bytes.all.peak").
  std::string name;
  /// In the unit that the name says.
  std::int64_t value = 0;
};

/// A counter of what is never below 0.
[[nodiscard]] inline NamedCounter named_counter(const char* name, std::uint64_t value) {
  return {.name = name, .value = static_cast<std::int64_t>(value)};
}

/// What a block is used for.
enum class MemoryBlockState : std::uint8_t {
  /// Cached.
  Free,
  /// Handed out.
  Allocated,
  /// Given back, but still used on another stream.
  Waiting
};

/// Of a block that is either handed out or cached.
[[nodiscard]] constexpr MemoryBlockState used_state(bool is_used) {
  return is_used ? MemoryBlockState::Allocated : MemoryBlockState::Free;
}

/// A piece of a segment.
struct MemoryBlock {
  /// Where it begins.
  std::uint64_t address = 0;
  /// Its size, as the backend rounds.
  std::uint64_t size_bytes = 0;
  /// What it is used for.
  MemoryBlockState state = MemoryBlockState::Free;
};

/// Memory taken from the device in one piece (of expandable segments each contiguous mapped range),
/// and what the backend has made of it.
struct MemorySegment {
  /// Where it begins.
  std::uint64_t address = 0;
  /// Its size.
  std::uint64_t size_bytes = 0;
  /// Of PyTorch's large pool.
  bool is_large = false;
  /// An expandable segment.
  bool is_expandable = false;
  /// The stream whose requests it serves: a cudaStream_t as a number.
  std::uint64_t stream = 0;
  /// The private pool that has it; 0: none.
  std::uint64_t pool = 0;
  /// Of it, what callers hold; nothing where the backend does not tell.
  std::optional<std::uint64_t> allocated_bytes = std::nullopt;
  /// By address; empty where the backend does not tell.
  std::vector<MemoryBlock> blocks{};
};

/// Adds a block behind those that the segment has; what callers hold of it counts as allocated.
inline void add_block(MemorySegment& segment, const MemoryBlock& block) {
  const bool is_held = block.state == MemoryBlockState::Allocated;
  segment.allocated_bytes = segment.allocated_bytes.value_or(0) + (is_held ? block.size_bytes : 0);
  segment.blocks.push_back(block);
}

/// The segment of a block that has one to itself.
[[nodiscard]] inline MemorySegment segment_of_block(const MemoryBlock& block,
                                                    std::uint64_t stream = 0) {
  MemorySegment segment{
      .address = block.address, .size_bytes = block.size_bytes, .is_large = true, .stream = stream};
  add_block(segment, block);
  return segment;
}

/// What is asked of a private pool: memory that only requests routed to it get (PyTorch's MemPool
/// and the pools of its CUDA graphs).
enum class PoolAction : std::uint8_t {
  /// Makes the pool, or uses it once more.
  Create,
  /// Uses it once more, and routes requests to it: those on PoolCall::stream, with the flag those
  /// on every stream. The pool begun last comes first.
  Begin,
  /// Routes no more to it.
  End,
  /// Uses it once less. What an unused pool has cached can go back to the device.
  Release,
  /// With the flag its cached blocks serve requests that find no other memory.
  UseOnOom,
  /// A request to it gets a whole segment from here on.
  NoSplit,
  /// Gives back what the pool has cached, where it is not used any more.
  Trim,
  /// A graph is captured on PoolCall::stream, whose requests are routed to the pool. The device
  /// captures nothing: kernels and waits of a replay go on as ever.
  CaptureBegin,
  /// And no more.
  CaptureEnd,
};

/// One call about a private pool.
struct PoolCall {
  /// What is asked.
  PoolAction action = PoolAction::Create;
  /// Which pool, from 1 on.
  std::uint64_t pool = 0;
  /// For Begin without the flag, and captures.
  cudaStream_t stream = nullptr;
  /// Begin: every stream. UseOnOom: on.
  bool flag = false;
};

/// An allocator under test.
class Backend {
 public:
  /// Nothing is taken yet.
  Backend() = default;
  /// What it holds is its own.
  Backend(const Backend&) = delete;
  /// What it holds is its own.
  Backend& operator=(const Backend&) = delete;
  /// Gives all memory back to the device, also blocks that are still live.
  virtual ~Backend() = default;

  /// Takes size_bytes for use on `stream`. May block the host where the allocator does. Size 0
  /// gives Ok and a pointer (often null) that can be given back. Out of memory is a value; CUDA
  /// errors throw EnvironmentError.
  [[nodiscard]] virtual AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) = 0;

  /// Gives back what allocate returned, with the same size and stream. The owner's work on `stream`
  /// may still run.
  virtual void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) = 0;

  /// `pointer` has been used on `stream`, which is not the one it was allocated on: after
  /// deallocate the memory must not be handed out again before the work now queued on `stream` is
  /// done. Backends that order everything by the host (cudaFree) need nothing here.
  virtual void record_stream(void* /*pointer*/, cudaStream_t /*stream*/) {}

  /// Gives cached memory back to the device (PyTorch's empty_cache). May block the host.
  virtual void trim() {}

  /// A step of the program begins, and the one before has ended: what
  /// BackendCapabilities::needs_steps is about. Not called in timed regions; may block the host.
  virtual void begin_step() {}

  /// What BackendCapabilities::private_pools claims; else nothing happens. The order of calls is
  /// that of a valid trace (workloads/TRACES.md). Throws EnvironmentError where the allocator would
  /// fail with more than out of memory.
  virtual void call_pool(const PoolCall& /*call*/) {}

  /// Not called in timed regions. free_* fields refer to `stream`.
  [[nodiscard]] virtual MemoryStats stats(cudaStream_t stream) const = 0;

  /// stats() without the free_* fields, which a look at all that is cached may cost: for who asks
  /// after every request.
  [[nodiscard]] virtual MemoryStats totals() const { return stats(nullptr); }

  /// The backend's own counters, in a stable order.
  [[nodiscard]] virtual std::vector<NamedCounter> counters() const { return {}; }

  /// What a reader of its numbers must know after a trace: that it did not do what it is for. A
  /// sentence without a full stop; empty where there is nothing to say.
  [[nodiscard]] virtual std::string warning() const { return {}; }

  /// What it holds, by address; empty where it cannot tell. Not called in timed regions.
  [[nodiscard]] virtual std::vector<MemorySegment> segments() const { return {}; }

  /// What the allocator's users would read about the last request that failed; empty where none did
  /// or there is no such text.
  [[nodiscard]] virtual std::string last_failure_text() const { return {}; }
};

/// What an instance is made with.
struct BackendOptions {
  /// Config string in the backend's own keys; empty: defaults.
  std::string conf;
  /// Cap that the allocator itself enforces (PyTorch's memory fraction); 0: none, and for pinned
  /// memory of the host what this machine has available.
  std::uint64_t memory_limit_bytes = 0;
  /// What `caching` and vmm_stitch ask in place of a device of their own, so that somebody can look
  /// on; the others do without. It has to outlive the instance. Null: nobody does.
  caching::Driver* device = nullptr;
};

/// Whose memory a backend hands out.
enum class MemorySide : std::uint8_t {
  /// The device's.
  Device,
  /// The host's, pinned, so that the device can copy from and to it. Counters about the device are
  /// about this memory then, and BackendOptions::memory_limit_bytes bounds what is pinned.
  Host
};

/// What a backend claims; the conformance suite tests claims, and skips what is not claimed with
/// that reason.
struct BackendCapabilities {
  /// deallocate() may be called from another thread than allocate().
  bool any_thread = false;
  /// record_stream() and reuse honour stream order.
  bool stream_ordered = false;
  /// Pointers are memory (false: null backend).
  bool real_memory = true;
  /// Whose memory it is.
  MemorySide side = MemorySide::Device;
  /// BackendOptions::memory_limit_bytes is enforced.
  bool honours_memory_limit = false;
  /// call_pool() works. A trace with private pools is skipped where it does not.
  bool private_pools = false;
  /// begin_step() tells it what it works by. A trace that marks no steps is skipped.
  bool needs_steps = false;
  /// It serves no request after a free of a block that is not the last one of its stream. A trace
  /// that frees in another order is skipped.
  bool frees_in_reverse = false;
  /// Its own limit is a share of what is free when it is made: what happens with one capacity says
  /// nothing about another one.
  bool limit_is_share_of_free = false;
  /// Of every pointer; cudaMalloc documents 256.
  std::uint32_t alignment_bytes = 256;
};

/// "caching" of "caching@2.13": backends that are releases of one allocator share it.
[[nodiscard]] constexpr std::string_view family_of(std::string_view name) {
  return name.substr(0, name.find('@'));
}

/// A row of the registry: what a backend is called and claims, and how one is made.
struct BackendEntry {
  /// Registry name = file stem = class stem; `NAME@RELEASE` for one of several.
  std::string name;
  /// One line for `allocmark list allocators`.
  std::string summary;
  /// What an instance with the default config string claims.
  BackendCapabilities capabilities;
  /// Release of PyTorch whose rules it follows; empty: it follows none.
  std::string release{};

  /// Config keys for help texts and suggestions; the grammar is PyTorch's: key:value,key:value.
  std::vector<std::string> conf_keys;

  /// The keys that NAME:VALUE,VALUE on the command line stands for, in order; where there are any,
  /// the backend cannot run without a config string.
  std::vector<std::string> argument_keys = {};

  /// Checks a config string without touching a device: nothing where it is good, else the error
  /// with key, column and what is allowed.
  std::function<std::optional<ErrorText>(std::string_view conf)> check_conf;

  /// What else stands against that config string on a simulated device; null: nothing does.
  std::optional<ErrorText> (*check_simulated)(std::string_view conf) = nullptr;

  /// Makes an instance on the current CUDA device. Throws UsageError (bad conf) or
  /// EnvironmentError.
  std::function<std::unique_ptr<Backend>(const BackendOptions& options)> make;

  /// What an instance with that good config string claims, where that depends on it; null: always
  /// `capabilities`.
  std::function<BackendCapabilities(std::string_view conf)> capabilities_with = nullptr;
  /// What an instance with that good config string claims.
  [[nodiscard]] BackendCapabilities capabilities_for(std::string_view conf) const {
    return capabilities_with == nullptr ? capabilities : capabilities_with(conf);
  }

  /// Added to the warning that the device did not get all memory back: what may be behind it with
  /// that config string. Null or empty: nothing to add.
  std::string (*residue_hint)(std::string_view conf) = nullptr;

  /// Its users write record_stream(): where a config string promises stream order and the workload
  /// uses no block on another stream, the cell warns that the promise was not tested.
  bool warns_uncalled_record = false;

  /// Its code is a library that is loaded at run time: not allocmark's own, and `check` runs none.
  bool loads_library = false;

  /// Empty where the backend can run here, else the reason it cannot ("librmm not found").
  std::function<std::string()> unavailable_reason = [] { return std::string(); };
};

}  // namespace allocmark

// See pool_replay.h.
#include "harness/core/pinned/pool_replay.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <vector>

#include "harness/simcuda/core/device.h"
#include "harness/simcuda/core/pinning_costs.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kAskedBytesMax = std::uint64_t{16} << 40;
constexpr std::uint64_t kHostBytesMin = std::uint64_t{64} << 30;
constexpr std::uint64_t kPoolAddress = std::uint64_t{1} << 45;  // chunks begin there

// Room for what fragmentation may take besides.
std::uint64_t host_bytes_for(const PinnedProgram& program) {
  return simcuda::round_up(std::max(4 * program.asked_bytes_peak, kHostBytesMin),
                           simcuda::kChunkBytes);
}

simcuda::DeviceConfig config_for(const PinnedProgram& program) {
  simcuda::DeviceConfig config = simcuda::h200_config(simcuda::StartState::Plain);
  config.host_bytes = host_bytes_for(program);
  return config;
}

class PoolPlayer {
 public:
  PoolPlayer(const PinnedProgram& program, std::uint64_t release_threshold_bytes)
      : program_(program),
        device_(config_for(program)),
        pool_(device_.create_host_pool({kPoolAddress, kPoolAddress + 2 * host_bytes_for(program)})
                  .pool),
        own_stream_(new_stream()) {
    for (std::uint32_t i = 0; i < program.stream_count; ++i) streams_.push_back(new_stream());
    pool().set_release_threshold(release_threshold_bytes);
  }

  PinnedUse play() {
    for (const Event& event : program_.events) step(event);
    use_.pinned_bytes_peak = pool().usage().reserved_bytes_high;
    return use_;
  }

 private:
  simcuda::StreamId new_stream() {
    return device_.create_stream(simcuda::StreamKind::NonBlocking, 0).stream;
  }
  simcuda::MemoryPool& pool() { return *device_.pool(pool_); }

  void step(const Event& event) {
    switch (event.kind) {
      case EventKind::HostAlloc:
        allocate(event);
        break;
      case EventKind::HostFree:
        free(blocks_[event.id]);
        blocks_.erase(event.id);
        break;
      case EventKind::HostRecord:
        blocks_[event.id].streams.insert(streams_[event.stream]);
        break;
      case EventKind::Kernel:
        wait_until(device_.streams()
                       .launch(streams_[event.stream], event.duration_ns(), now_ns_)
                       .work.host_wait_until_ns);
        break;
      case EventKind::Busy:
        static_cast<void>(device_.streams().launch_gated(streams_[event.stream], gate_, now_ns_));
        break;
      case EventKind::Host:
        now_ns_ += event.duration_ns();
        break;
      case EventKind::Sync:
        synchronize();
        break;
      default:
        break;  // of the device's allocator alone
    }
  }

  struct Block {
    std::uint64_t address = 0;
    std::set<simcuda::StreamId> streams{};  // that use it
  };

  void allocate(const Event& event) {
    const simcuda::AllocationOutcome outcome =
        device_.allocate_async(event.size_bytes, own_stream_, pool_, now_ns_);
    charge(outcome.work, event.size_bytes);
    blocks_[event.id].address = outcome.address;
    const simcuda::Outcome waited = device_.synchronize_stream(own_stream_, now_ns_);
    if (waited.status == simcuda::Status::Blocked) return synchronize();
    charge(waited.work, 0);
  }

  void free(const Block& block) {
    if (block.address == 0) return;
    const simcuda::StreamId stream = block.streams.empty() ? own_stream_ : *block.streams.begin();
    for (const simcuda::StreamId other : block.streams) {
      if (other == stream) continue;
      device_.streams().wait_position(stream, other, device_.streams().position(other), now_ns_);
    }
    charge(device_.deallocate_async(block.address, stream, now_ns_).work, 0);
  }

  // Kernels that only a wait ends have ended then.
  void synchronize() {
    device_.streams().open_gate(gate_++, now_ns_);
    charge(device_.synchronize_device(now_ns_).work, 0);
  }

  void wait_until(std::uint64_t time_ns) { now_ns_ = std::max(now_ns_, time_ns); }

  // `size_bytes`: of the request that took the chunks.
  void charge(const simcuda::Work& work, std::uint64_t size_bytes) {
    wait_until(work.host_wait_until_ns);
    const std::uint64_t returned = work.host_chunks_returned;
    const std::uint64_t took_ns =
        work.chunks_mapped * pinning_ns(simcuda::PinCall::TakeChunk, size_bytes) +
        returned * pinning_ns(simcuda::PinCall::ReturnChunk, returned * simcuda::kChunkBytes);
    use_.pin_count += work.chunks_taken > 0 ? 1 : 0;
    use_.unpin_count += work.host_chunks_returned > 0 ? 1 : 0;
    use_.pinning_ns += took_ns;
    now_ns_ += took_ns;
  }

  const PinnedProgram& program_;
  simcuda::Device device_;
  simcuda::PoolId pool_;
  simcuda::StreamId own_stream_;  // of requests, and of blocks that no stream uses
  std::vector<simcuda::StreamId> streams_{};
  std::unordered_map<std::uint64_t, Block> blocks_{};
  std::uint64_t gate_ = 1;  // of the kernels that the next wait ends
  std::uint64_t now_ns_ = 0;
  PinnedUse use_{};
};

}  // namespace

std::optional<PinnedUse> replay_pool(const PinnedProgram& program,
                                     std::uint64_t release_threshold_bytes) {
  if (program.asked_bytes_peak > kAskedBytesMax) return std::nullopt;
  return PoolPlayer(program, release_threshold_bytes).play();
}

}  // namespace allocmark

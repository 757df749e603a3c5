// See pool_program.h.
#include "harness/core/profile/pool_program.h"

#include <algorithm>
#include <utility>

#include "harness/simcuda/core/device.h"

namespace allocmark {
namespace {

// Far enough apart that every free has happened when the next step begins, as on an idle GPU.
constexpr std::uint64_t kStepNs = 10'000;

// A pool of its own on a simulated device, empty.
class SimulatedPool {
 public:
  SimulatedPool()
      : device_(simcuda::h200_config(simcuda::StartState::Plain)),
        pool_(device_.create_pool(0).pool),
        stream_(device_.create_stream(simcuda::StreamKind::NonBlocking, now_ns_).stream) {}

  // The simulated device's work for one step.
  simcuda::Work take(const SlotStep& step, std::uint64_t* address) {
    now_ns_ += kStepNs;
    if (step.is_free) return device_.deallocate_async(*address, stream_, now_ns_).work;
    const simcuda::AllocationOutcome outcome =
        device_.allocate_async(step.size_bytes, stream_, pool_, now_ns_);
    *address = outcome.address;
    return outcome.work;
  }
  [[nodiscard]] std::uint64_t free_block_count() const { return device_.free_block_count(); }

 private:
  std::uint64_t now_ns_ = 0;
  simcuda::Device device_;
  simcuda::PoolId pool_;
  simcuda::StreamId stream_;
};

}  // namespace

PoolProgram follow_pool(SlotProgram program, const std::vector<std::uint64_t>& chunks_grown) {
  PoolProgram result{.program = std::move(program), .chunks_mapped = {}};
  SimulatedPool pool;
  std::vector<std::uint64_t> addresses(result.program.slot_count);
  std::vector<std::uint64_t> free_block_counts;
  for (std::size_t i = 0; i < result.program.steps.size(); ++i) {
    const SlotStep& step = result.program.steps[i];
    free_block_counts.push_back(pool.free_block_count());
    const simcuda::Work work = pool.take(step, &addresses[step.slot]);
    const bool agrees = work.chunks_taken == chunks_grown[i];
    result.chunks_mapped.push_back(agrees ? work.chunks_mapped : chunks_grown[i]);
  }
  const auto middle = free_block_counts.begin() + free_block_counts.size() / 2;
  std::nth_element(free_block_counts.begin(), middle, free_block_counts.end());
  if (!free_block_counts.empty()) result.free_block_count = *middle;
  return result;
}

}  // namespace allocmark

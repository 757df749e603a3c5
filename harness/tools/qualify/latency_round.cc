// See latency_round.h.
#include "harness/tools/qualify/latency_round.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/bytes.h"

namespace allocmark::qualify {
namespace {

// The calls that are judged: those that take and give back memory, and those that order work.
// Reserving addresses is the host's kernel at work, not the GPU: on healthy machines it took ten
// times as long in one process as in another.
constexpr std::array<std::string_view, 17> kJudgedCalls = {
    "cuMemCreate",        "cuMemMap",        "cuMemRelease",          "cuMemSetAccess",
    "cuMemUnmap",         "cudaEventQuery",  "cudaDeviceSynchronize", "cudaEventRecord",
    "cudaFree",           "cudaFree.slab",   "cudaFreeAsync",         "cudaMalloc",
    "cudaMalloc.slab",    "cudaMallocAsync", "cudaMemGetInfo",        "cudaStreamSynchronize",
    "cudaStreamWaitEvent"};

// Which of the calls in a row it is that a slab serves makes little difference from here on.
constexpr std::uint64_t kSlabCallsMin = 8;
constexpr std::string_view kFirstSlabCalls = ", calls 1 to 7 in a row";

// So often in a round: once gives rare calls fewer samples than a median or a P90 needs.
constexpr int kRepeatCount = 2;

BlockSetup block_setup(const RoundSetup& setup, std::uint64_t round, ProfileRecording& recording) {
  return {.time = setup.time,
          .work = setup.work,
          .out = recording,
          .seed = round,
          .device_bytes = setup.device_bytes};
}

void measure_pool_and_handles(const RoundSetup& setup, const BlockSetup& block) {
  measure_small_pool(block);
  measure_handles(block, kSmallProgramBytes, setup.with_gibibytes ? UINT64_MAX : kGiB - 1);
}

}  // namespace

void warm_up(const RoundSetup& setup) {
  ProfileRecording dropped;
  const BlockSetup block = block_setup(setup, 0, dropped);
  measure_quick_calls(block);
  measure_pool_and_handles(setup, block);
}

void measure_parts(const RoundSetup& setup, std::uint64_t round, ProfileRecording& recording) {
  const BlockSetup block = block_setup(setup, round, recording);
  measure_quick_calls(block);
  measure_small_heap(block);
  if (setup.with_gibibytes) measure_large_blocks(block);
  measure_pool_and_handles(setup, block);
  for (int i = 1; i < kRepeatCount; ++i) {
    measure_quick_calls(block);
    measure_pool_and_handles(setup, block);
  }
}

void measure_round(const RoundSetup& setup, std::uint64_t round, Measured& measured) {
  ProfileRecording recording;
  measure_parts(setup, round, recording);
  for (const std::string& call : recording.costs()) {
    const bool is_judged = std::ranges::find(kJudgedCalls, call) != kJudgedCalls.end();
    const bool slab = call.ends_with(".slab");
    recording.at_lowest_level(call, [&](std::uint64_t size, std::uint64_t duration_ns) {
      const bool is_first = slab && size < kSlabCallsMin;
      const std::string name = is_first ? call + std::string(kFirstSlabCalls) : call;
      Samples& samples = is_judged && !is_first ? measured.judged : measured.reported;
      samples[{name, slab ? 0 : size}].add(static_cast<double>(duration_ns));
    });
  }
}

}  // namespace allocmark::qualify

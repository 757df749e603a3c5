// See run_test.h.
#include "harness/tools/qualify/run_test.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/simcu_api.h"

namespace allocmark::qualify {
namespace {

// An H200 clears all its memory in 0.37 s (2026-11-20).
constexpr std::chrono::seconds kClearingTime{1};

const TestEntry& find_entry(const std::string& name) {
  for (const std::span<const TestEntry> entries : {registry(), helpers()}) {
    for (const TestEntry& entry : entries) {
      if (entry.name == name) return entry;
    }
  }
  throw UsageError({.what = "there is no such test",
                    .where = "allocmark qualify",
                    .got = name,
                    .next = "use: allocmark qualify"});
}

// Why a test could not go on. Where memory ran out: how much of it there is.
std::string failure_text(const Error& error, std::uint64_t free_bytes_before) {
  std::string text = error.what();
  if (!error.text().got.starts_with("cudaErrorMemoryAllocation")) return text;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) return text;
  return fmt::format("the GPU ran out of memory: {} free, {} before the test; {}",
                     format_bytes(free_bytes), format_bytes(free_bytes_before), text);
}

}  // namespace

TestAnswer run_test(const TestSpec& spec) {
  const TestEntry& entry = find_entry(spec.test);
  const TestContext context{.spec = spec, .simulated = is_simulated(spec.device)};
  TestAnswer answer;
  std::uint64_t free_bytes_before = 0;
  try {
    if (context.simulated != simcuda_loaded()) {
      throw EnvironmentError({.what = "the wrong CUDA runtime is loaded",
                              .where = spec.device,
                              .next = "check LD_LIBRARY_PATH and LD_PRELOAD"});
    }
    if (entry.needs_context) {
      ALLOCMARK_CUDA_CHECK(cudaSetDevice(spec.gpu));
      ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
      free_bytes_before = device_free_bytes();
    } else if (context.simulated) {
      (void)cudaSetDevice(spec.gpu);  // where its rounds idle; costs nothing, makes no context
    }
    // What earlier tests freed is being cleared, which would be measured with the rest.
    if (entry.scope == Scope::GpusInTurn && !context.simulated) {
      std::this_thread::sleep_for(kClearingTime);
    }
    answer = entry.run(context);
    constexpr double kNsPerS = 1e9;
    if (context.simulated) {
      answer.virtual_s =
          static_cast<double>(SimcuApi::find().thread_clock()->modelled_ns) / kNsPerS;
    }
  } catch (const Error& error) {
    answer.failure = failure_text(error, free_bytes_before);
  }
  return answer;
}

}  // namespace allocmark::qualify

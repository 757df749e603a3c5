// Out of memory from the request itself, from a limit, and from every single call
// inside the backend. Checks; times nothing.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/error.h"
#include "tests/allocators/conformance.h"
#include "tests/allocators/owned_blocks.h"
#include "tests/support/device_probe.h"

namespace allocmark::rules {
namespace {

void expect_no_last_error() {
  const cudaError_t error = cudaGetLastError();
  expect(error == cudaSuccess,
         fmt::format("the CUDA runtime's last error is left at {} for the next launch to find",
                     cudaGetErrorName(error)));
}

void expect_refused(Backend& backend, std::uint64_t size_bytes, cudaStream_t stream) {
  const AllocateResult result = backend.allocate(size_bytes, stream);
  expect(result.status == AllocateStatus::OutOfMemory,
         fmt::format("a request of {} bytes was granted", size_bytes));
  expect(result.pointer == nullptr, "a refused request returned a pointer");
  expect_no_last_error();
}

// Everything that a backend may ask the runtime or driver for; those it does not use are not
// called, and skipped.
constexpr std::array kMemoryCalls = {
    "cudaMalloc",    "cudaMallocAsync", "cudaMallocFromPoolAsync", "cudaMemPoolCreate",
    "cudaHostAlloc", "cudaMallocHost",  "cudaHostRegister",        "cuMemAddressReserve",
    "cuMemCreate",   "cuMemMap",        "cuMemSetAccess"};
constexpr std::array kEventCalls = {"cudaEventCreateWithFlags", "cudaEventCreate",
                                    "cudaEventRecord", "cudaStreamWaitEvent",
                                    "cudaStreamCreateWithFlags"};

// A short life of a backend under one fault. Refused requests and reported errors are fair; what
// counts is what is left afterwards.
class FaultyLife {
 public:
  FaultyLife(const Subject& subject, std::span<const Stream> streams)
      : subject_(subject), streams_(streams) {}

  // False where the planned call never came, so that there is nothing more to try.
  bool run(const char* api, std::uint64_t nth) {
    const std::uint64_t before = call_count(api);
    plan_fault({.api = api, .nth = nth, .count = 1});
    const std::unique_ptr<Backend> backend = make();
    if (backend != nullptr) {
      work(*backend);
    }
    const bool fired = call_count(api) - before >= nth;
    clear_faults();
    (void)cudaGetLastError();
    if (backend != nullptr) {
      OwnedBlocks owned(*backend, Contents::Checked);
      expect(owned.allocate(kMiB, streams_[0].get()) == AllocateStatus::Ok,
             "1 MiB is refused after the failure");
      expect(owned.allocate(30 * kMiB, streams_[1].get()) == AllocateStatus::Ok,
             "30 MiB are refused after the failure");
      owned.free_all();
    }
    return fired;
  }

 private:
  std::unique_ptr<Backend> make() const {
    try {
      return subject_.make();
    } catch (const EnvironmentError&) {
      return nullptr;
    }
  }

  void allocate(Backend& backend, std::uint64_t size_bytes, cudaStream_t stream) {
    try {
      const AllocateResult result = backend.allocate(size_bytes, stream);
      if (result.status == AllocateStatus::Ok) {
        blocks_.push_back(
            {.pointer = result.pointer, .size_bytes = size_bytes, .stream = stream, .id = 0});
        ranges_.add(blocks_.back());
      }
    } catch (const EnvironmentError&) {
      // Reported; no block was handed out.
    }
  }

  void free_first(Backend& backend) {
    const OwnedBlock block = blocks_.front();
    blocks_.erase(blocks_.begin());
    ranges_.remove(block);
    try {
      backend.record_stream(block.pointer, streams_[2].get());
      backend.deallocate(block.pointer, block.size_bytes, block.stream);
    } catch (const EnvironmentError&) {
      // Reported; whether the block came back is then the backend's affair until it ends.
    }
  }

  void work(Backend& backend) {
    const std::array<std::uint64_t, 8> sizes = {512,      300 * kKiB, kMiB,      2 * kMiB,
                                                5 * kMiB, 12 * kMiB,  25 * kMiB, 64 * kMiB};
    for (int round = 0; round < 2; ++round) {
      for (const std::uint64_t size_bytes : sizes) {
        allocate(backend, size_bytes, streams_[0].get());
        allocate(backend, size_bytes + 512, streams_[1].get());
      }
      while (blocks_.size() > 3) {
        free_first(backend);
      }
      try {
        backend.trim();
      } catch (const EnvironmentError&) {
        // Reported.
      }
    }
    while (!blocks_.empty()) {
      free_first(backend);
    }
  }

  const Subject& subject_;
  std::span<const Stream> streams_;
  std::vector<OwnedBlock> blocks_;
  RangeMap ranges_;
};

void every_failure_leaks_nothing(const Subject& subject, std::span<const char* const> apis) {
  const std::array<Stream, 3> streams;
  const std::uint64_t before_bytes = used_bytes();
  for (const char* api : apis) {
    bool fired = true;
    for (std::uint64_t nth = 1; fired; ++nth) {
      try {
        fired = FaultyLife(subject, streams).run(api, nth);
      } catch (const RuleBroken& broken) {
        clear_faults();
        throw RuleBroken{fmt::format("after call {} of {} failed: {}", nth, api, broken.reason)};
      }
      const std::uint64_t after_bytes = used_bytes();
      expect(after_bytes <= before_bytes,
             fmt::format("after call {} of {} failed: {} bytes are lost", nth, api,
                         after_bytes - before_bytes));
    }
  }
}

}  // namespace

void absurd_sizes_are_refused(const Subject& subject) {
  const Stream stream;
  const auto backend = subject.make();
  for (const std::uint64_t size_bytes :
       {std::uint64_t{1} << 49, std::uint64_t{1} << 62, (std::uint64_t{1} << 63) + 1,
        UINT64_MAX - 511, UINT64_MAX}) {
    expect_refused(*backend, size_bytes, stream.get());
  }
  OwnedBlocks owned(*backend,
                    subject.capabilities.real_memory ? Contents::Checked : Contents::Unchecked);
  expect(owned.allocate(kMiB, stream.get()) == AllocateStatus::Ok, "1 MiB is refused afterwards");
  owned.free_all();
}

void failure_changes_nothing(const Subject& subject) {
  const TakenMemory taken(160 * kMiB);
  const Stream stream;
  const auto backend = subject.make();
  OwnedBlocks owned(*backend, Contents::Checked);
  for (int index = 0; index < 8; ++index) {
    expect(owned.allocate(64 * kKiB, stream.get()) == AllocateStatus::Ok,
           "64 KiB do not fit into 160 MiB");
  }
  // A cache may grow (CUDA's pools keep what they gathered in vain, up to their release threshold),
  // so what counts is what trim cannot give back.
  backend->trim();
  const std::uint64_t before_bytes = used_bytes();
  for (int attempt = 0; attempt < 20; ++attempt) {
    expect_refused(*backend, 512 * kMiB, stream.get());
  }
  backend->trim();
  expect(used_bytes() <= before_bytes + used_bytes_tolerance(),
         "refused requests hold device memory");
  owned.check_contents();
  expect(owned.allocate(kMiB, stream.get()) == AllocateStatus::Ok,
         "1 MiB is refused after a failure");
  owned.free_all();
}

void memory_limit_is_kept(const Subject& subject) {
  constexpr std::uint64_t kLimitBytes = 256 * kMiB;
  const Stream stream;
  const auto backend = subject.make(kLimitBytes);
  OwnedBlocks owned(*backend, Contents::Unchecked);
  for (int round = 0; round < 3; ++round) {
    while (owned.allocate(8 * kMiB, stream.get()) == AllocateStatus::Ok) {
      expect(owned.live_bytes() <= kLimitBytes,
             fmt::format("{} bytes live under a limit of {}", owned.live_bytes(), kLimitBytes));
    }
    expect_no_last_error();
    expect(owned.live_bytes() >= kLimitBytes / 2, "less than half of the limit can be used");
    owned.free_all();
  }
}

void inner_memory_failure_leaks_nothing(const Subject& subject) {
  every_failure_leaks_nothing(subject, kMemoryCalls);
}

void inner_event_failure_leaks_nothing(const Subject& subject) {
  every_failure_leaks_nothing(subject, kEventCalls);
}

}  // namespace allocmark::rules

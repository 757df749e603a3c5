// One side of the check (simcheck.h).
#include "harness/tools/simcheck/simcheck.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "allocators/backend/backend.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/tools/simcheck/driver_calls.h"

namespace allocmark::simcheck {
namespace {

struct Block {
  void* pointer = nullptr;
  std::uint64_t size_bytes = 0;
  std::uint32_t stream = 0;
};

std::uint64_t used_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return total_bytes - free_bytes;
}

// One job on one instance of its backend.
class Run {
 public:
  Run(const Job& job, DeviceWork& work, std::vector<std::uint64_t>& areas)
      : work_(work), areas_(areas), streams_(job.program.stream_count, /*has_device=*/true) {
    if (job.program.capacity_bytes != 0) ballast_.emplace(job.program.capacity_bytes);
    used_bytes_before_ = used_bytes();
    if (job.setting.allocator == kDriverAllocator) {
      driver_ = make_driver_calls(job.setting.conf);
    } else {
      backend_ = find_backend(job.setting.allocator).make({.conf = job.setting.conf});
    }
  }

  std::string answer(const Event& event) {
    const cudaStream_t stream = streams_.all()[event.stream];
    std::string text = "-";
    if (event.kind == EventKind::Alloc) {
      text = allocate(event, stream);
    } else if (event.kind == EventKind::Free) {
      text += deallocate(event.id);
    } else if (event.kind == EventKind::Record) {
      const auto found = live_.find(event.id);
      if (found != live_.end() && backend_) backend_->record_stream(found->second.pointer, stream);
    } else if (event.kind == EventKind::Trim) {
      text += trim();
    } else if (event.kind == EventKind::Sync) {
      work_.synchronize();
    } else if (event.kind == EventKind::Kernel) {
      work_.launch(stream, event.duration_ns());
    } else if (event.kind == EventKind::Host) {
      work_.spend_host(event.duration_ns());
    } else if (event.kind == EventKind::Busy) {
      work_.launch_gated(stream);
    }
    work_.note_progress();
    const std::uint64_t used = used_bytes();
    const std::uint64_t held = used > used_bytes_before_ ? used - used_bytes_before_ : 0;
    return fmt::format("{} {}\n", text, held);
  }

  void end() {
    work_.synchronize();
    while (!live_.empty()) (void)deallocate(live_.begin()->first);
    work_.synchronize();  // or a pool keeps what was freed, for the next program
    if (driver_ != nullptr) (void)driver_->trim();
    driver_.reset();
    backend_.reset();
  }

 private:
  std::string allocate(const Event& event, cudaStream_t stream) {
    const std::optional<std::uint64_t> address = address_of(event.size_bytes, stream);
    if (!address) return "oom";
    live_[event.id] = {.pointer = reinterpret_cast<void*>(*address),
                       .size_bytes = event.size_bytes,
                       .stream = event.stream};
    if (*address == 0) return "null";
    return place_of(*address) +
           (driver_ == nullptr ? "" : driver_->questions(*address, event.size_bytes));
  }

  // How far the areas of addresses lie apart is chance: large reservations lie among the host's.
  std::string place_of(std::uint64_t address) {
    constexpr std::uint64_t kAreaBytes = std::uint64_t{1} << 40;
    const auto distance = [&](std::uint64_t first) {
      return address < first ? first - address : address - first;
    };
    std::size_t area = 0;
    while (area < areas_.size() && distance(areas_[area]) >= kAreaBytes) ++area;
    if (area == areas_.size()) areas_.push_back(address);
    return fmt::format("{}{}{:#x}", area == 0 ? "" : fmt::format("area {} ", area),
                       address < areas_[area] ? "-" : "+", distance(areas_[area]));
  }

  // Nothing where memory is out.
  std::optional<std::uint64_t> address_of(std::uint64_t size_bytes, cudaStream_t stream) {
    if (driver_ != nullptr) return driver_->allocate(size_bytes, stream);
    const AllocateResult result = backend_->allocate(size_bytes, stream);
    if (result.status != AllocateStatus::Ok) return std::nullopt;
    return reinterpret_cast<std::uintptr_t>(result.pointer);
  }

  // What the driver says to it.
  std::string deallocate(std::uint64_t id) {
    const auto found = live_.find(id);
    if (found == live_.end()) return "";
    const Block block = found->second;
    live_.erase(found);
    const cudaStream_t stream = streams_.all()[block.stream];
    if (driver_ != nullptr) {
      return driver_->deallocate(reinterpret_cast<std::uintptr_t>(block.pointer), stream);
    }
    backend_->deallocate(block.pointer, block.size_bytes, stream);
    return "";
  }

  std::string trim() {
    if (driver_ != nullptr) return driver_->trim();
    backend_->trim();
    return "";
  }

  DeviceWork& work_;
  std::vector<std::uint64_t>& areas_;  // the first address of each
  StreamSet streams_;
  std::optional<Ballast> ballast_;
  std::uint64_t used_bytes_before_ = 0;
  std::unique_ptr<DriverCalls> driver_;  // or else:
  std::unique_ptr<Backend> backend_;
  std::map<std::uint64_t, Block> live_;
};

}  // namespace

void run_jobs(const std::vector<Job>& jobs, const std::function<void(const std::string&)>& sink) {
  ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
  const std::unique_ptr<DeviceWork> work = make_device_work(SimcuApi::find());
  std::vector<std::uint64_t> areas;
  for (const Job& job : jobs) {
    std::string lines;
    // What one job breaks is its own answer; the next one goes on.
    try {
      Run run(job, *work, areas);
      for (const Event& event : job.program.events) {
        lines += run.answer(event);
        if (lines.size() > 4096) {
          sink(lines);
          lines.clear();
        }
      }
      run.end();
    } catch (const Error& error) {
      std::string reason = error.what();
      std::ranges::replace(reason, '\n', ' ');
      lines += "! " + reason + "\n";
    }
    sink(lines + ".\n");
  }
}

}  // namespace allocmark::simcheck

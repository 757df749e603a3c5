#include "harness/core/replay/process_backends.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"

namespace allocmark {
namespace {

// Nothing where one of them cannot tell.
void add(std::optional<std::uint64_t>* sum, const std::optional<std::uint64_t>& value) {
  if (*sum && value) {
    **sum += *value;
  } else {
    sum->reset();
  }
}

void add_totals(MemoryStats* sum, const MemoryStats& other) {
  add(&sum->allocated_bytes, other.allocated_bytes);
  add(&sum->active_bytes, other.active_bytes);
  add(&sum->reserved_bytes, other.reserved_bytes);
  add(&sum->device_allocate_count, other.device_allocate_count);
  add(&sum->device_free_count, other.device_free_count);
  add(&sum->retry_count, other.retry_count);
  add(&sum->synchronize_all_count, other.synchronize_all_count);
}

}  // namespace

bool uses_driver_pools(std::string_view allocator, std::string_view conf) {
  return allocator == "async" || conf.find("async") != std::string_view::npos ||
         conf.find("cudaMallocAsync") != std::string_view::npos;
}

std::string processes_refusal(std::string_view allocator, std::string_view conf) {
  constexpr std::string_view kInstances =
      "the processes of this workload are instances in one process";
  if (family_of(allocator) == "torch" || allocator == "pluggable") {
    return fmt::format("{}, and {} has one state for all", kInstances, allocator);
  }
  if (allocator == "planned") {
    return fmt::format("{}, and a mark does not say whose step begins", kInstances);
  }
  if (uses_driver_pools(allocator, conf)) {
    return fmt::format("{}, where the driver's pools give each other memory when it is short",
                       kInstances);
  }
  return {};
}

ProcessBackends::ProcessBackends(const BackendEntry& entry, const BackendOptions& options,
                                 std::span<const TraceJob> jobs,
                                 std::span<const cudaStream_t> streams, Remedy remedy)
    : remedy_(std::move(remedy)) {
  ALLOCMARK_ASSERT(!jobs.empty());
  ALLOCMARK_ASSERT(jobs.front().first_stream == 0);
  for (const TraceJob& job : jobs) {
    BackendOptions own = options;
    const std::size_t index = processes_.size();
    if (index < remedy_.limits_bytes.size() && remedy_.limits_bytes[index] > 0) {
      own.memory_limit_bytes = remedy_.limits_bytes[index];
    }
    processes_.push_back({.workload = job.workload, .backend = entry.make(own)});
  }
  std::size_t process = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (process + 1 < jobs.size() && jobs[process + 1].first_stream == i) ++process;
    owners_.push_back({.stream = streams[i], .process = process});
  }
}

std::size_t ProcessBackends::owner_of(cudaStream_t stream) const {
  if (owners_[last_owner_].stream != stream) {
    const auto found = std::ranges::find(owners_, stream, &StreamOwner::stream);
    ALLOCMARK_ASSERT(found != owners_.end());
    last_owner_ = static_cast<std::size_t>(std::distance(owners_.begin(), found));
  }
  return owners_[last_owner_].process;
}

AllocateResult ProcessBackends::allocate(std::uint64_t size_bytes, cudaStream_t stream) {
  Process& process = processes_[owner_of(stream)];
  ++process.request_count;
  AllocateResult result = process.backend->allocate(size_bytes, stream);
  if (result.status == AllocateStatus::OutOfMemory && remedy_.others_give_back) [[unlikely]] {
    for (Process& other : processes_) {
      if (&other != &process) other.backend->trim();
    }
    result = process.backend->allocate(size_bytes, stream);
  }
  if (result.status == AllocateStatus::OutOfMemory) [[unlikely]] {
    if (!process.cached_bytes_at_oom) note_caches();
    ++process.oom_count;
    last_failure_text_ = process.backend->last_failure_text();
  }
  return result;
}

// At the first failure of all; a look at all totals.
void ProcessBackends::note_caches() {
  for (Process& process : processes_) {
    const MemoryStats stats = process.backend->totals();
    const std::uint64_t reserved_bytes = stats.reserved_bytes.value_or(0);
    process.cached_bytes_at_oom =
        reserved_bytes - std::min(reserved_bytes, stats.active_bytes.value_or(reserved_bytes));
  }
}

MemoryStats ProcessBackends::own_stats(cudaStream_t stream) const {
  return processes_[owner_of(stream)].backend->stats(stream);
}

void ProcessBackends::deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) {
  processes_[owner_of(stream)].backend->deallocate(pointer, size_bytes, stream);
}

void ProcessBackends::record_stream(void* pointer, cudaStream_t stream) {
  processes_[owner_of(stream)].backend->record_stream(pointer, stream);
}

void ProcessBackends::call_pool(const PoolCall& call) {
  PoolCall own = call;
  own.pool = call.pool / processes_.size();
  processes_[call.pool % processes_.size()].backend->call_pool(own);
}

void ProcessBackends::trim() {
  for (Process& process : processes_) process.backend->trim();
}

void ProcessBackends::trim(std::uint32_t stream_index) {
  processes_[owners_[stream_index].process].backend->trim();
}

// What is largest in one piece stays that of the process that asks.
MemoryStats ProcessBackends::stats(cudaStream_t stream) const {
  const std::size_t asked = owner_of(stream);
  MemoryStats sum = noted(processes_[asked], processes_[asked].backend->stats(stream));
  sum.free_other_processes_bytes = 0;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (i == asked) continue;
    const MemoryStats other = noted(processes_[i], processes_[i].backend->totals());
    add_totals(&sum, other);
    std::optional<std::uint64_t> kept_bytes;
    if (other.reserved_bytes && other.active_bytes &&
        *other.reserved_bytes >= *other.active_bytes) {
      kept_bytes = *other.reserved_bytes - *other.active_bytes;
    }
    add(&sum.free_other_processes_bytes, kept_bytes);
  }
  return sum;
}

MemoryStats ProcessBackends::totals() const {
  MemoryStats sum = noted(processes_.front(), processes_.front().backend->totals());
  for (std::size_t i = 1; i < processes_.size(); ++i) {
    add_totals(&sum, noted(processes_[i], processes_[i].backend->totals()));
  }
  return sum;
}

MemoryStats ProcessBackends::noted(Process& process, const MemoryStats& stats) {
  process.reserved_bytes_peak =
      std::max(process.reserved_bytes_peak, stats.reserved_bytes.value_or(0));
  return stats;
}

std::vector<NamedCounter> ProcessBackends::counters() const {
  std::vector<NamedCounter> counters;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const auto add_counter = [&](std::string_view name, std::uint64_t value) {
      counters.push_back({.name = fmt::format("process{}.{}", i, name),
                          .value = static_cast<std::int64_t>(value)});
    };
    add_counter("requests", processes_[i].request_count);
    add_counter("out_of_memory", processes_[i].oom_count);
    add_counter("reserved_bytes_peak", processes_[i].reserved_bytes_peak);
    if (processes_[i].cached_bytes_at_oom) {
      add_counter("cached_bytes_at_oom", *processes_[i].cached_bytes_at_oom);
    }
  }
  return counters;
}

std::string ProcessBackends::warning() const {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].backend == nullptr) continue;
    const std::string warning = processes_[i].backend->warning();
    if (!warning.empty()) return fmt::format("process {}: {}", i, warning);
  }
  return {};
}

std::vector<MemorySegment> ProcessBackends::segments() const {
  std::vector<MemorySegment> segments;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    for (MemorySegment& segment : processes_[i].backend->segments()) {
      if (segment.pool != 0) segment.pool = segment.pool * processes_.size() + i;
      segments.push_back(std::move(segment));
    }
  }
  std::ranges::sort(segments, {}, &MemorySegment::address);
  return segments;
}

std::string ProcessBackends::failures() const {
  std::string text;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const Process& process = processes_[i];
    if (process.oom_count == 0) continue;
    text += fmt::format("{}process {} ({}): {} of {} requests", text.empty() ? "" : "; ", i,
                        process.workload, process.oom_count, process.request_count);
  }
  return text;
}

}  // namespace allocmark

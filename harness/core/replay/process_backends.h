// Several processes on one device: an allocator instance for each, behind the one interface that
// the replayer knows. Calls go to the instance of the process whose stream they name; what any of
// them takes from the device is gone for the others. Device memory, what each process reserves and
// who runs out of memory are those of real processes; that drivers of real processes wait for each
// other and that each has a context of its own is not modelled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/backend/backend.h"
#include "workloads/trace/source.h"

namespace allocmark {

// Whether the setting's requests go to the driver's stream-ordered pools: "async", RMM's cuda_async
// and PyTorch's backend:cudaMallocAsync.
[[nodiscard]] bool uses_driver_pools(std::string_view allocator, std::string_view conf);

// Why instances of this allocator cannot stand for several processes; empty where they can.
[[nodiscard]] std::string processes_refusal(std::string_view allocator, std::string_view conf);

class ProcessBackends final : public Backend {
 public:
  // What is tried against another process's cache.
  struct Remedy {
    bool others_give_back = false;  // where a request fails, the others' empty_cache, and once more
    // By process, instead of the options'; 0: the options'. Empty: no other limits.
    std::vector<std::uint64_t> limits_bytes = {};
  };

  // `streams` by dense index; process i has those from jobs[i].first_stream on.
  ProcessBackends(const BackendEntry& entry, const BackendOptions& options,
                  std::span<const TraceJob> jobs, std::span<const cudaStream_t> streams)
      : ProcessBackends(entry, options, jobs, streams, Remedy{}) {}
  ProcessBackends(const BackendEntry& entry, const BackendOptions& options,
                  std::span<const TraceJob> jobs, std::span<const cudaStream_t> streams,
                  Remedy remedy);

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;
  void record_stream(void* pointer, cudaStream_t stream) override;
  // Of process number pool % process_count(), as composition.cc numbers pools.
  void call_pool(const PoolCall& call) override;
  // Of all processes.
  void trim() override;
  // Of the process that has the stream.
  void trim(std::uint32_t stream_index);

  // Sums over the processes. What the others cache is in free_other_processes_bytes; the limit and
  // the other free_* fields are those of the process that has the stream.
  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override;
  [[nodiscard]] MemoryStats totals() const override;
  // The index of the process that has the stream, and its stats alone.
  [[nodiscard]] std::size_t process_of(cudaStream_t stream) const { return owner_of(stream); }
  [[nodiscard]] MemoryStats own_stats(cudaStream_t stream) const;
  [[nodiscard]] std::size_t process_count() const { return processes_.size(); }
  // What process i had cached when any process first ran out of memory; nothing where none did.
  [[nodiscard]] std::optional<std::uint64_t> cached_bytes_at_oom(std::size_t process) const {
    return processes_[process].cached_bytes_at_oom;
  }

  // For each process i: "process<i>.requests", ".out_of_memory", ".reserved_bytes_peak" (as far as
  // stats() or totals() was asked), and where one ran out of memory ".cached_bytes_at_oom".
  [[nodiscard]] std::vector<NamedCounter> counters() const override;
  [[nodiscard]] std::vector<MemorySegment> segments() const override;
  [[nodiscard]] std::string last_failure_text() const override { return last_failure_text_; }
  // Of the first process that has one.
  [[nodiscard]] std::string warning() const override;

  // "process 1 (churn): 3 of 200 requests" for each that ran out of memory, joined; empty where
  // none did.
  [[nodiscard]] std::string failures() const;

 private:
  struct Process {
    std::string workload;
    std::unique_ptr<Backend> backend;
    std::uint64_t request_count = 0;
    std::uint64_t oom_count = 0;
    std::uint64_t reserved_bytes_peak = 0;
    std::optional<std::uint64_t> cached_bytes_at_oom = std::nullopt;
  };
  struct StreamOwner {
    cudaStream_t stream = nullptr;
    std::size_t process = 0;
  };
  void note_caches();
  // The same, with the process's peak noted.
  [[nodiscard]] static MemoryStats noted(Process& process, const MemoryStats& stats);
  // By handle; processes take turns, so it is mostly that of the call before.
  [[nodiscard]] std::size_t owner_of(cudaStream_t stream) const;

  mutable std::vector<Process> processes_;  // the peaks are noted by who asks
  std::vector<StreamOwner> owners_;         // by dense stream index
  mutable std::size_t last_owner_ = 0;      // index into owners_
  std::string last_failure_text_;
  Remedy remedy_;
};

}  // namespace allocmark

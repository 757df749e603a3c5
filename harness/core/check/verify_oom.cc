// What the checked pass notes of a request that failed: its cause, and of the first one who held
// the memory.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/check/oom_cause.h"
#include "harness/core/check/verify.h"

namespace allocmark {
namespace {

// The lower of two limits, where there are any.
std::optional<std::uint64_t> lower(std::optional<std::uint64_t> a, std::optional<std::uint64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace

OomSituation Verifier::situation_of(const Event& event, const MemoryStats& stats,
                                    std::uint64_t waiting_bytes_before) const {
  const cudaStream_t stream = setup_.replay.streams[event.stream];
  const std::optional<SimcuSharedHost> host = setup_.simcu.host();
  OomSituation situation{
      .capacity_bytes = setup_.capacity_bytes,
      .request_bytes = event.size_bytes,
      .requested_bytes_live = requested_bytes_live_,
      .allocated_bytes = stats.allocated_bytes,
      .device_extra_bytes = device_extra_bytes(stats),
      .active_bytes = stats.active_bytes,
      .free_other_streams_bytes = stats.free_other_streams_bytes,
      .waiting_bytes_before = waiting_bytes_before,
      .free_largest_bytes = stats.free_largest_bytes,
      // With one stream only private pools keep memory from a request.
      .single_stream =
          setup_.facts.stream_count == 1 && stats.free_other_streams_bytes.value_or(0) == 0,
      .limit_bytes = lower(setup_.limit_bytes, stats.limit_bytes),
      .asked_driver = setup_.capabilities.real_memory ? calls_.asked_for_memory() : std::nullopt,
      .host_is_lost = host && host->lost != 0};
  const ProcessBackends* processes = setup_.replay.processes;
  if (processes == nullptr) return situation;
  const MemoryStats own = processes->own_stats(stream);
  situation.own = OomSituation::Own{
      .requested_bytes_live = live_bytes_of_process(processes->process_of(stream)),
      .allocated_bytes = own.allocated_bytes,
      .active_bytes = own.active_bytes,
      .free_other_processes_bytes = stats.free_other_processes_bytes.value_or(0)};
  return situation;
}

// Looked for at a failure only.
std::uint64_t Verifier::live_bytes_of_process(std::size_t process) const {
  std::uint64_t live_bytes = 0;
  for (const Block& block : blocks_) {
    const bool counts = block.live && !block.failed_before;
    if (!counts) continue;
    const cudaStream_t stream = setup_.replay.streams[block.shadow.stream];
    if (setup_.replay.processes->process_of(stream) == process) {
      live_bytes += block.shadow.size_bytes;
    }
  }
  return live_bytes;
}

void Verifier::note_oom(const Event& event, std::uint64_t waiting_bytes_before) {
  ++report_.counts.oom_count;
  report_.counts.stopped = setup_.replay.on_oom == OomPolicy::Stop;
  if (!collects()) return;
  if (setup_.timeline != nullptr) setup_.timeline->add_oom(report_.counts.event_count);
  const MemoryStats stats = setup_.replay.backend->stats(setup_.replay.streams[event.stream]);
  const OomSituation situation = situation_of(event, stats, waiting_bytes_before);
  const OomCause cause = oom_cause(situation);
  ++report_.oom_cause_counts[static_cast<std::size_t>(cause)];
  if (report_.oom_first) return;
  OomEvent first;
  first.event_index = report_.counts.event_count;
  first.id = event.id;
  first.size_bytes = event.size_bytes;
  first.stream = event.stream;
  first.cause = cause;
  first.free_largest_bytes = stats.free_largest_bytes;
  // What is reserved and neither handed out nor waiting is cached.
  if (stats.reserved_bytes && stats.active_bytes && *stats.reserved_bytes >= *stats.active_bytes) {
    first.free_bytes = *stats.reserved_bytes - *stats.active_bytes;
  }
  first.live_bytes = requested_bytes_live_;
  first.device_left_bytes = setup_.capacity_bytes;
  first.limit_bytes = situation.limit_bytes;
  first.free_by_stream = free_by_stream();
  first.free_other_processes_bytes = stats.free_other_processes_bytes;
  report_.oom_first = std::move(first);
}

// Cached blocks by the trace's streams. Private pools and streams of the backend's own are left
// out.
std::vector<std::pair<std::string, std::int64_t>> Verifier::free_by_stream() const {
  std::vector<std::int64_t> free_bytes(setup_.replay.streams.size(), 0);
  for (const MemorySegment& segment : setup_.replay.backend->segments()) {
    const auto stream = std::ranges::find_if(setup_.replay.streams, [&](const cudaStream_t one) {
      return reinterpret_cast<std::uintptr_t>(one) == segment.stream;
    });
    if (stream == setup_.replay.streams.end()) continue;
    for (const MemoryBlock& block : segment.blocks) {
      if (block.state != MemoryBlockState::Free) continue;
      free_bytes[static_cast<std::size_t>(stream - setup_.replay.streams.begin())] +=
          static_cast<std::int64_t>(block.size_bytes);
    }
  }
  std::vector<std::pair<std::string, std::int64_t>> named;
  for (std::size_t i = 0; i < free_bytes.size(); ++i) {
    if (free_bytes[i] > 0) named.emplace_back("stream" + std::to_string(i), free_bytes[i]);
  }
  return named;
}

}  // namespace allocmark

#include "harness/tools/simcheck/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/bytes.h"
#include "base/random.h"
#include "harness/core/replay/kernel_source.h"
#include "workloads/trace/source.h"
#include "workloads/trace/trace_row.h"

namespace allocmark::simcheck {
namespace {

constexpr std::uint64_t kChunkBytes = 32 * kMiB;
// Little memory left: so much more than the program's peak.
constexpr double kFullFactors[] = {1.02, 1.05, 0.95};

// From 512 bytes to a tenth of a GiB, each magnitude equally often; one in six a whole chunk of a
// pool.
std::uint64_t random_size(Random& random) {
  if (random.below(6) == 0) return kChunkBytes * (1 + random.below(3));
  const double share = static_cast<double>(random.below(1'000'000)) / 1e6;
  return static_cast<std::uint64_t>(512 * std::exp2(share * 17.6));
}

// `live`: ids of the blocks that the program holds.
Event random_event(Random& random, std::vector<std::uint64_t>& live, std::uint64_t id,
                   std::uint32_t stream_count) {
  const auto stream = static_cast<std::uint32_t>(random.below(stream_count));
  const std::uint64_t kind = random.below(1000);
  if (kind < 4) return {.kind = EventKind::Sync};
  if (kind < 6) return {.kind = EventKind::Trim};
  if (kind < 40 && stream_count > 1 && !live.empty()) {
    return {.id = live[random.below(live.size())], .stream = stream, .kind = EventKind::Record};
  }
  if (live.size() < 24 ? random.below(100) < 60 : random.below(100) < 44) {
    live.push_back(id);
    return {
        .id = id, .size_bytes = random_size(random), .stream = stream, .kind = EventKind::Alloc};
  }
  if (live.empty()) return {.kind = EventKind::Sync};
  std::swap(live[random.below(live.size())], live.back());
  const std::uint64_t freed = live.back();
  live.pop_back();
  return {.id = freed, .kind = EventKind::Free};
}

void leave_little(Program& program, double factor) {
  const double bytes = static_cast<double>(peak_bytes(program.events)) * factor;
  program.capacity_bytes =
      static_cast<std::uint64_t>(bytes) / kChunkBytes * kChunkBytes + kChunkBytes + kChunkBytes / 2;
}

}  // namespace

Program random_program(std::uint64_t seed, std::uint64_t event_count) {
  Random random(seed);
  Program program{.name = fmt::format("seed {}", seed), .stream_count = seed % 2 == 0 ? 3U : 1U};
  std::vector<std::uint64_t> live;
  for (std::uint64_t i = 0; i < event_count; ++i) {
    program.events.push_back(random_event(random, live, i + 1, program.stream_count));
  }
  if (seed / 2 % 2 == 0) leave_little(program, kFullFactors[random.below(std::size(kFullFactors))]);
  return program;
}

Program read_program(const std::string& workload, std::uint64_t event_count_max, bool full) {
  const std::unique_ptr<EventSource> source = open_workload_with_kernels(workload, 1);
  Program program{.name = workload};
  for (std::span<const Event> batch = source->next();
       !batch.empty() && program.events.size() < event_count_max; batch = source->next()) {
    program.events.insert(program.events.end(), batch.begin(), batch.end());
  }
  program.events.resize(std::min<std::size_t>(program.events.size(), event_count_max));
  for (const Event& event : program.events) {
    program.stream_count = std::max(program.stream_count, event.stream + 1);
  }
  if (full) leave_little(program, kFullFactors[0]);
  return program;
}

std::uint64_t peak_bytes(const std::vector<Event>& events) {
  std::unordered_map<std::uint64_t, std::uint64_t> live;
  std::uint64_t bytes = 0;
  std::uint64_t peak = 0;
  for (const Event& event : events) {
    if (event.kind == EventKind::Alloc) {
      live[event.id] = event.size_bytes;
      bytes += event.size_bytes;
      peak = std::max(peak, bytes);
    } else if (event.kind == EventKind::Free) {
      const auto found = live.find(event.id);
      if (found == live.end()) continue;
      bytes -= found->second;
      live.erase(found);
    }
  }
  return peak;
}

std::vector<Event> without_strangers(const std::vector<Event>& events) {
  std::vector<Event> kept;
  std::unordered_set<std::uint64_t> live;
  for (const Event& event : events) {
    const bool of_block = event.kind == EventKind::Free || event.kind == EventKind::Record;
    if (of_block && !live.contains(event.id)) continue;
    if (event.kind == EventKind::Alloc) live.insert(event.id);
    if (event.kind == EventKind::Free) live.erase(event.id);
    kept.push_back(event);
  }
  return kept;
}

std::string to_row(const Event& event) {
  std::string row;
  append_trace_row(event, "step", /*tagged=*/false, &row);
  row.pop_back();
  return row;
}

std::string to_trace(const Program& program) {
  std::string text = fmt::format("{}\n", kTraceColumns);
  for (const Event& event : program.events) {
    append_trace_row(event, "step", /*tagged=*/false, &text);
  }
  return text;
}

}  // namespace allocmark::simcheck

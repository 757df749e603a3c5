// Makes, writes and reads programs; see program.h.
#include "harness/tools/parity/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "allocators/caching/config.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/random.h"
#include "harness/tools/parity/pool_steps.h"
#include "workloads/trace/event_names.h"
#include "workloads/trace/trace_row.h"

namespace allocmark::caching {
namespace {

// Segment sizes are even, because they outlive a change of config and expandable segments need
// that.
constexpr std::array kConfs = {
    "",
    "max_split_size_mb:20",
    "max_split_size_mb:32,max_non_split_rounding_mb:40",
    "garbage_collection_threshold:0.5",
    "max_split_size_mb:24,garbage_collection_threshold:0.3",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[1:2,4:8,>:16],max_split_size_mb:64",
    "expandable_segments:True",
    "expandable_segments:True,garbage_collection_threshold:0.4",
    "expandable_segments:True,max_split_size_mb:24",
    "large_segment_size_mb:34,max_split_size_mb:40",
    "large_segment_size_mb:48,expandable_segments:True,roundup_power2_divisions:8",
    "expandable_segments:True,large_segment_size_mb:12,max_split_size_mb:16,garbage_collection_"
    "threshold:0.7"};

// Keys that the algorithm does not know, or that matter only when the program starts.
constexpr const char* kAsyncBackend = "backend:cudaMallocAsync";
constexpr std::array kFurtherConfs = {
    kAsyncBackend,
    "release_lock_on_cudamalloc:True,max_split_size_mb:40",
    "per_process_memory_fraction:0.6",
    "per_process_memory_fraction:0.5,garbage_collection_threshold:0.6,expandable_segments:True",
    "roundup_power2_divisions:[>:4],backend:native",
    "graph_capture_record_stream_reuse:True,pinned_use_background_threads:True",
    "pinned_use_cuda_host_register:True,pinned_num_register_threads:4,pinned_reserve_segment_size_"
    "mb:2",
    "max_split_size_mb:17592186044415,max_non_split_rounding_mb:64"};

// With keys that came after 2.11.
constexpr std::array kNewerConfs = {
    "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True",
    "throw_on_cudamalloc_oom:True,expandable_segments:True",
    "pinned_free_catch_all:True,max_split_size_mb:24",
    "pinned_max_round_threshold_mb:4,pinned_max_cached_size_mb:64,roundup_power2_divisions:4",
    "expandable_segments:True,expandable_segments_reserve:0.02",
    "expandable_segments_reserve:1G,expandable_segments:True,max_split_size_mb:32",
    "expandable_segments:True,expandable_segments_reserve:nonsense",
    "expandable_segments_reserve_by_class:[a:0.5,b:40G],expandable_segments:True"};

std::uint64_t random_size(Random& random) {
  switch (random.below(8)) {
    case 0:
      return random.between(1, 600);
    case 1:
    case 2:
      return random.between(1, kMiB);
    case 3:
      return 512 * random.between(1, 16);
    case 4:
      return random.between(kMiB, 10 * kMiB);
    case 5:
      return kMiB * random.between(1, 24);
    case 6:
      return std::uint64_t{1} << random.between(9, 25);
    default:
      return random.between(8 * kMiB, 70 * kMiB);
  }
}

// What a program's config strings are taken from.
struct Confs {
  ProgramVariety variety;
  const Rules& rules;

  // The backend `torch` starts with strictly read strings only.
  [[nodiscard]] std::string at_start(Random& random) const {
    while (true) {
      std::string conf = draw(random);
      if (!parse_strict(conf, rules).error) return conf;
    }
  }

  // What PyTorch takes. The backend is chosen once per process.
  [[nodiscard]] std::string at_run_time(Random& random) const {
    while (true) {
      std::string conf = draw(random);
      if (!conf.starts_with(kAsyncBackend) && parse_pytorch(conf, rules).accepted()) return conf;
    }
  }

 private:
  [[nodiscard]] std::string draw(Random& random) const {
    const bool further = variety == ProgramVariety::AllConfs && random.below(4) == 0;
    if (!further) return kConfs[random.below(kConfs.size())];
    // Releases up to the one that goldens were recorded with keep their programs.
    const std::size_t count =
        kFurtherConfs.size() + (rules.minor > kRecordedMinor ? kNewerConfs.size() : 0);
    const std::size_t at = random.below(count);
    return at < kFurtherConfs.size() ? kFurtherConfs[at] : kNewerConfs[at - kFurtherConfs.size()];
  }
};

std::string with(std::string_view text, char from, char to) {
  std::string changed(text);
  std::ranges::replace(changed, from, to);
  return changed;
}

[[noreturn]] void throw_bad_row(std::uint64_t line, ErrorText broken) {
  broken.where = fmt::format("line {}", line);
  if (broken.next.empty()) broken.next = "see workloads/TRACES.md for the trace format";
  throw UsageError(std::move(broken));
}

std::uint64_t bytes_of(std::string_view text, std::uint64_t line) {
  if (const auto value = number_in_text<std::uint64_t>(text)) return *value;
  throw_bad_row(line, {.what = "a number cannot be read",
                       .wanted = "bytes, as decimal digits",
                       .got = std::string(text)});
}

// What a mark asks for: a program's release, configuration, capacity or limit, else nothing.
void read_mark(std::string_view text, std::uint64_t line, Program& program, bool& configured) {
  const std::size_t blank = text.find(' ');
  const std::string_view label = text.substr(0, blank);
  const std::string_view value = blank == std::string_view::npos ? "" : text.substr(blank + 1);
  if (label == "capacity") {
    program.capacity_bytes = bytes_of(value, line);
  } else if (label == "pytorch") {
    program.rules = &require_rules(value, fmt::format("line {}", line));
  } else if (label == "limit") {
    program.change({.conf = {}, .limit_bytes = bytes_of(value, line)});
  } else if (label == "conf" && configured) {
    program.change({.conf = with(value, ' ', ','), .limit_bytes = {}});
  } else if (label == "conf") {
    program.conf = with(value, ' ', ',');
    configured = true;
  }
}

}  // namespace

Program make_program(std::uint64_t seed, std::size_t step_count, ProgramVariety variety,
                     const Rules& rules) {
  const Confs confs{variety, rules};
  Random random(seed);
  Program program{.rules = &rules, .conf = confs.at_start(random)};
  program.capacity_bytes = random.between(100, 640) * kMiB;
  const auto streams = static_cast<std::uint32_t>(random.between(1, 3));
  // Mostly small heaps, which reach more different states; now and then one that fills several
  // chunks of a set.
  const std::uint64_t live_max =
      random.below(16) == 0 ? random.between(200, 600) : random.between(4, 60);
  const bool reconfigures = random.below(4) == 0 && !program.conf.starts_with(kAsyncBackend);
  std::vector<std::uint64_t> live;
  std::uint64_t id = 0;
  if (random.below(2) == 0) {
    program.change({.conf = {}, .limit_bytes = random.between(60, 400) * kMiB});
  }
  const bool has_pools = variety == ProgramVariety::AllConfs && seed % 2 == 1 &&
                         !program.conf.starts_with(kAsyncBackend);
  PoolSteps pools(seed, rules, streams);
  while (program.events.size() < step_count) {
    if (has_pools) pools.add(program.events);
    const std::uint64_t kind = random.below(1000);
    const auto stream = static_cast<std::uint32_t>(random.below(streams));
    if (kind < 3) {
      program.events.push_back({.kind = EventKind::Trim});
    } else if (kind < 10) {
      program.events.push_back({.stream = stream, .kind = EventKind::Busy});
    } else if (kind < 20) {
      program.events.push_back({.kind = EventKind::Sync});
    } else if (kind < 22 && reconfigures) {
      program.change({.conf = confs.at_run_time(random), .limit_bytes = {}});
    } else if (kind < 24 && reconfigures) {
      const std::uint64_t limit = random.below(3) == 0 ? 0 : random.between(60, 400) * kMiB;
      program.change({.conf = {}, .limit_bytes = limit});
    } else if (kind < 80 && !live.empty()) {
      program.events.push_back(
          {.id = live[random.below(live.size())], .stream = stream, .kind = EventKind::Record});
      pools.note_record(program.events.back().id);
    } else if (live.size() < live_max && (live.empty() || random.below(100) < 55)) {
      program.events.push_back({.id = ++id,
                                .size_bytes = random_size(random),
                                .stream = stream,
                                .kind = EventKind::Alloc});
      live.push_back(id);
    } else {
      std::swap(live[random.below(live.size())], live.back());
      if (!pools.may_free(live.back())) {
        program.events.push_back({.kind = EventKind::Sync});
        continue;
      }
      program.events.push_back({.id = live.back(), .kind = EventKind::Free});
      live.pop_back();
    }
  }
  return program;
}

void Program::change(Change change) {
  events.push_back({.id = changes.size(), .kind = EventKind::Mark});
  changes.push_back(std::move(change));
}

bool is_of_program(EventKind kind) {
  return kind != EventKind::Kernel && kind != EventKind::Host && kind != EventKind::GraphReplay &&
         !is_of_host(kind);
}

std::string to_row(const Program& program, const allocmark::Event& event) {
  std::string label;
  if (event.kind == EventKind::Mark) {
    const Change& change = program.changes[event.id];
    label = change.conf ? "conf " + with(*change.conf, ',', ' ')
                        : fmt::format("limit {}", change.limit_bytes.value_or(0));
  }
  std::string row;
  append_trace_row(event, label, /*tagged=*/false, &row);
  return row;
}

std::string to_trace(const Program& program) {
  std::string text = fmt::format("{}\n", kTraceColumns);
  if (program.rules->minor != kNewestMinor)
    text += fmt::format("mark,pytorch {},0,0\n", program.rules->name());
  text += fmt::format("mark,capacity {},0,0\nmark,conf {},0,0\n", program.capacity_bytes,
                      with(program.conf, ',', ' '));
  for (const allocmark::Event& event : program.events) text += to_row(program, event);
  return text;
}

Program program_from_trace(std::string_view text) {
  Program program;
  bool configured = false;
  std::uint64_t line = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    if (line == 1 || content.empty() || content.front() == '#') continue;  // line 1: the header
    allocmark::Event event;
    std::string_view label;
    if (std::optional<ErrorText> broken = parse_trace_row(content, 4, &event, &label))
      throw_bad_row(line, std::move(*broken));
    if (event.kind == EventKind::Mark) {
      read_mark(label, line, program, configured);
    } else if (!is_of_program(event.kind)) {
      throw_bad_row(line, {.what = "no program has this operation",
                           .wanted = "requests, frees, uses, busy streams, private pools",
                           .got = std::string(event_kind_name(event.kind))});
    } else {
      program.events.push_back(event);
    }
  }
  return program;
}

}  // namespace allocmark::caching

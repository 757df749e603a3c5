// Makes, writes and reads programs; see program.h.
#include "harness/tools/parity/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "allocators/caching/config.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/random.h"
#include "harness/tools/parity/pool_steps.h"

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

// Fields of one row of the trace format.
struct Row {
  std::array<std::string_view, 4> fields;
  std::uint64_t line = 0;  // 1-based
};

[[noreturn]] void throw_bad_row(const Row& row, std::string what, std::string wanted) {
  throw UsageError({.what = std::move(what),
                    .where = fmt::format("line {}", row.line),
                    .wanted = std::move(wanted),
                    .got = fmt::format("{}", fmt::join(row.fields, ",")),
                    .next = "see workloads/TRACES.md for the trace format"});
}

Row split_row(std::string_view text, std::uint64_t line) {
  Row row{.fields = {}, .line = line};
  std::string_view rest = text;
  for (std::size_t i = 0; i < row.fields.size(); ++i) {
    const std::size_t end = rest.find(',');
    row.fields[i] = rest.substr(0, end);
    const bool last = i + 1 == row.fields.size();
    if (last != (end == std::string_view::npos)) {
      row.fields = {text, {}, {}, {}};
      throw_bad_row(row, "this is no row of a trace", "op,id,size,stream");
    }
    if (!last) rest.remove_prefix(end + 1);
  }
  return row;
}

std::uint64_t number(const Row& row, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    throw_bad_row(row, "a number cannot be read", "decimal digits");
  return value;
}

std::string with(std::string_view text, char from, char to) {
  std::string changed(text);
  std::ranges::replace(changed, from, to);
  return changed;
}

// What a mark asks for: a program's release, configuration, capacity or limit, else nothing.
void read_mark(const Row& row, Program& program, bool& configured) {
  const std::string_view text = row.fields[1];
  const std::size_t blank = text.find(' ');
  const std::string_view label = text.substr(0, blank);
  const std::string_view value = blank == std::string_view::npos ? "" : text.substr(blank + 1);
  if (label == "capacity") {
    program.capacity_bytes = number(row, value);
  } else if (label == "pytorch") {
    program.rules = &require_rules(value, fmt::format("line {}", row.line));
  } else if (label == "limit") {
    program.steps.push_back({.kind = StepKind::Limit, .size_bytes = number(row, value)});
  } else if (label == "conf" && configured) {
    program.steps.push_back({.kind = StepKind::Configure, .conf = with(value, ' ', ',')});
  } else if (label == "conf") {
    program.conf = with(value, ' ', ',');
    configured = true;
  }
}

struct NamedKind {
  std::string_view name;
  StepKind kind;
};
constexpr NamedKind kNamedKinds[] = {{"alloc", StepKind::Alloc},
                                     {"free", StepKind::Free},
                                     {"record", StepKind::Record},
                                     {"busy", StepKind::Busy},
                                     {"sync", StepKind::Sync},
                                     {"empty_cache", StepKind::EmptyCache},
                                     {"pool_create", StepKind::PoolCreate},
                                     {"pool_begin", StepKind::PoolBegin},
                                     {"pool_end", StepKind::PoolEnd},
                                     {"pool_release", StepKind::PoolRelease},
                                     {"pool_on_oom", StepKind::PoolOnOom},
                                     {"pool_no_split", StepKind::PoolNoSplit},
                                     {"capture_begin", StepKind::CaptureBegin},
                                     {"capture_end", StepKind::CaptureEnd}};

std::string_view name_of(StepKind kind) {
  return std::ranges::find(kNamedKinds, kind, &NamedKind::kind)->name;
}

}  // namespace

Program make_program(std::uint64_t seed, std::size_t step_count, ProgramVariety variety,
                     const Rules& rules) {
  const Confs confs{variety, rules};
  Random random(seed);
  Program program{.rules = &rules, .conf = confs.at_start(random)};
  program.capacity_bytes = random.between(100, 640) * kMiB;
  const std::uint64_t streams = random.between(1, 3);
  // Mostly small heaps, which reach more different states; now and then one that fills several
  // chunks of a set.
  const std::uint64_t live_max =
      random.below(16) == 0 ? random.between(200, 600) : random.between(4, 60);
  const bool reconfigures = random.below(4) == 0 && !program.conf.starts_with(kAsyncBackend);
  std::vector<std::uint64_t> live;
  std::uint64_t id = 0;
  if (random.below(2) == 0) {
    program.steps.push_back(
        {.kind = StepKind::Limit, .size_bytes = random.between(60, 400) * kMiB});
  }
  const bool has_pools = variety == ProgramVariety::AllConfs && seed % 2 == 1 &&
                         !program.conf.starts_with(kAsyncBackend);
  PoolSteps pools(seed, rules, streams);
  while (program.steps.size() < step_count) {
    if (has_pools) pools.add(program.steps);
    const std::uint64_t kind = random.below(1000);
    const std::uint64_t stream = random.below(streams);
    if (kind < 3) {
      program.steps.push_back({.kind = StepKind::EmptyCache});
    } else if (kind < 10) {
      program.steps.push_back({.kind = StepKind::Busy, .stream = stream});
    } else if (kind < 20) {
      program.steps.push_back({.kind = StepKind::Sync});
    } else if (kind < 22 && reconfigures) {
      program.steps.push_back({.kind = StepKind::Configure, .conf = confs.at_run_time(random)});
    } else if (kind < 24 && reconfigures) {
      const std::uint64_t limit = random.below(3) == 0 ? 0 : random.between(60, 400) * kMiB;
      program.steps.push_back({.kind = StepKind::Limit, .size_bytes = limit});
    } else if (kind < 80 && !live.empty()) {
      program.steps.push_back(
          {.kind = StepKind::Record, .id = live[random.below(live.size())], .stream = stream});
      pools.note_record(program.steps.back().id);
    } else if (live.size() < live_max && (live.empty() || random.below(100) < 55)) {
      program.steps.push_back({.kind = StepKind::Alloc,
                               .id = ++id,
                               .size_bytes = random_size(random),
                               .stream = stream});
      live.push_back(id);
    } else {
      std::swap(live[random.below(live.size())], live.back());
      if (!pools.may_free(live.back())) {
        program.steps.push_back({.kind = StepKind::Sync});
        continue;
      }
      program.steps.push_back({.kind = StepKind::Free, .id = live.back()});
      live.pop_back();
    }
  }
  return program;
}

std::string to_row(const ProgramStep& step) {
  switch (step.kind) {
    case StepKind::Alloc:
      return fmt::format("alloc,{},{},{}\n", step.id, step.size_bytes, step.stream);
    case StepKind::Free:
      return fmt::format("free,{},0,0\n", step.id);
    case StepKind::Record:
      return fmt::format("record,{},0,{}\n", step.id, step.stream);
    case StepKind::Busy:
      return fmt::format("busy,0,0,{}\n", step.stream);
    case StepKind::Sync:
      return "sync,0,0,0\n";
    case StepKind::EmptyCache:
      return fmt::format("empty_cache,{},0,0\n", step.id);
    case StepKind::Configure:
      return fmt::format("mark,conf {},0,0\n", with(step.conf, ',', ' '));
    case StepKind::Limit:
      return fmt::format("mark,limit {},0,0\n", step.size_bytes);
    case StepKind::PoolCreate:
    case StepKind::PoolBegin:
    case StepKind::PoolEnd:
    case StepKind::PoolRelease:
    case StepKind::PoolOnOom:
    case StepKind::PoolNoSplit:
    case StepKind::CaptureBegin:
    case StepKind::CaptureEnd:
      return fmt::format("{},{},{},{}\n", name_of(step.kind), step.id, step.size_bytes,
                         step.stream);
  }
  return {};
}

std::string to_trace(const Program& program) {
  std::string text = "op,id,size,stream\n";
  if (program.rules->minor != kNewestMinor)
    text += fmt::format("mark,pytorch {},0,0\n", program.rules->name());
  text += fmt::format("mark,capacity {},0,0\nmark,conf {},0,0\n", program.capacity_bytes,
                      with(program.conf, ',', ' '));
  for (const ProgramStep& step : program.steps) text += to_row(step);
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
    const Row row = split_row(content, line);
    if (row.fields[0] == "mark") {
      read_mark(row, program, configured);
      continue;
    }
    const auto* kind = std::ranges::find(kNamedKinds, row.fields[0], &NamedKind::name);
    if (kind == std::end(kNamedKinds))
      throw_bad_row(
          row, "unknown operation",
          "alloc, free, record, busy, sync, empty_cache, mark, pool_create, pool_begin, "
          "pool_end, pool_release, pool_on_oom, pool_no_split, capture_begin, capture_end");
    program.steps.push_back({.kind = kind->kind,
                             .id = number(row, row.fields[1]),
                             .size_bytes = number(row, row.fields[2]),
                             .stream = number(row, row.fields[3])});
  }
  return program;
}

}  // namespace allocmark::caching

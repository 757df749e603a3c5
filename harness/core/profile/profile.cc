// See profile.h.
#include "harness/core/profile/profile.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "base/bytes.h"
#include "base/json_text.h"
#include "harness/core/measure/host_reference.h"
#include "harness/core/measure/quiet_cpu.h"
#include "harness/core/profile/blocks.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/simcu_api.h"

namespace allocmark {
namespace {

// Without the folder that the program lies in: it is the machine's own matter.
std::string command_without_folder(std::vector<std::string> words) {
  if (!words.empty()) words[0] = words[0].substr(words[0].rfind('/') + 1);
  return fmt::format("{}", fmt::join(words, " "));
}

using OrderedJson = nlohmann::ordered_json;

// Fewer samples than this in all repeats make no row beside others of the same cost.
constexpr std::uint64_t kRowSampleCountMin = 8;
constexpr int kSchema = 3;

std::string row_text(const ProfileRow& row) {
  return fmt::format("[{}, {}, {}, {}, {}, {}, {}, {}, {}]", row.size, row.sample_count, row.min_ns,
                     row.p10_ns, row.p50_ns, row.p90_ns, row.p99_ns, row.p999_ns, row.max_ns);
}

std::string spread_text(const ProfileRow& row) {
  return fmt::format("[{}, {}, {}, {}, {}, {}]", row.size, row.repeat_count, row.p50_ns_low,
                     row.p50_ns_high, row.p90_ns_low, row.p90_ns_high);
}

// The rows of every cost as a list, or by level where a cost has several.
template <typename Text>
std::string rows_text(const ProfileRows& costs, Text text_of) {
  std::string text;
  for (auto at = costs.begin(); at != costs.end();) {
    const std::string& cost = at->first.cost;
    const auto end =
        std::find_if(at, costs.end(), [&](const auto& entry) { return entry.first.cost != cost; });
    const bool has_levels = std::next(at) != end;
    text += fmt::format("{}  \"{}\": {}", text.empty() ? "" : ",\n", cost, has_levels ? "{\n" : "");
    for (; at != end; ++at) {
      std::string lines;
      for (const ProfileRow& row : at->second) {
        lines += fmt::format("{}   {}", lines.empty() ? "" : ",\n", text_of(row));
      }
      const bool is_last = std::next(at) == end;
      text += has_levels ? fmt::format("   \"{}\": [\n{}\n   ]{}\n", at->first.level, lines,
                                       is_last ? "" : ",")
                         : fmt::format("[\n{}\n  ]", lines);
    }
    if (has_levels) text += "  }";
  }
  return text;
}

std::string pairs_text(const std::vector<std::array<std::int64_t, 2>>& pairs) {
  std::string text;
  for (const auto& [id, value] : pairs) {
    text += fmt::format("{}   [{}, {}]", text.empty() ? "" : ",\n", id, value);
  }
  return text;
}

std::string about_text(const DeviceProfile& profile, const Environment& environment) {
  OrderedJson about = {
      {"source", profile.simulated ? "modelled time of a simulated device"
                                   : "host time of each call, one process, one thread"},
      {"command", command_without_folder(environment.argv)},
      {"recorded", environment.started_utc},
      {"driver", profile.facts.driver_version},
      {"cuda", environment.runtime_version},
      {"gpu_uuid_hash", environment.gpu_uuid_hash},
      {"hostname_hash", environment.hostname_hash},
      {"cpu_model", environment.cpu_model},
      {"cpu_count", environment.cpu_count},
      {"os", environment.os},
      {"kernel", environment.kernel},
      {"allocmark_version", environment.allocmark_version},
      {"git_sha", environment.git_sha},
      {"build_type", environment.build_type},
      {"repeat_count", profile.repeat_count},
      {"wall_s", profile.wall_s},
      {"clock_ns_taken_off", profile.clock_overhead_ns},
      {"units",
       "[size, n, min, p10, p50, p90, p99, p999, max] in ns; size in bytes, for *.chunks in 32 MiB "
       "chunks, for *.slab which such call in a row it is; by level where a cost depends on one: "
       "bytes in use, for cudaMallocAsync and cudaFreeAsync free blocks of the pools"},
      {"spread_units",
       "[size, repeats, lowest and highest p50 of a repeat, lowest and highest p90] in ns"}};
  if (profile.host_reference_ns > 0) {
    about["host_reference_ns"] = profile.host_reference_ns;
    about["host_reference_basis"] = "measured";
  }
  return json_text(about);
}

std::string device_text(const DeviceProfile& profile) {
  const DeviceFacts& facts = profile.facts;
  const OrderedJson scalars = {{"name", facts.name},
                               {"driver_version", facts.driver_version},
                               {"cuda_version", facts.cuda_version},
                               {"machine_gpu_count", facts.machine_gpu_count},
                               {"total_bytes", facts.total_bytes},
                               {"free_bytes_initial", facts.free_bytes_initial},
                               {"page_limit", facts.page_limit},
                               {"chunk_limit", facts.chunk_limit},
                               {"clean_bytes_per_us", profile.clean_bytes_per_us},
                               {"temperature_celsius", facts.temperature_celsius},
                               {"power_milliwatt", facts.power_milliwatt},
                               {"power_limit_milliwatt", facts.power_limit_milliwatt}};
  std::string text;
  for (const auto& [key, value] : scalars.items()) {
    text += fmt::format("  \"{}\": {},\n", key, json_text(value));
  }
  return fmt::format("{}  \"attributes\": [\n{}\n  ],\n  \"limits\": [\n{}\n  ]", text,
                     pairs_text(facts.attributes), pairs_text(facts.limits));
}

// What could only be timed together with other calls.
void take_parts_off(ProfileRecording* recording) {
  recording->take_off("release.chunks", "cudaStreamSynchronize");
  for (const char* cost : {"cudaMemset.on_device", "cudaMemcpy.on_device"}) {
    recording->take_off(cost, "cudaMemsetAsync");
    recording->take_off(cost, "cudaStreamSynchronize");
  }
}

// Levels are bytes or, far fewer, blocks.
std::string level_text(std::uint64_t level) {
  if (level == 0) return "";
  return level < kGiB ? fmt::format("{} blocks", level) : fmt::format("{} GiB", level / kGiB);
}

}  // namespace

const std::vector<ProfileBlock>& profile_blocks() {
  static const std::vector<ProfileBlock> blocks = {{"quick calls", measure_quick_calls},
                                                   {"unfinished work", measure_unfinished},
                                                   {"heap", measure_heap},
                                                   {"large blocks", measure_large_blocks},
                                                   {"full device", measure_full_device},
                                                   {"pool", measure_pool},
                                                   {"virtual memory", measure_virtual_memory},
                                                   {"copies", measure_copies}};
  return blocks;
}

DeviceProfile measure_profile(const ProfileOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  TickClock clock;
  DeviceProfile profile;
  profile.facts = find_device_facts();
  const SimcuApi simcu = SimcuApi::find();
  profile.simulated = simcu.present;
  const std::unique_ptr<DeviceWork> work = make_device_work(simcu);
  clock.finish_calibration();
  const DriverTimer timer(clock, simcu.present ? simcu.thread_clock() : nullptr);
  profile.clock_overhead_ns = timer.overhead_ns();
  const QuietCpu cpu;
  const std::uint64_t device_bytes = device_free_bytes();
  // First, since samples and programs leave a host heap on which it takes up to 1.6 times as long.
  if (!profile.simulated) profile.host_reference_ns = HostReference().measure_quiet_ns();
  // The first time brings code and tables in; its samples are dropped.
  ProfileRecording warm_up;
  ProfileRecording recording;
  for (const ProfileBlock& block : profile_blocks()) {
    block.run({.time = timer, .work = *work, .out = warm_up, .device_bytes = device_bytes});
  }
  recording.begin_repeat();
  profile.clean_bytes_per_us = measure_cleaning(
      {.time = timer, .work = *work, .out = recording, .device_bytes = device_bytes});
  if (profile.clean_bytes_per_us == 0) recording.add("cudaMalloc.wait_for_clean", 0, 0);
  for (std::uint64_t repeat = 0; repeat < options.repeat_count; ++repeat) {
    if (options.on_repeat) options.on_repeat(repeat);
    recording.begin_repeat();
    for (const ProfileBlock& block : profile_blocks()) {
      if (!timer.simulated()) cpu.move();
      block.run({.time = timer,
                 .work = *work,
                 .out = recording,
                 .seed = repeat + 1,
                 .device_bytes = device_bytes});
    }
  }
  take_parts_off(&recording);
  profile.costs = recording.rows(kRowSampleCountMin);
  profile.repeat_count = options.repeat_count;
  profile.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return profile;
}

std::string to_json_text(const DeviceProfile& profile, const Environment& environment) {
  return fmt::format(
      "{{\n \"schema\": {},\n \"about\": {},\n \"device\": {{\n{}\n }},\n \"costs\": {{\n{}\n }},\n"
      " \"spread\": {{\n{}\n }}\n}}\n",
      kSchema, about_text(profile, environment), device_text(profile),
      rows_text(profile.costs, row_text), rows_text(profile.costs, spread_text));
}

std::string to_table(const DeviceProfile& profile) {
  std::string text =
      fmt::format("{:<27} {:>10} {:>12} {:>6} {:>10} {:>10} {:>10}   {}\n", "call", "in use",
                  "size", "n", "p50 ns", "p90 ns", "p99 ns", "p50 of the repeats, ns");
  for (const auto& [key, rows] : profile.costs) {
    for (const ProfileRow& row : rows) {
      text += fmt::format("{:<27} {:>10} {:>12} {:>6} {:>10} {:>10} {:>10}", key.cost,
                          level_text(key.level), row.size, row.sample_count, row.p50_ns, row.p90_ns,
                          row.p99_ns);
      text +=
          row.repeat_count > 0 ? fmt::format("   {}..{}\n", row.p50_ns_low, row.p50_ns_high) : "\n";
    }
  }
  return text + fmt::format("freed memory is cleared at {} MB per ms (0: nobody waits for that)\n",
                            profile.clean_bytes_per_us / 1000);
}

}  // namespace allocmark

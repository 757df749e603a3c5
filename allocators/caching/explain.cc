#include "allocators/caching/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <vector>

#include "allocators/caching/config.h"
#include "allocators/caching/safety.h"

namespace allocmark::caching {
namespace {

bool mentions(const std::vector<ConfPair>& pairs, std::string_view key) {
  return std::ranges::find(pairs, key, &ConfPair::key) != pairs.end();
}

std::string megabytes_text(std::uint64_t bytes) {
  return bytes == kUnlimited ? "unlimited" : fmt::format("{} MiB", bytes / kMiB);
}

std::string show_bool(bool value) { return value ? "True" : "False"; }

// "2 steps from 0 MiB, off from 512 MiB": runs of equal entries.
std::string show_divisions(const Settings& settings) {
  const auto& table = settings.roundup_power2_divisions;
  std::string text;
  for (std::size_t k = 0; k < table.size(); ++k) {
    if (k > 0 && table[k] == table[k - 1]) continue;
    if (!text.empty()) text += ", ";
    text += table[k] < 2 ? "off" : fmt::format("{} steps", table[k]);
    if (k > 0) text += fmt::format(" from {} MiB", 1u << k);
  }
  return text;
}

std::string show_reserve(const std::optional<SegmentReserve>& reserve) {
  if (!reserve) return "9/8 of the device";
  return reserve->is_share ? fmt::format("{:.4g}% of the device", 100 * reserve->value)
                           : fmt::format("{:.4g} GiB", reserve->value);
}

void append_values(std::string& text, const Settings& settings) {
  const auto line = [&](std::string_view key, const std::string& value) {
    fmt::format_to(std::back_inserter(text), "  {:<29} {}\n", key, value);
  };
  text += "effective values\n";
  if (settings.backend == PoolBackend::CudaMallocAsync) {
    line("backend", "cudaMallocAsync: requests go unrounded to the driver's stream-ordered pool");
    return;
  }
  line("backend", "native");
  line("max_split_size_mb", megabytes_text(settings.max_split_size_bytes));
  line("max_non_split_rounding_mb", megabytes_text(settings.max_non_split_rounding_bytes));
  const double threshold = settings.garbage_collection_threshold;
  line("garbage_collection_threshold", threshold > 0 ? fmt::format("{}", threshold) : "off");
  line("roundup_power2_divisions", show_divisions(settings));
  line("expandable_segments", show_bool(settings.expandable_segments));
  const auto known = [&](std::string_view key) {
    return find_config_key(key)->known_to(*settings.rules);
  };
  if (known("expandable_segments_reserve"))
    line("expandable_segments_reserve", show_reserve(settings.expandable_segments_reserve));
  line("large_segment_size_mb",
       megabytes_text(settings.large_segment_size_bytes) +
           (known("large_segment_size_mb") ? "" : " (fixed; a key since 2.11)"));
  const double fraction = settings.per_process_memory_fraction;
  if (!known("per_process_memory_fraction")) {
    line("release_lock_on_cudamalloc", show_bool(settings.release_lock_on_cudamalloc));
    return;
  }
  line("per_process_memory_fraction",
       fraction == 1.0 ? "1 (no limit)"
                       : fmt::format("{} ({:.4g}% of the device)", fraction, 100 * fraction));
  if (known("throw_on_cudamalloc_oom"))
    line("throw_on_cudamalloc_oom", show_bool(settings.throw_on_cudamalloc_oom));
  line("release_lock_on_cudamalloc", show_bool(settings.release_lock_on_cudamalloc));
}

// Of the cache of pinned host memory; nothing where no key of it was given.
std::string pinned_values(const std::vector<ConfPair>& pairs, const Settings& settings) {
  const bool is_given = std::ranges::any_of(
      pairs, [](const ConfPair& pair) { return pair.key.starts_with("pinned_"); });
  if (!is_given) return "";
  std::string text = "effective values for pinned host memory\n";
  const auto line = [&](std::string_view what, const std::string& value) {
    fmt::format_to(std::back_inserter(text), "  {:<29} {}\n", what, value);
  };
  const auto megabytes = [](std::uint64_t count) { return fmt::format("{} MiB", count); };
  constexpr std::uint64_t kNoLimitMb = kUnlimited / kMiB;
  const std::uint64_t kept_mb = settings.pinned_max_cached_size_mb;
  const std::uint64_t rounded_mb = std::min(settings.pinned_max_round_threshold_mb, kept_mb);
  line("pinned by", settings.pinned_use_cuda_host_register
                        ? fmt::format("malloc and cudaHostRegister; pages touched by {} thread{}",
                                      settings.pinned_num_register_threads,
                                      settings.pinned_num_register_threads == 1 ? "" : "s")
                        : "cudaHostAlloc");
  line("rounded to a power of two",
       rounded_mb == kNoLimitMb ? "all requests" : "requests of up to " + megabytes(rounded_mb));
  line("kept when freed",
       kept_mb == kNoLimitMb ? "all blocks" : "blocks of up to " + megabytes(kept_mb));
  line("reserved segment",
       settings.pinned_reserve_segment_size_mb == 0
           ? "none"
           : megabytes(settings.pinned_reserve_segment_size_mb) + ", at the first request");
  line("who sees that copies are done",
       settings.pinned_use_background_threads ? "a thread, every 100 us" : "the next request");
  return text;
}

void note_newer_keys(std::vector<std::string>& notes, const Settings& settings) {
  if (settings.throw_on_cudamalloc_oom && settings.per_process_memory_fraction < 1) {
    notes.emplace_back(
        "throw_on_cudamalloc_oom does nothing with a fraction that is set from the start: the "
        "limit itself is asked first, and the cache is given back and the request tried again");
  } else if (settings.throw_on_cudamalloc_oom) {
    notes.emplace_back(
        "throw_on_cudamalloc_oom without per_process_memory_fraction rejects only what is more "
        "than the whole device");
  }
  if (settings.expandable_segments_reserve && !settings.expandable_segments) {
    notes.emplace_back("expandable_segments_reserve does nothing without expandable_segments:True");
  }
}

void note_garbage_collection(std::vector<std::string>& notes, const Settings& settings) {
  if (settings.garbage_collection_threshold == 0) return;
  if (settings.per_process_memory_fraction == 1.0) {
    notes.emplace_back(
        "garbage_collection_threshold does nothing unless a memory limit is set "
        "(per_process_memory_fraction below 1, "
        "or the cell's capacity given as the allocator's limit)");
  }
  if (settings.expandable_segments) {
    notes.emplace_back(
        "garbage_collection_threshold does nothing with expandable_segments:True: expandable "
        "segments are never "
        "collected");
  }
}

void note_divisions(std::vector<std::string>& notes, const Settings& settings) {
  const auto& table = settings.roundup_power2_divisions;
  if (std::ranges::find(table, std::uint64_t{1}) != table.end()) {
    notes.emplace_back("roundup_power2_divisions: 1 means off, not 'round to a power of two'");
  }
  std::size_t first = 0;
  while (first < table.size() && table[first] == 0) ++first;
  for (std::size_t k = first + 1; k < table.size(); ++k) {
    if (table[k] == 0 && table[k - 1] != 0) {
      notes.push_back(fmt::format(
          "roundup_power2_divisions is off from {} MiB on: intervals that the list does not "
          "name do not inherit the one before",
          1u << k));
    }
  }
}

// Keys of pinned memory that do nothing, or not what they seem to.
void note_pinned(std::vector<std::string>& notes, const Settings& settings) {
  if (settings.pinned_num_register_threads != 1 && !settings.pinned_use_cuda_host_register) {
    notes.emplace_back(
        "pinned_num_register_threads does nothing without pinned_use_cuda_host_register:True");
  }
  // https://github.com/vllm-project/vllm/issues/51080, on an H200's host with 1.3 TB free.
  constexpr std::uint64_t kRefusedMb = 512 * kGiB / kMiB;
  if (settings.pinned_use_cuda_host_register &&
      settings.pinned_reserve_segment_size_mb >= kRefusedMb) {
    notes.push_back(fmt::format(
        "pinned_reserve_segment_size_mb:{}: one call of cudaHostRegister does not pin 512 GiB or "
        "more, whatever is free: the segment fails as out of memory",
        settings.pinned_reserve_segment_size_mb));
  }
  const std::uint64_t kept_mb = settings.pinned_max_cached_size_mb;
  const std::uint64_t power_mb = std::bit_floor(kept_mb);
  if (settings.pinned_max_round_threshold_mb < kept_mb && !settings.rules->overflows_pinned) {
    notes.push_back(fmt::format(
        "pinned_max_round_threshold_mb:{0}: a free block above {0} MiB serves only requests that "
        "are not larger; where sizes vary, more can be pinned than with rounding",
        settings.pinned_max_round_threshold_mb));
  }
  if (kept_mb == kUnlimited / kMiB || kept_mb == power_mb) return;
  if (settings.pinned_max_round_threshold_mb <= power_mb) return;
  notes.push_back(fmt::format(
      "pinned_max_cached_size_mb:{0} is no power of two: requests above {1} and up to {0} MiB are "
      "rounded to {2} MiB, which is more than {0}, so they are pinned anew each time",
      kept_mb, power_mb, 2 * power_mb));
}

std::vector<std::string> notes_on(const std::vector<ConfPair>& pairs, const Settings& settings) {
  std::vector<std::string> notes;
  note_garbage_collection(notes, settings);
  note_newer_keys(notes, settings);
  note_divisions(notes, settings);
  const bool splits_limited = settings.max_split_size_bytes != kUnlimited;
  if (mentions(pairs, "max_non_split_rounding_mb") && !splits_limited) {
    notes.emplace_back("max_non_split_rounding_mb does nothing without max_split_size_mb");
  }
  if (settings.expandable_segments && splits_limited) {
    notes.emplace_back(
        "max_split_size_mb with expandable_segments:True does not limit splitting; it still keeps "
        "small requests from "
        "blocks of that size, so memory can grow without bound");
  }
  if (settings.per_process_memory_fraction == 0) {
    notes.emplace_back("per_process_memory_fraction:0 makes every request fail");
  }
  if (settings.release_lock_on_cudamalloc) {
    notes.emplace_back("release_lock_on_cudamalloc changes nothing for a program with one thread");
  }
  note_pinned(notes, settings);
  for (const ConfPair& pair : pairs) {
    if (pair.key.starts_with("pinned_")) {
      notes.push_back(pair.key +
                      " concerns pinned host memory: no effect on device memory; see 'allocmark "
                      "pinned'");
    } else if (pair.key == "graph_capture_record_stream_reuse") {
      notes.push_back(
          pair.key +
          " matters only inside a CUDA graph capture, for blocks that other streams "
          "use: PyTorch reuses them before the capture ends, caching when it has ended");
    } else if (pair.key == "expandable_segments_reserve_by_class") {
      notes.push_back(pair.key +
                      " matters only for streams that C++ code has put into a class, which no "
                      "workload here does");
    }
  }
  return notes;
}

// What a reader of a key from another release should know; empty where there is nothing.
std::string history_of(const ConfigKey& key) {
  constexpr int kOldestMinor = 9;
  std::string text =
      key.since_minor > kOldestMinor ? fmt::format("since 2.{}", key.since_minor) : "";
  if (!key.changed.empty()) text += fmt::format("{}{}", text.empty() ? "" : "; ", key.changed);
  return text;
}

std::string explain_error(std::string_view conf, const Rules& rules, const ErrorText& error) {
  std::string text = "not accepted: " + to_string(error) + "\n";
  const PytorchConfig pytorch = parse_pytorch(conf, rules);
  if (pytorch.accepted()) {
    text +=
        fmt::format("PyTorch {} accepts this string without a word and runs with\n", rules.name());
    append_values(text, pytorch.settings);
  } else if (pytorch.aborts_process) {
    text += fmt::format("PyTorch {} aborts when it is imported: {}\n", rules.name(), pytorch.error);
  } else {
    text += fmt::format("PyTorch {} raises an error at the first CUDA call: {}\n", rules.name(),
                        pytorch.error);
  }
  return text;
}

std::string explain_safety(std::string_view conf) {
  std::string text;
  for (const SafetyNote* note : safety_of(conf)) {
    fmt::format_to(std::back_inserter(text), "  {}, {}: {}; {} ({})\n", note->key, note->area,
                   to_string(note->safety), note->words, note->sources);
  }
  return text.empty() ? "" : "is it safe?\n" + text;
}

// What else ignores a key.
std::string_view ignored_by(const ConfigKey& key) {
  if (key.name.starts_with("pinned_")) return "no effect on device memory";
  if (key.name == "backend") return "chosen when the library loads";
  if (key.name == "per_process_memory_fraction")
    return "read when the allocator is made; ignored by backend:cudaMallocAsync";
  return "ignored by backend:cudaMallocAsync";
}

// What the string does in other releases, where it does no harm in this one.
std::string dangers_elsewhere(std::string_view conf, const Rules& rules) {
  if (!conf_dangers(conf, rules).empty()) return {};
  std::vector<std::string> releases;
  for (const Rules& other : all_rules()) {
    if (!conf_dangers(conf, other).empty()) releases.push_back(other.name());
  }
  if (releases.empty()) return {};
  return fmt::format(
      "  danger in {}: this string overruns pinned host memory there (PyTorch PR "
      "192722); --pytorch {} says how\n",
      fmt::join(releases, " and "), releases.back());
}

}  // namespace

std::vector<std::string> conf_notes(std::string_view conf, const Rules& rules) {
  const StrictConfig config = parse_strict(conf, rules);
  if (config.error) return {};
  return notes_on(config.pairs, config.settings);
}

std::string explain_conf(std::string_view conf, const Rules& rules) {
  const StrictConfig config = parse_strict(conf, rules);
  if (config.error) return explain_error(conf, rules, *config.error);
  std::string text;
  append_values(text, config.settings);
  text += pinned_values(config.pairs, config.settings);
  const std::vector<std::string> dangers = conf_dangers(conf, rules);
  if (!dangers.empty()) text += "danger\n";
  for (const std::string& danger : dangers) text += "  " + danger + "\n";
  const std::vector<std::string> effects = conf_effects(conf, rules);
  if (!effects.empty()) text += "which requests make the cache grow\n";
  for (const std::string& effect : effects) text += "  " + effect + "\n";
  const std::vector<std::string> notes = notes_on(config.pairs, config.settings);
  if (!notes.empty()) text += "inert or in conflict\n";
  for (const std::string& note : notes) text += "  " + note + "\n";
  std::string history;
  for (const ConfPair& pair : config.pairs) {
    const std::string known = history_of(*find_config_key(pair.key));
    if (!known.empty()) history += fmt::format("  {}: {}\n", pair.key, known);
  }
  history += dangers_elsewhere(conf, rules);
  if (!history.empty()) text += "other releases of PyTorch\n" + history;
  if (!config.pairs.empty() && !rules.variable_note.empty()) {
    text += fmt::format("the variable\n  {}\n", rules.variable_note);
  }
  return text + explain_safety(conf);
}

std::string explain_keys(const Rules& rules) {
  std::string text = fmt::format("keys of PyTorch {}\n", rules.name());
  for (const ConfigKey& key : config_keys()) {
    if (!key.known_to(rules)) continue;
    fmt::format_to(std::back_inserter(text), "  {}: {}\n    {}; {}\n", key.name, key.allowed,
                   key.meaning, ignored_by(key));
    const std::string history = history_of(key);
    if (!history.empty()) text += "    " + history + "\n";
  }
  std::string later;
  for (const ConfigKey& key : config_keys()) {
    if (!key.known_to(rules))
      fmt::format_to(std::back_inserter(later), "  {}: since 2.{}\n", key.name, key.since_minor);
  }
  if (!later.empty()) text += "keys of later releases, which it refuses\n" + later;
  return text;
}

}  // namespace allocmark::caching

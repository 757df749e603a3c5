// Config strings read for people: PyTorch's grammar and meaning, but nothing is swallowed, wrapped,
// clamped or ignored without a word. Every error names key, column and what is allowed.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "allocators/caching/config.h"
#include "allocators/conf/conf.h"

namespace allocmark::caching {
namespace {

constexpr std::uint64_t kMegabytesMax = kUnlimited / kMiB;
constexpr std::uint64_t kDivisionsMax = std::uint64_t{1} << 40;
constexpr std::uint64_t kBoundaryMax = std::uint64_t{1} << (kIntervalCount - 1);

const std::vector<ConfigKey>& keys() {
  static const std::vector<ConfigKey> kKeys = {
      {"backend", "native or cudaMallocAsync",
       "who manages the cache: PyTorch or the driver's stream-ordered pool"},
      {"max_split_size_mb", "an integer, at least large_segment_size_mb (20)",
       "blocks of this size or more are never split, and serve only requests as large"},
      {"max_non_split_rounding_mb", "an integer, at least large_segment_size_mb (20)",
       "how much larger than the request a block that is not split may be"},
      {"garbage_collection_threshold", "a number above 0 and below 1",
       "above this share of the memory limit, old unused segments go back to the device"},
      {"roundup_power2_divisions", "a power of two, or a list such as [256:1,512:2,>:4]",
       "requests are rounded up to one of this many steps between powers of two"},
      {"expandable_segments", "True or False",
       "segments grow and shrink by pages of virtual memory"},
      {"large_segment_size_mb", "an integer above 10",
       "segment for requests above 1 MiB and below 10 MiB"},
      {"per_process_memory_fraction", "a number from 0 to 1",
       "memory limit, as a share of the device"},
      {"release_lock_on_cudamalloc", "True or False",
       "other threads may use the cache during cudaMalloc"},
      {"release_lock_on_hipmalloc", "True or False", "another name of release_lock_on_cudamalloc"},
      {"graph_capture_record_stream_reuse", "True or False",
       "reuse of memory inside a CUDA graph capture"},
      {"pinned_use_background_threads", "True or False", "pinned host memory only"},
      {"pinned_use_cuda_host_register", "True or False", "pinned host memory only"},
      {"pinned_use_hip_host_register", "True or False",
       "another name of pinned_use_cuda_host_register"},
      {"pinned_num_register_threads", "a power of two, at most 128", "pinned host memory only"},
      {"pinned_reserve_segment_size_mb", "an integer above 0", "pinned host memory only"},
  };
  return kKeys;
}

const ConfigKey& key_named(std::string_view name) {
  return *std::ranges::find(keys(), name, &ConfigKey::name);
}

// Reads the whole text as one number of the type, or nothing.
template <typename Number>
std::optional<Number> whole(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class StrictReader {
 public:
  StrictConfig run(std::string_view conf) {
    ConfSplit split = split_conf(conf, config_key_names());
    config_.error = std::move(split.error);
    // The segment size comes first wherever it stands, because other keys are measured by it.
    for (const ConfPair& pair : split.pairs) {
      if (pair.key == "large_segment_size_mb") read_segment_size(pair);
    }
    settings().max_non_split_rounding_bytes = settings().large_segment_size_bytes;
    for (const ConfPair& pair : split.pairs) {
      if (!config_.error) read(pair);
    }
    if (!config_.error) check_ignored(split.pairs);
    if (!config_.error) check_pages(split.pairs);
    return std::move(config_);
  }

 private:
  Settings& settings() { return config_.settings; }

  void read(const ConfPair& pair) {
    const std::string& key = pair.key;
    if (key == "backend") return read_backend(pair);
    if (key == "max_split_size_mb")
      return read_from_segment_size(pair, settings().max_split_size_bytes);
    if (key == "max_non_split_rounding_mb") {
      return read_from_segment_size(pair, settings().max_non_split_rounding_bytes);
    }
    if (key == "garbage_collection_threshold") return read_threshold(pair);
    if (key == "roundup_power2_divisions") return read_divisions(pair);
    if (key == "per_process_memory_fraction") return read_fraction(pair);
    if (key == "pinned_num_register_threads") return read_register_threads(pair);
    if (key == "pinned_reserve_segment_size_mb") {
      return read_integer(pair, 1, kMegabytesMax, settings().pinned_reserve_segment_size_mb);
    }
    read_boolean(pair);
  }

  void read_boolean(const ConfPair& pair) {
    struct Flag {
      std::string_view key;
      bool Settings::*value;
    };
    constexpr Flag kFlags[] = {
        {"expandable_segments", &Settings::expandable_segments},
        {"release_lock_on_cudamalloc", &Settings::release_lock_on_cudamalloc},
        {"release_lock_on_hipmalloc", &Settings::release_lock_on_cudamalloc},
        {"graph_capture_record_stream_reuse", &Settings::graph_capture_record_stream_reuse},
        {"pinned_use_background_threads", &Settings::pinned_use_background_threads},
        {"pinned_use_cuda_host_register", &Settings::pinned_use_cuda_host_register},
        {"pinned_use_hip_host_register", &Settings::pinned_use_cuda_host_register},
    };
    const auto* flag = std::ranges::find(kFlags, std::string_view(pair.key), &Flag::key);
    if (flag == std::end(kFlags)) return;  // large_segment_size_mb, read before
    if (pair.value != "True" && pair.value != "False")
      return fail(pair, "the words are case-sensitive");
    settings().*(flag->value) = pair.value == "True";
  }

  void read_backend(const ConfPair& pair) {
    if (pair.value != "native" && pair.value != "cudaMallocAsync") return fail(pair);
    settings().backend =
        pair.value == "native" ? PoolBackend::Native : PoolBackend::CudaMallocAsync;
  }

  void read_integer(const ConfPair& pair, std::uint64_t lowest, std::uint64_t highest,
                    std::uint64_t& target) {
    const std::optional<std::uint64_t> value = whole<std::uint64_t>(pair.value);
    if (!value || *value < lowest || *value > highest) return fail(pair);
    target = *value;
  }

  void read_segment_size(const ConfPair& pair) {
    std::uint64_t count = settings().large_segment_size_bytes / kMiB;
    read_integer(pair, 11, kMegabytesMax, count);
    settings().large_segment_size_bytes = count * kMiB;
  }

  void read_from_segment_size(const ConfPair& pair, std::uint64_t& target_bytes) {
    std::uint64_t count = 0;
    read_integer(pair, settings().large_segment_size_bytes / kMiB, kMegabytesMax, count);
    target_bytes = count * kMiB;
  }

  void read_threshold(const ConfPair& pair) {
    const std::optional<double> value = whole<double>(pair.value);
    if (!value || !(*value > 0 && *value < 1)) return fail(pair);
    settings().garbage_collection_threshold = *value;
  }

  void read_fraction(const ConfPair& pair) {
    const std::optional<double> value = whole<double>(pair.value);
    if (!value || !(*value >= 0 && *value <= 1)) return fail(pair);
    settings().per_process_memory_fraction = *value;
  }

  void read_register_threads(const ConfPair& pair) {
    std::uint64_t count = 0;
    read_integer(pair, 1, 128, count);
    if (!config_.error && !std::has_single_bit(count)) return fail(pair);
    settings().pinned_num_register_threads = count;
  }

  void read_divisions(const ConfPair& pair) {
    auto& table = settings().roundup_power2_divisions;
    if (!pair.value.starts_with('[')) {
      const std::optional<std::uint64_t> value = whole<std::uint64_t>(pair.value);
      if (!value || !std::has_single_bit(*value) || *value > kDivisionsMax) return fail(pair);
      table.fill(*value);
      return;
    }
    const std::string_view inside = std::string_view(pair.value).substr(1, pair.value.size() - 2);
    std::size_t begin = 0;
    while (begin <= inside.size() && !inside.empty() && !config_.error) {
      const std::size_t end = std::min(inside.find(',', begin), inside.size());
      read_interval(pair, inside.substr(begin, end - begin), pair.value_column + 1 + begin);
      begin = end + 1;
    }
  }

  // One "boundary:divisions" of the list.
  void read_interval(const ConfPair& pair, std::string_view item, std::size_t column) {
    const std::size_t colon = item.find(':');
    const std::string_view boundary = trimmed(item.substr(0, colon));
    const std::string_view steps =
        colon == std::string_view::npos ? "" : trimmed(item.substr(colon + 1));
    const std::optional<std::uint64_t> divisions = whole<std::uint64_t>(steps);
    if (!divisions || (*divisions != 0 && !std::has_single_bit(*divisions)) ||
        *divisions > kDivisionsMax) {
      return fail_at(pair, column, std::string(item),
                     "boundary:divisions, divisions being 0 or a power of two", "");
    }
    auto& table = settings().roundup_power2_divisions;
    if (boundary == ">") {
      for (std::size_t k = last_interval_ + 1; k < kIntervalCount; ++k) table[k] = *divisions;
      return;
    }
    const std::optional<std::uint64_t> megabytes = whole<std::uint64_t>(boundary);
    if (!megabytes || !std::has_single_bit(*megabytes) || *megabytes > kBoundaryMax) {
      return fail_at(pair, column, std::string(item),
                     "a boundary of 1, 2, 4, ... 32768 (MiB) or '>'", "");
    }
    const auto index = static_cast<std::size_t>(std::countr_zero(*megabytes));
    if ((seen_intervals_ >> index & 1) != 0) {
      return fail_at(pair, column, std::string(item), "each boundary once",
                     "PyTorch would ignore the earlier one");
    }
    if (seen_intervals_ == 0) std::fill_n(table.begin(), index, *divisions);
    seen_intervals_ |= 1u << index;
    table[index] = *divisions;
    last_interval_ = index;
  }

  static std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\n\v\f\r";
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
  }

  // With the driver's pool PyTorch reads no other key, and says nothing.
  void check_ignored(const std::vector<ConfPair>& pairs) {
    if (settings().backend != PoolBackend::CudaMallocAsync) return;
    for (const ConfPair& pair : pairs) {
      if (pair.key == "backend" || pair.key.starts_with("pinned_")) continue;
      config_.error = ErrorText{.what = "a config key has no effect with backend:cudaMallocAsync",
                                .where = conf_place(pair.key, pair.key_column),
                                .wanted = {},
                                .got = {},
                                .next = "leave it out, or use backend:native"};
      return;
    }
  }

  // Expandable segments are mapped in pages of this size, and devices map whole 2 MiB: PyTorch
  // would fail with "invalid argument" at the first large request.
  void check_pages(const std::vector<ConfPair>& pairs) {
    if (!settings().expandable_segments || settings().large_segment_size_bytes % (2 * kMiB) == 0)
      return;
    for (const ConfPair& pair : pairs) {
      if (pair.key != "large_segment_size_mb") continue;
      fail_at(pair, pair.value_column, pair.value, "an even number with expandable_segments:True",
              "PyTorch would fail with 'invalid argument' at the first large request");
    }
  }

  void fail(const ConfPair& pair, std::string next = {}) {
    if (config_.error) return;
    fail_at(pair, pair.value_column, pair.value, key_named(pair.key).allowed, std::move(next));
    if (pair.key.starts_with("max_") &&
        settings().large_segment_size_bytes != Settings{}.large_segment_size_bytes) {
      config_.error->next = fmt::format("large_segment_size_mb is {} here",
                                        settings().large_segment_size_bytes / kMiB);
    }
  }

  void fail_at(const ConfPair& pair, std::size_t column, std::string got, std::string wanted,
               std::string next) {
    if (config_.error) return;
    config_.error = ErrorText{.what = "a config value is not allowed",
                              .where = conf_place(pair.key, column),
                              .wanted = std::move(wanted),
                              .got = "'" + std::move(got) + "'",
                              .next = std::move(next)};
  }

  StrictConfig config_;
  std::size_t last_interval_ = 0;
  unsigned seen_intervals_ = 0;
};

}  // namespace

const std::vector<std::string>& config_key_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const ConfigKey& key : keys()) names.push_back(key.name);
    return names;
  }();
  return kNames;
}

StrictConfig parse_strict(std::string_view conf) { return StrictReader().run(conf); }

}  // namespace allocmark::caching

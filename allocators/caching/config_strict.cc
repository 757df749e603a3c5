// Config strings read for people: PyTorch's grammar and meaning, but nothing is swallowed, wrapped,
// clamped or ignored without a word. Every error names key, column and what is allowed.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "allocators/caching/config.h"
#include "allocators/caching/meant_value.h"
#include "allocators/conf/conf.h"
#include "base/number_text.h"

namespace allocmark::caching {
namespace {

constexpr std::uint64_t kMegabytesMax = kUnlimited / kMiB;
constexpr std::uint64_t kDivisionsMax = std::uint64_t{1} << 40;
constexpr std::uint64_t kInteger32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kBoundaryMax = std::uint64_t{1} << (kIntervalCount - 1);

class StrictReader {
 public:
  explicit StrictReader(const Rules& rules) { config_.settings.rules = &rules; }

  StrictConfig run(std::string_view conf) {
    ConfSplit split = split_conf(conf, config_key_names());
    config_.error = std::move(split.error);
    check_release(split.pairs);
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
    config_.pairs = std::move(split.pairs);
    return std::move(config_);
  }

 private:
  Settings& settings() { return config_.settings; }

  void check_release(const std::vector<ConfPair>& pairs) {
    const Rules& rules = *settings().rules;
    for (const ConfPair& pair : pairs) {
      const ConfigKey& key = *find_config_key(pair.key);
      if (config_.error || key.known_to(rules)) continue;
      config_.error = ErrorText{
          .what = "a config key is newer than the release of PyTorch",
          .where = conf_place(pair.key, pair.key_column),
          .got = fmt::format("a key since 2.{}; you asked for {}", key.since_minor, rules.name()),
          .next = fmt::format("leave it out, or ask for 2.{} or newer", key.since_minor)};
    }
  }

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
    if (key == "pinned_max_round_threshold_mb")
      return read_integer(pair, 0, kMegabytesMax, settings().pinned_max_round_threshold_mb);
    if (key == "pinned_max_cached_size_mb")
      return read_integer(pair, 0, kMegabytesMax, settings().pinned_max_cached_size_mb);
    if (key == "expandable_segments_reserve") return read_reserve(pair);
    if (key == "expandable_segments_reserve_by_class") return read_classes(pair);
    read_boolean(pair);
  }

  void read_boolean(const ConfPair& pair) {
    bool Settings::*const flag = flag_of(pair.key);
    if (flag == nullptr) return;  // large_segment_size_mb, read before
    if (pair.value != "True" && pair.value != "False") return fail(pair);
    settings().*flag = pair.value == "True";
  }

  void read_backend(const ConfPair& pair) {
    if (pair.value != "native" && pair.value != "cudaMallocAsync") return fail(pair);
    settings().backend =
        pair.value == "native" ? PoolBackend::Native : PoolBackend::CudaMallocAsync;
  }

  void read_integer(const ConfPair& pair, std::uint64_t lowest, std::uint64_t highest,
                    std::uint64_t& target) {
    const std::optional<std::uint64_t> value = number_in_text<std::uint64_t>(pair.value);
    if (!value || *value < lowest || *value > highest) return fail(pair);
    if (!fits_reader(pair, *value)) return;
    target = *value;
  }

  // PyTorch 2.9 stops at a larger number when it is loaded, with the word "stoi" alone.
  bool fits_reader(const ConfPair& pair, std::uint64_t value) {
    if (settings().rules->reader != ConfigReader::Cuda || value <= kInteger32Max) return true;
    fail_at(pair, pair.value_column, pair.value, fmt::format("at most {}", kInteger32Max),
            fmt::format("2.{} reads numbers of 32 bits", settings().rules->minor));
    return false;
  }

  void read_segment_size(const ConfPair& pair) {
    std::uint64_t count = settings().large_segment_size_bytes / kMiB;
    read_integer(pair, 11, kMegabytesMax, count);
    settings().large_segment_size_bytes = count * kMiB;
  }

  void read_from_segment_size(const ConfPair& pair, std::uint64_t& target_bytes) {
    // The reader of 2.9 wants more than the size of a segment.
    const std::uint64_t more = settings().rules->reader == ConfigReader::Cuda ? 1 : 0;
    std::uint64_t count = 0;
    read_integer(pair, settings().large_segment_size_bytes / kMiB + more, kMegabytesMax, count);
    target_bytes = count * kMiB;
  }

  void read_threshold(const ConfPair& pair) {
    const std::optional<double> value = number_in_text<double>(pair.value);
    if (!value || !(*value > 0 && *value < 1)) return fail(pair);
    settings().garbage_collection_threshold = *value;
  }

  void read_fraction(const ConfPair& pair) {
    const std::optional<double> value = number_in_text<double>(pair.value);
    if (!value || !(*value >= 0 && *value <= 1)) return fail(pair);
    settings().per_process_memory_fraction = *value;
  }

  void read_register_threads(const ConfPair& pair) {
    std::uint64_t count = 0;
    read_integer(pair, 1, 128, count);
    if (!config_.error && !std::has_single_bit(count)) return fail(pair);
    settings().pinned_num_register_threads = count;
  }

  void read_reserve(const ConfPair& pair) {
    const std::optional<SegmentReserve> reserve = reserve_of(pair.value);
    if (!reserve) return fail(pair, "PyTorch would warn and ignore it");
    settings().expandable_segments_reserve = reserve;
  }

  // No workload puts a stream into a class, so that the list is only checked.
  void read_classes(const ConfPair& pair) {
    if (!pair.value.starts_with('[')) return fail(pair);
    std::string_view inside = std::string_view(pair.value).substr(1, pair.value.size() - 2);
    while (!inside.empty() && !config_.error) {
      const std::string_view item = inside.substr(0, inside.find(','));
      const std::size_t colon = item.find(':');
      if (colon == std::string_view::npos || !reserve_of(trimmed(item.substr(colon + 1))))
        return fail(pair, "PyTorch would warn and ignore an entry");
      inside.remove_prefix(std::min(item.size() + 1, inside.size()));
    }
  }

  // "0.5" is a share of the device, "40G" is GiB.
  static std::optional<SegmentReserve> reserve_of(std::string_view text) {
    const bool is_share = !text.ends_with('G') && !text.ends_with('g');
    const std::optional<double> value =
        number_in_text<double>(is_share ? text : text.substr(0, text.size() - 1));
    if (!value || !std::isfinite(*value) || *value <= 0) return std::nullopt;
    return SegmentReserve{.is_share = is_share, .value = *value};
  }

  void read_divisions(const ConfPair& pair) {
    auto& table = settings().roundup_power2_divisions;
    if (!pair.value.starts_with('[')) {
      const std::optional<std::uint64_t> value = number_in_text<std::uint64_t>(pair.value);
      if (!value || !std::has_single_bit(*value) || *value > kDivisionsMax) return fail(pair);
      if (!fits_reader(pair, *value)) return;
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
    const std::optional<std::uint64_t> divisions = number_in_text<std::uint64_t>(steps);
    if (!divisions || (*divisions != 0 && !std::has_single_bit(*divisions)) ||
        *divisions > kDivisionsMax) {
      return fail_at(pair, column, std::string(item),
                     "boundary:divisions, divisions being 0 or a power of two", "");
    }
    if (!fits_reader(pair, *divisions)) return;
    auto& table = settings().roundup_power2_divisions;
    if (boundary == ">") {
      // 2.9 gives it to the interval named last, too.
      const std::size_t own = settings().rules->reader == ConfigReader::Cuda ? 0 : 1;
      for (std::size_t k = last_interval_ + own; k < kIntervalCount; ++k) table[k] = *divisions;
      return;
    }
    const std::optional<std::uint64_t> megabytes = number_in_text<std::uint64_t>(boundary);
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
    if (next.empty()) next = meant_value(pair.key, pair.value);
    const bool is_meant = !next.empty();
    fail_at(pair, pair.value_column, pair.value, std::string(find_config_key(pair.key)->allowed),
            std::move(next));
    if (!is_meant && pair.key.starts_with("max_") &&
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

StrictConfig parse_strict(std::string_view conf, const Rules& rules) {
  return StrictReader(rules).run(conf);
}

}  // namespace allocmark::caching

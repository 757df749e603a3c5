// Config strings read as PyTorch reads them since 2.10: blanks vanish even inside words, separators
// are passed over unseen, numbers may have junk behind them, and three readings happen one after
// the other (at load for `backend`, then the CUDA keys, then the generic ones).
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <locale>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "allocators/caching/config.h"
#include "allocators/caching/config_rejected.h"

namespace allocmark::caching {
namespace {

std::string internal_assert(const AssertionPlaces& places, int line, std::string_view text) {
  return fmt::format(
      "i < config_.size() INTERNAL ASSERT FAILED at \"{}/c10/core/AllocatorConfig.h\":{}, please "
      "report a bug to PyTorch. {}",
      places.folder, line, text);
}

class Tokens {
 public:
  Tokens(std::string_view conf, const Rules& rules) : places_(rules.places) {
    std::string word;
    for (const char c : conf) {
      if (std::string_view(",:[]").find(c) != std::string_view::npos) {
        if (!word.empty()) tokens_.push_back(std::move(word));
        word.clear();
        tokens_.emplace_back(1, c);
      } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
        word += c;
      }
    }
    if (!word.empty()) tokens_.push_back(std::move(word));
  }

  [[nodiscard]] std::size_t size() const { return tokens_.size(); }

  // A token that must be there.
  [[nodiscard]] const std::string& at(std::size_t i) const {
    return at_line(i, places_.token_line);
  }
  [[nodiscard]] const std::string& at_in_list(std::size_t i) const {
    return at_line(i, places_.list_line);
  }

  // The last token of the value that follows the key at i.
  [[nodiscard]] std::size_t skip_value(std::size_t i) const {
    static_cast<void>(at(i + 1));
    i += 2;
    if (at(i) != "[") return i;
    while (++i < size() && tokens_[i] != "]") {
    }
    require(i < size(),
            internal_assert(
                places_, places_.bracket_line,
                "Expected closing bracket ']' in ConfigTokenizer but reached end of config"));
    return i;
  }

  [[nodiscard]] std::uint64_t integer(std::size_t i) const {
    try {
      return std::stoull(at(i));
    } catch (const std::logic_error&) {
      throw Rejected("stoull");
    }
  }

  [[nodiscard]] double real(std::size_t i) const {
    try {
      return std::stod(at(i));
    } catch (const std::logic_error&) {
      throw Rejected("stod");
    }
  }

  [[nodiscard]] bool boolean(std::size_t i) const {
    const std::string& token = at(i);
    if (token == "True") return true;
    if (token == "False") return false;
    throw Rejected(fmt::format(
        "Expected 'True' or 'False' at index {} in ConfigTokenizer but got '{}'", i, token));
  }

 private:
  [[nodiscard]] const std::string& at_line(std::size_t i, int line) const {
    require(i < size(), internal_assert(places_, line, "Index out of bounds in ConfigTokenizer"));
    return tokens_[i];
  }

  const AssertionPlaces& places_;
  std::vector<std::string> tokens_;
};

// Clamped so that the product with 2^20 stays a 64-bit number; it is then not quite "unlimited".
std::uint64_t megabytes(std::uint64_t count) { return std::min(count, kUnlimited / kMiB) * kMiB; }

bool is_key_of(KeyOwner owner, std::string_view name, const Rules& rules) {
  const ConfigKey* const key = find_config_key(name);
  return key != nullptr && key->owner == owner && key->known_to(rules);
}

// One token is passed over where a comma is expected, whatever it is.
std::size_t after_pair(std::size_t last_of_value) { return last_of_value + 2; }

// roundup_power2_divisions at token i (the key); returns the last token of the value.
std::size_t read_divisions(const Tokens& tokens, std::size_t i, Settings& settings) {
  auto& table = settings.roundup_power2_divisions;
  static_cast<void>(tokens.at(i + 1));
  i += 2;
  if (tokens.at(i) != "[") {
    const std::uint64_t divisions = tokens.integer(i);
    require(std::has_single_bit(divisions), "For roundups, the divisions has to be power of 2 ");
    table.fill(divisions);
    return i;
  }
  bool first = true;
  std::size_t last_index = 0;
  while (++i < tokens.size() && tokens.at(i) != "]") {
    const std::size_t boundary_token = i;
    static_cast<void>(tokens.at(i + 1));
    i += 2;
    const std::uint64_t divisions = tokens.integer(i);
    require(divisions == 0 || std::has_single_bit(divisions),
            "For roundups, the divisions has to be power of 2 or 0 to disable roundup ");
    if (tokens.at(boundary_token) == ">") {
      for (std::size_t k = last_index + 1; k < kIntervalCount; ++k) table[k] = divisions;
    } else {
      const std::uint64_t boundary = tokens.integer(boundary_token);
      require(std::has_single_bit(boundary), "For roundups, the intervals have to be power of 2 ");
      const auto log2 = static_cast<std::size_t>(std::bit_width(boundary)) - 1;
      const std::size_t index = std::min<std::size_t>(log2, kIntervalCount - 1);
      if (first) std::fill_n(table.begin(), index, divisions);
      first = false;
      table[index] = divisions;
      last_index = index;
    }
    if (tokens.at_in_list(i + 1) != "]") ++i;
  }
  return i;
}

std::uint64_t read_at_least_segment(const Tokens& tokens, std::size_t i, const Settings& settings,
                                    std::string_view key) {
  const std::uint64_t count = tokens.integer(i);
  const std::uint64_t count_min = settings.large_segment_size_bytes / kMiB;
  require(count >= count_min,
          fmt::format("CachingAllocator option {} too small, must be >= {}", key, count_min));
  return megabytes(count);
}

constexpr std::string_view kSegmentSize = "large_segment_size_mb";

// The generic reading: what is not mentioned goes back to its default, except what keeps its value.
void read_generic(const Tokens& tokens, Settings& settings) {
  settings.max_split_size_bytes = kUnlimited;
  settings.roundup_power2_divisions.fill(0);
  settings.garbage_collection_threshold = 0;
  const Rules& rules = *settings.rules;
  const bool sized = is_key_of(KeyOwner::Generic, kSegmentSize, rules);
  for (std::size_t i = 0; sized && i < tokens.size(); ++i) {
    if (tokens.at(i) != kSegmentSize) continue;
    static_cast<void>(tokens.at(i + 1));
    const std::uint64_t count = tokens.integer(i + 2);
    require(count > 10, "CachingAllocator option large_segment_size_mb must be > 10 MB");
    settings.large_segment_size_bytes = megabytes(count);
    i += 2;
  }
  if (rules.resets_non_split_rounding)
    settings.max_non_split_rounding_bytes = settings.large_segment_size_bytes;
  for (std::size_t i = 0; i < tokens.size();) {
    const std::string& key = tokens.at(i);
    const std::size_t value = i + 2;
    std::size_t last = value;
    const bool mine = is_key_of(KeyOwner::Generic, key, rules);
    if (!mine || key == kSegmentSize) {
      require(mine || is_key_of(KeyOwner::Cuda, key, rules),
              fmt::format("Unrecognized key '{}' in Accelerator allocator config.", key));
      last = tokens.skip_value(i);
    } else if (key == "max_split_size_mb") {
      settings.max_split_size_bytes = read_at_least_segment(tokens, value, settings, key);
    } else if (key == "max_non_split_rounding_mb") {
      settings.max_non_split_rounding_bytes = read_at_least_segment(tokens, value, settings, key);
    } else if (key == "garbage_collection_threshold") {
      const double threshold = tokens.real(value);
      require(threshold > 0 && threshold < 1,
              "garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
      settings.garbage_collection_threshold = threshold;
    } else if (key == "roundup_power2_divisions") {
      last = read_divisions(tokens, i, settings);
    } else if (bool Settings::*const flag = flag_of(key); flag != nullptr) {
      settings.*flag = tokens.boolean(value);
    } else if (key == "pinned_max_round_threshold_mb") {
      settings.pinned_max_round_threshold_mb = tokens.integer(value);
    } else {
      settings.pinned_max_cached_size_mb = tokens.integer(value);
    }
    i = after_pair(last);
  }
}

void read_register_threads(const Tokens& tokens, std::size_t value, Settings& settings) {
  const std::uint64_t count = tokens.integer(value);
  require(std::has_single_bit(count),
          fmt::format("Number of register threads has to be power of 2, got {}", count));
  require(
      count <= 128,
      fmt::format("Number of register threads should be less than or equal to 128, got {}", count));
  settings.pinned_num_register_threads = count;
}

void read_backend(const Tokens& tokens, std::size_t value, const Settings& settings) {
  const std::string& name = tokens.at(value);
  require(name == "native" || name == "cudaMallocAsync",
          "Unknown allocator backend, options are native and cudaMallocAsync");
  const std::string_view loaded =
      settings.backend == PoolBackend::Native ? "native" : "cudaMallocAsync";
  require(name == loaded,
          fmt::format(
              "tokenizer[i] == get()->name() INTERNAL ASSERT FAILED at "
              "\"{}/c10/cuda/CUDAAllocatorConfig.cpp\":{}, please report a bug to PyTorch. "
              "Allocator backend parsed at runtime != allocator backend parsed at load time, "
              "{} != {}",
              settings.rules->places.folder, settings.rules->places.backend_line, name, loaded));
}

// A share of the device, or "40G"; nothing where PyTorch warns and ignores the value.
std::optional<SegmentReserve> read_reserve(const std::string& text) {
  const bool is_share = text.empty() || (text.back() != 'G' && text.back() != 'g');
  std::istringstream number(is_share ? text : text.substr(0, text.size() - 1));
  number.imbue(std::locale::classic());
  double value = 0;
  number >> value;
  if (number.fail() || !number.eof() || !std::isfinite(value) || value <= 0) return std::nullopt;
  return SegmentReserve{.is_share = is_share, .value = value};
}

// "[name:value,...]"; no workload puts a stream into a class. Returns the last token.
std::size_t read_classes(const Tokens& tokens, std::size_t key) {
  std::size_t i = key + 2;
  while (tokens.at_in_list(i + 1) != "]") {
    static_cast<void>(tokens.at(i + 3));
    i += 3;
    if (tokens.at_in_list(i + 1) == ",") ++i;
  }
  return i + 1;
}

// The reading of the keys that only CUDA has; all of them keep their value where they are not
// mentioned.
void read_cuda(const Tokens& tokens, Settings& settings) {
  for (std::size_t i = 0; i < tokens.size();) {
    const std::string& key = tokens.at(i);
    const std::size_t value = i + 2;
    std::size_t last = value;
    if (!is_key_of(KeyOwner::Cuda, key, *settings.rules)) {
      require(is_key_of(KeyOwner::Generic, key, *settings.rules),
              fmt::format("Unrecognized key '{}' in CUDA allocator config.", key));
      last = tokens.skip_value(i);
    } else if (key == "backend") {
      read_backend(tokens, value, settings);
    } else if (bool Settings::*const flag = flag_of(key); flag != nullptr) {
      settings.*flag = tokens.boolean(value);
    } else if (key == "per_process_memory_fraction") {
      const double fraction = tokens.real(value);
      require(fraction >= 0 && fraction <= 1,
              "per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
      settings.per_process_memory_fraction = fraction;
    } else if (key == "pinned_num_register_threads") {
      read_register_threads(tokens, value, settings);
    } else if (key == "pinned_reserve_segment_size_mb") {
      const std::uint64_t count = tokens.integer(value);
      require(count > 0, "Pinned reserve segment size has to be greater than 0");
      settings.pinned_reserve_segment_size_mb = count;
    } else if (key == "expandable_segments_reserve") {
      if (const auto reserve = read_reserve(tokens.at(value)); reserve)
        settings.expandable_segments_reserve = reserve;
    } else {
      last = read_classes(tokens, i);
    }
    i = after_pair(last);
  }
}

// What the library does when it loads: looks for the backend and checks nothing else.
PoolBackend read_backend_at_load(const Tokens& tokens) {
  for (std::size_t i = 0; i < tokens.size();) {
    const std::size_t last = tokens.skip_value(i);
    if (tokens.at(i) == "backend" && tokens.at(i + 2) == "cudaMallocAsync")
      return PoolBackend::CudaMallocAsync;
    i = after_pair(last);
  }
  return PoolBackend::Native;
}

}  // namespace

PytorchConfig parse_pytorch(std::string_view conf, const Rules& rules) {
  if (rules.reader == ConfigReader::Cuda) return parse_pytorch_cuda(conf, rules);
  PytorchConfig config;
  config.settings.rules = &rules;
  const Tokens tokens(conf, rules);
  try {
    config.aborts_process = true;
    config.settings.backend = read_backend_at_load(tokens);
    config.aborts_process = false;
    // With the driver's pool nothing else of the string is ever read.
    if (config.settings.backend == PoolBackend::CudaMallocAsync) return config;
    read_cuda(tokens, config.settings);
    read_generic(tokens, config.settings);
  } catch (const Rejected& rejected) {
    config.error = rejected.what();
  }
  return config;
}

std::string change_like_pytorch(Settings& settings, std::string_view conf) {
  if (settings.rules->reader == ConfigReader::Cuda) return change_like_pytorch_cuda(settings, conf);
  const Tokens tokens(conf, *settings.rules);
  try {
    read_generic(tokens, settings);
    read_cuda(tokens, settings);
  } catch (const Rejected& rejected) {
    return rejected.what();
  }
  return {};
}

}  // namespace allocmark::caching

// Config strings read as PyTorch 2.9 reads them: one reader for all keys, which wants every
// separator, takes whole numbers of 32 bits, and drops blanks but no other white space.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <vector>

#include "allocators/caching/config_rejected.h"

namespace allocmark::caching {
namespace {

class Words {
 public:
  explicit Words(std::string_view conf) {
    std::string word;
    const auto end_word = [&] {
      if (!word.empty()) words_.push_back(std::move(word));
      word.clear();
    };
    for (const char c : conf) {
      if (std::string_view(",:[]").find(c) != std::string_view::npos) {
        end_word();
        words_.emplace_back(1, c);
      } else if (c != ' ') {
        word += c;
      }
    }
    end_word();
  }

  [[nodiscard]] bool has(std::size_t i) const { return i < words_.size(); }
  [[nodiscard]] const std::string& at(std::size_t i) const { return words_.at(i); }

  void expect(std::size_t i, char separator) const {
    require(has(i) && words_[i] == std::string(1, separator),
            fmt::format("Error parsing CachingAllocator settings, expected {}", separator));
  }

  // A number that must be there; negative ones wrap.
  [[nodiscard]] std::uint64_t integer(std::size_t i, const std::string& missing) const {
    require(has(i), missing);
    try {
      return static_cast<std::uint64_t>(std::stoi(words_[i]));
    } catch (const std::logic_error&) {
      throw Rejected("stoi");
    }
  }

 private:
  std::vector<std::string> words_;
};

std::string expecting(std::string_view key) {
  return fmt::format("Error, expecting {} value", key);
}

std::uint64_t above_segment(const Words& words, std::size_t i, std::string_view key) {
  constexpr std::uint64_t kCountMin = 20;
  const std::uint64_t count = words.integer(i, expecting(key));
  require(count > kCountMin,
          fmt::format("CachingAllocator option {} too small, must be > {}", key, kCountMin));
  return std::min(count, kUnlimited / kMiB) * kMiB;
}

double threshold(const Words& words, std::size_t i) {
  require(words.has(i), expecting("garbage_collection_threshold"));
  double value = 0;
  try {
    value = std::stod(words.at(i));
  } catch (const std::logic_error&) {
    throw Rejected("stod");
  }
  require(value > 0, "garbage_collect_threshold too small, set it 0.0~1.0");
  require(value < 1, "garbage_collect_threshold too big, set it 0.0~1.0");
  return value;
}

// The list after "["; returns the index of "]".
std::size_t read_intervals(const Words& words, std::size_t i, Settings& settings) {
  auto& table = settings.roundup_power2_divisions;
  bool first = true;
  std::size_t last_index = 0;
  while (words.has(++i) && words.at(i) != "]") {
    const std::string boundary = words.at(i);
    words.expect(++i, ':');
    const std::uint64_t divisions =
        words.integer(++i, "Error parsing roundup_power2_divisions value");
    require(divisions == 0 || std::has_single_bit(divisions),
            "For roundups, the divisions has to be power of 2 or 0 to disable roundup ");
    if (boundary == ">") {
      // From 2.10 on the interval named last keeps its own number.
      for (std::size_t k = last_index; k < kIntervalCount; ++k) table[k] = divisions;
    } else {
      std::uint64_t start = 0;
      try {
        start = std::stoul(boundary);
      } catch (const std::logic_error&) {
        throw Rejected("stoul");
      }
      require(std::has_single_bit(start), "For roundups, the intervals have to be power of 2 ");
      const auto log2 = static_cast<std::size_t>(std::bit_width(start)) - 1;
      last_index = std::min<std::size_t>(log2, kIntervalCount - 1);
      if (first) std::fill_n(table.begin(), last_index, divisions);
      first = false;
      table[last_index] = divisions;
    }
    if (words.has(i + 1) && words.at(i + 1) != "]") words.expect(++i, ',');
  }
  return i;
}

std::size_t read_divisions(const Words& words, std::size_t i, Settings& settings) {
  const std::string missing = expecting("roundup_power2_divisions");
  require(words.has(i), missing);
  if (words.at(i) == "[") return read_intervals(words, i, settings);
  const std::uint64_t divisions = words.integer(i, missing);
  require(std::has_single_bit(divisions), "For roundups, the divisions has to be power of 2 ");
  settings.roundup_power2_divisions.fill(divisions);
  return i;
}

void read_backend(const Words& words, std::size_t i, const Settings& settings) {
  require(words.has(i), "Error parsing backend value");
  const std::string& name = words.at(i);
  require(name == "native" || name == "cudaMallocAsync",
          "Unknown allocator backend, options are native and cudaMallocAsync");
  const std::string_view loaded =
      settings.backend == PoolBackend::Native ? "native" : "cudaMallocAsync";
  require(
      name == loaded,
      fmt::format("config[i] == get()->name() INTERNAL ASSERT FAILED at "
                  "\"{}/c10/cuda/CUDAAllocatorConfig.cpp\":{}, please report a bug to PyTorch. "
                  "Allocator backend parsed at runtime != allocator backend parsed at load time",
                  settings.rules->places.folder, settings.rules->places.backend_line));
}

std::uint64_t register_threads(const Words& words, std::size_t i) {
  const std::uint64_t count = words.integer(i, expecting("pinned_num_register_threads"));
  require(std::has_single_bit(count), "Number of register threads has to be power of 2 ");
  require(count <= 128, "Number of register threads should be less than or equal to 128");
  return count;
}

// The name under which errors know a key.
std::string_view reported_name(const std::string& key) {
  if (key == "release_lock_on_hipmalloc") return "release_lock_on_cudamalloc";
  if (key == "pinned_use_hip_host_register") return "pinned_use_cuda_host_register";
  return key;
}

// Whether the key is one whose value is True or False; reads it then.
bool read_boolean(const Words& words, std::size_t i, const std::string& key, Settings& settings) {
  bool Settings::*const flag = flag_of(key);
  if (flag == nullptr) return false;
  const std::string_view name = reported_name(key);
  const std::string unexpected = fmt::format("Expected a single True/False argument for {}", name);
  const bool is_older = name == "expandable_segments" || name == "release_lock_on_cudamalloc";
  require(words.has(i), is_older ? unexpected : expecting(name));
  require(words.at(i) == "True" || words.at(i) == "False", unexpected);
  settings.*flag = words.at(i) == "True";
  return true;
}

void read_all(const Words& words, Settings& settings) {
  settings.max_split_size_bytes = kUnlimited;
  settings.roundup_power2_divisions.fill(0);
  settings.garbage_collection_threshold = 0;
  for (std::size_t i = 0; words.has(i); ++i) {
    const std::string key = words.at(i);
    const ConfigKey* const known = find_config_key(key);
    require(known != nullptr && known->known_to(*settings.rules),
            "Unrecognized CachingAllocator option: " + key);
    words.expect(++i, ':');
    ++i;
    if (key == "max_split_size_mb") {
      settings.max_split_size_bytes = above_segment(words, i, key);
    } else if (key == "max_non_split_rounding_mb") {
      settings.max_non_split_rounding_bytes = above_segment(words, i, key);
    } else if (key == "garbage_collection_threshold") {
      settings.garbage_collection_threshold = threshold(words, i);
    } else if (key == "roundup_power2_divisions") {
      i = read_divisions(words, i, settings);
    } else if (key == "backend") {
      read_backend(words, i, settings);
    } else if (!read_boolean(words, i, key, settings)) {
      settings.pinned_num_register_threads = register_threads(words, i);
    }
    if (words.has(i + 1)) words.expect(++i, ',');
  }
}

// When the library loads it looks for a pair "backend:cudaMallocAsync", between commas or blanks.
bool asks_for_pool(std::string_view conf) {
  constexpr std::string_view kBreaks = ", \t\n\v\f\r";
  for (std::size_t begin = 0; begin < conf.size();) {
    const std::size_t end = std::min(conf.find_first_of(kBreaks, begin), conf.size());
    if (conf.substr(begin, end - begin) == "backend:cudaMallocAsync") return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

PytorchConfig parse_pytorch_cuda(std::string_view conf, const Rules& rules) {
  PytorchConfig config;
  config.settings.rules = &rules;
  try {
    if (asks_for_pool(conf)) {
      config.settings.backend = PoolBackend::CudaMallocAsync;
      return config;
    }
    read_all(Words(conf), config.settings);
  } catch (const Rejected& rejected) {
    config.error = rejected.what();
  }
  return config;
}

std::string change_like_pytorch_cuda(Settings& settings, std::string_view conf) {
  try {
    read_all(Words(conf), settings);
  } catch (const Rejected& rejected) {
    return rejected.what();
  }
  return {};
}

}  // namespace allocmark::caching

// The keys of PYTORCH_CUDA_ALLOC_CONF: what each means, and since which release; see config.h.
#include <algorithm>
#include <array>
#include <iterator>

#include "allocators/caching/config.h"

namespace allocmark::caching {
namespace {

constexpr std::string_view kBoolean = "True or False";
// Since 2.14 the pair of keys is safe.
constexpr std::string_view kOverruns =
    "in 2.13 a kept block can be smaller than the request where pinned_max_round_threshold_mb is "
    "below pinned_max_cached_size_mb (PyTorch PR 192722)";
constexpr KeyOwner kGeneric = KeyOwner::Generic;
constexpr KeyOwner kCuda = KeyOwner::Cuda;

constexpr std::array kKeys = {
    ConfigKey{"backend", "native or cudaMallocAsync",
              "who manages the cache: PyTorch or the driver's stream-ordered pool", 9, kCuda,
              "since 2.14 cudaMallocAsync trims its pool and tries again before it fails"},
    ConfigKey{"max_split_size_mb", "an integer, at least large_segment_size_mb (20)",
              "blocks of this size or more are never split, and serve only requests as large", 9,
              kGeneric, "2.9 wants more than 20, not 20"},
    ConfigKey{"max_non_split_rounding_mb", "an integer, at least large_segment_size_mb (20)",
              "how much larger than the request a block that is not split may be", 9, kGeneric,
              "2.9 wants more than 20, not 20; up to 2.10 a change at run time that does not "
              "mention it keeps the value"},
    ConfigKey{"garbage_collection_threshold", "a number above 0 and below 1",
              "above this share of the memory limit, old unused segments go back to the device", 9,
              kGeneric},
    ConfigKey{"roundup_power2_divisions", "a power of two, or a list such as [256:1,512:2,>:4]",
              "requests are rounded up to one of this many steps between powers of two", 9,
              kGeneric, "in 2.9 '>' changes the interval named before it, too"},
    ConfigKey{"expandable_segments", kBoolean,
              "segments grow and shrink by pages of virtual memory", 9, kGeneric,
              "since 2.15 the out-of-memory text does not recommend it where it is on"},
    ConfigKey{"large_segment_size_mb", "an integer above 10",
              "segment for requests above 1 MiB and below 10 MiB", 11, kGeneric},
    ConfigKey{"per_process_memory_fraction", "a number from 0 to 1",
              "memory limit, as a share of the device", 10, kCuda},
    ConfigKey{"release_lock_on_cudamalloc", kBoolean,
              "other threads may use the cache during cudaMalloc", 9, kCuda},
    ConfigKey{"release_lock_on_hipmalloc", kBoolean, "another name of release_lock_on_cudamalloc",
              9, kCuda},
    ConfigKey{
        "throw_on_cudamalloc_oom", kBoolean,
        "a request above per_process_memory_fraction is to fail before anything is tried; with "
        "the fraction set from the start the limit comes first, and the key does nothing",
        12, kCuda},
    ConfigKey{"expandable_segments_reserve", "a share of the device such as 0.5, or 40G",
              "address space of each expandable segment", 15, kCuda},
    ConfigKey{"expandable_segments_reserve_by_class", "a list such as [name:0.5,other:40G]",
              "the same for streams that C++ code has put into a class", 15, kCuda},
    ConfigKey{"graph_capture_record_stream_reuse", kBoolean,
              "reuse of memory inside a CUDA graph capture", 9, kCuda},
    ConfigKey{
        "pinned_use_background_threads", kBoolean,
        "pinned memory: a thread looks every 100 us which freed blocks are ready; requests do "
        "not wait for it",
        9, kGeneric, "in 2.9 a request looks for its own size, too"},
    ConfigKey{"pinned_use_cuda_host_register", kBoolean,
              "pinned memory comes from malloc and cudaHostRegister, not cudaHostAlloc; sizes are "
              "rounded all the same",
              9, kCuda},
    ConfigKey{"pinned_use_hip_host_register", kBoolean,
              "another name of pinned_use_cuda_host_register", 9, kCuda},
    ConfigKey{"pinned_num_register_threads", "a power of two, at most 128",
              "threads that touch the pages before cudaHostRegister", 9, kCuda},
    ConfigKey{"pinned_reserve_segment_size_mb", "an integer above 0",
              "pinned at the first request; what is cut from it never goes back to it", 10, kCuda},
    ConfigKey{"pinned_free_catch_all", kBoolean,
              "an error while a pinned block is freed is a warning, not the end of the process", 12,
              kCuda},
    ConfigKey{"pinned_max_round_threshold_mb", "an integer",
              "larger pinned blocks have the size that was asked, not the next power of two", 13,
              kGeneric, kOverruns},
    ConfigKey{"pinned_max_cached_size_mb", "an integer",
              "larger pinned blocks are not rounded, and unpinned when they are freed", 13,
              kGeneric, kOverruns},
};

}  // namespace

std::span<const ConfigKey> config_keys() { return kKeys; }

const ConfigKey* find_config_key(std::string_view name) {
  const auto* found = std::ranges::find(kKeys, name, &ConfigKey::name);
  return found == kKeys.end() ? nullptr : found;
}

bool Settings::*flag_of(std::string_view key) {
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
      {"pinned_free_catch_all", &Settings::pinned_free_catch_all},
      {"throw_on_cudamalloc_oom", &Settings::throw_on_cudamalloc_oom},
  };
  const auto* found = std::ranges::find(kFlags, key, &Flag::key);
  return found == std::end(kFlags) ? nullptr : found->value;
}

std::vector<std::string> config_key_names(const Rules& rules) {
  std::vector<std::string> names;
  for (const ConfigKey& key : kKeys) {
    if (key.known_to(rules)) names.emplace_back(key.name);
  }
  return names;
}

}  // namespace allocmark::caching

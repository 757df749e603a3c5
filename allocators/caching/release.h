// What differs between PyTorch's releases, as a table: a row per release, a column per rule. The
// allocator asks its row. Elsewhere: config_keys.cc knows since when each key is there, and
// ../host_caching/host_rules.cc the cache of pinned memory; random programs of harness/tools/parity
// ask only a release for what it has. Patch releases do not differ in any of this.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace allocmark::caching {

// Which of several free blocks of one size serves a request.
enum class TieBreak : std::uint8_t {
  Address,       // the lowest address
  BlockOrder,    // the one that was made first; a split makes the front part anew
  SegmentOrder,  // of the segment that was taken first, there the lowest address
};

// Who reads the config string, which decides texts and what is accepted.
enum class ConfigReader : std::uint8_t {
  Cuda,         // one reader for all keys; exact separators
  Accelerator,  // two readers, one for generic and one for CUDA's keys; any separator
};

// Source lines that the texts of PyTorch's internal assertions name.
struct AssertionPlaces {
  std::string_view folder;  // the source tree that the release was built in
  int token_line = 0;       // AllocatorConfig.h: a token past the end
  int list_line = 0;        // the same inside a list
  int bracket_line = 0;     // a list without an end
  int backend_line = 0;     // CUDAAllocatorConfig.cpp: another backend than at load
};

// What an out-of-memory text advises where expandable segments are on already.
enum class ExpandableAdvice : std::uint8_t {
  TurnOn,        // to turn them on (PyTorch's issue 173049)
  None,          // nothing
  AddressSpace,  // about address space (PR 193211)
};

struct Rules {
  int minor = 0;  // 2.`minor`
  TieBreak tie_break = TieBreak::Address;
  ConfigReader reader = ConfigReader::Accelerator;
  AssertionPlaces places{};
  std::string_view advice_variable;  // named at the end of an out-of-memory text
  std::string_view variable_note{};  // what to know before PYTORCH_CUDA_ALLOC_CONF is set
  std::string_view advice_page;      // and where to read on
  ExpandableAdvice expandable_advice = ExpandableAdvice::TurnOn;
  // The non-split slack follows large_segment_size_mb at every change of settings; before, it kept
  // its value.
  bool resets_non_split_rounding = true;
  // A limit that is taken away leaves the whole device as one.
  bool keeps_whole_limit = false;
  // backend:cudaMallocAsync writes the device's number as a character. That of device 0 ends the
  // text for everyone who reads it as C does.
  bool cuts_pool_text = false;
  // throw_on_cudamalloc_oom and its counter.
  bool counts_rejections = false;
  // backend:cudaMallocAsync waits for the request's stream, trims its pool and tries again before
  // it fails (PR 188110).
  bool pool_retries = false;
  // The cache of pinned host memory hands out blocks that are smaller than the request, where it
  // keeps sizes that it does not round (PR 192722).
  bool overflows_pinned = false;
  // While requests are routed to a private pool, everything waits as in a graph's capture: frees of
  // blocks that other streams use, and giving the cache back (PyTorch's issue 175015).
  bool pools_capture = true;
  // With graph_capture_record_stream_reuse a pool's blocks are freed when no more requests are
  // routed to it, else at the next request that is not in a capture.
  bool frees_at_pool_end = false;
  // What each private pool has reserved.
  bool counts_private_pools = false;

  [[nodiscard]] std::string name() const { return "2." + std::to_string(minor); }
  // Of the registry, as in "caching@2.13".
  [[nodiscard]] std::string allocator() const { return "caching@" + name(); }
};

// By age, the oldest first.
[[nodiscard]] std::span<const Rules> all_rules();

// What `caching` without a release means.
inline constexpr int kNewestMinor = 15;
[[nodiscard]] const Rules& newest_rules();

// The release of recordings that do not name theirs. Goldens of other releases name them.
inline constexpr int kRecordedMinor = 11;
[[nodiscard]] const Rules& recorded_rules();

// Of "2.13" or "2.13.1"; null where the text is no release that is known.
[[nodiscard]] const Rules* find_rules(std::string_view release);

// A release as pip, torch.__version__ and people write it ("2.11.0+cu130", "v2.10", "torch==2.8",
// "2.16.0.dev20260901"), and the one whose rules answer for it.
struct ReadRelease {
  std::string number;  // as find_rules takes it: what was written, else the nearest that is known
  std::string note;    // what is known to differ; empty where that release itself is known
};
// Nothing where the text is no release of PyTorch from 2.4 on.
[[nodiscard]] std::optional<ReadRelease> read_release(std::string_view text);

// As find_rules, but throws UsageError that lists the known ones; `where` names the option.
[[nodiscard]] const Rules& require_rules(std::string_view release, const std::string& where);

}  // namespace allocmark::caching

// Goal: every allocator in the registry keeps the backend contract, under its default config and
// under some more. Method: each rule against each backend, generated from the two lists, so that a
// new backend is tested before its author writes a test. What a backend does not claim is printed
// as such and not counted as passed.
#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/registry.h"
#include "tests/allocators/conformance.h"
#include "tests/allocators/owned_blocks.h"
#include "tests/catch.h"
#include "tests/support/device_probe.h"
#include "tests/support/skip_without.h"

namespace allocmark {
namespace {

// Further configs under which the contract must hold too. `stream_ordered` where the config adds
// that claim.
struct Variant {
  std::string_view backend;
  std::string_view conf;
  bool stream_ordered = false;
};
constexpr Variant kVariants[] = {
    {"async", "pool:own,release_threshold_mb:max", true},
    {"async", "release_threshold_mb:64,reuse_allow_opportunistic:False", true},
    {"async", "reuse_follow_event_dependencies:False,reuse_allow_internal_dependencies:False",
     true},
    {"caching", "expandable_segments:True", true},
    {"caching", "max_split_size_mb:32,garbage_collection_threshold:0.8", true},
    {"caching", "roundup_power2_divisions:4", true},
    {"cub", "bin_growth:2,min_bin:9,max_bin:30,max_cached_mb:max", true},
    {"cub", "max_cached_mb:0", true},
    {"rmm", "resource:arena"},
    {"rmm", "resource:binning,min_bin:12,max_bin:16"},
    {"rmm", "resource:cuda_async"},
    {"rmm@25.12", "resource:arena"},
    {"rmm@26.10", "resource:arena"},
    {"rmm@26.10", "resource:binning,min_bin:12,max_bin:16"},
    {"rmm@26.10", "resource:cuda"},
    {"rmm@26.10", "resource:cuda_async"},
    {"pluggable", "library:" ALLOCMARK_PLUGGABLE_EXAMPLE ",trim:my_trim"},
    {"thrust_pool", "sync_at_free:always", true},
    {"bfc@tf2.21", "allow_growth:True,fraction:0.9"},
    {"bfc@xla-2026-09", "preallocate:False,garbage_collection:True"},
    {"bfc@xla-2026-09", "spatial_partitioning:False,fragmentation_fraction:0.01"},
    {"bfc@ort1.32", "strategy:as_requested,fraction:0.9"},
    {"bfc@ort1.32", "initial_chunk_mb:8,initial_growth_mb:4,max_dead_mb:1,max_extend_mb:64"},
    {"cupy", "fraction:0.9"},
    {"ggml_legacy", "flush_on_oom:False"},
    {"ggml_vmm", "free_order:any"},
    {"xla_vmm", "fraction:0.9", true},
    {"planned", "profile_steps:1,expandable_segments:True", true},
    {"host_caching", "pinned_max_round_threshold_mb:1"},
    {"host_caching", "pinned_max_cached_size_mb:4,pinned_use_background_threads:True"},
    {"host_caching", "pinned_reserve_segment_size_mb:64"},
    {"host_exact", "way:register"},
    {"host_pool", "release_threshold_mb:max", true},
    {"rmm_pinned", "initial_mb:8"},
    {"vmm_stitch", "chunk_mb:8,mapped_percent_max:100"},
    {"vmm_stitch", "other_streams:first"},
    {"thrust_pool",
     "alignment:256,smallest_block_size:256,largest_block_size:16MiB,cache_oversized:False", false},
};

// Where an allocator that is not ours breaks a rule and its wrapper cannot mend it. The rule must
// still be broken: once it is kept, the line goes.
struct Deviation {
  std::string_view backend;  // "rmm@": each rebuilt release of it
  std::string_view rule;
  std::string_view reason;
  std::string_view conf = "*";  // under this config string; "*": under each
  // It harms all later instances in the process, so it is tried after everything else.
  bool comes_last = false;
  bool on_gpu_only = false;
};
constexpr Deviation kDeviations[] = {
    {"rmm", "inner-event-failure", "RMM keeps the event that it could not create and uses it", ""},
    {"rmm", "inner-event-failure", "RMM keeps the event that it could not create and uses it",
     "resource:binning,min_bin:12,max_bin:16"},
    {"rmm", "trim", "RMM's own pools give memory back only when they end", ""},
    {"rmm", "trim", "RMM's own pools give memory back only when they end", "resource:arena"},
    {"rmm", "trim", "RMM's own pools give memory back only when they end",
     "resource:binning,min_bin:12,max_bin:16"},
    {"rmm@", "trim", "RMM's own pools give memory back only when they end", ""},
    {"rmm@", "trim", "RMM's own pools give memory back only when they end", "resource:arena"},
    {"rmm@", "trim", "RMM's own pools give memory back only when they end",
     "resource:binning,min_bin:12,max_bin:16"},
    {"rmm_pinned", "trim", "RMM's own pools give memory back only when they end"},
    {"bfc@tf2.21", "trim", "TensorFlow has no call that gives memory back"},
    {"bfc@tf2.21", "instances", "TensorFlow takes all free memory at its first request", ""},
    {"bfc@xla-2026-09", "trim", "XLA has no call that gives memory back"},
    {"bfc@ort1.32", "trim", "ONNX Runtime's Shrink keeps the first region", ""},
    {"bfc@ort1.32", "trim", "ONNX Runtime's Shrink keeps the first region",
     "initial_chunk_mb:8,initial_growth_mb:4,max_dead_mb:1,max_extend_mb:64"},
    {"ggml_vmm", "out-of-memory", "llama.cpp's pool of virtual memory has 32 GiB of addresses",
     "free_order:any"},
    {"ggml_vmm", "trim", "llama.cpp's pool of virtual memory gives nothing back", "free_order:any"},
    {"pluggable", "counters", "its interface has no function that tells what the library holds",
     "*", false, true},
    {"cub", "inner-event-failure",
     "CUB loses the block it has just got from cudaMalloc when it cannot create the block's event"},
    {"host_caching", "free-order",
     "what PyTorch's empty_cache takes back of its reserved segment serves nobody again",
     "pinned_reserve_segment_size_mb:64"},
    {"host_caching", "trim", "PyTorch never gives its reserved segment back",
     "pinned_reserve_segment_size_mb:64"},
    {"torch", "inner-event-failure",
     "c10 has already forgotten the block's other streams when recording an event on one fails",
     "*", true},
    {"torch", "instances", "c10 has one allocator per process"},
};

struct Row {
  const BackendEntry* entry;
  Subject subject;
};

Row row_of(const BackendEntry& entry, const Variant& variant) {
  Subject subject{.name = std::string(entry.name),
                  .conf = std::string(variant.conf),
                  .capabilities = entry.capabilities_for(std::string(variant.conf)),
                  .make_backend = entry.make};
  subject.capabilities.stream_ordered |= variant.stream_ordered;
  // Else a backend of the host's memory takes no more than the machine has free, which the rules
  // cannot use up: simcuda bounds what is pinned, and nothing of it is touched.
  if (entry.capabilities.side == MemorySide::Host && on_simcuda()) {
    subject.make_backend = [&entry](BackendOptions options) {
      if (options.memory_limit_bytes == 0) options.memory_limit_bytes = UINT64_MAX;
      return entry.make(options);
    };
  }
  return {.entry = &entry, .subject = subject};
}

void add_rows(const BackendEntry& entry, std::vector<Row>* rows) {
  if (entry.argument_keys.empty()) rows->push_back(row_of(entry, {}));
  for (const Variant& variant : kVariants) {
    if (variant.backend == entry.name) rows->push_back(row_of(entry, variant));
  }
}

std::vector<Row> make_rows() {
  std::vector<Row> result;
  for (const BackendEntry& entry : backend_registry()) add_rows(entry, &result);
  // Of other families the newest release stands in the registry, and parity holds the rest. Of
  // RMM's the oldest and the newest differ most; rmm_releases_test holds those between.
  for (const BackendEntry& entry : release_registry()) {
    if (entry.name == "rmm@25.12" || entry.name == "rmm@26.10") add_rows(entry, &result);
  }
  return result;
}

// Made once: a test case runs anew for each of its sections.
const std::vector<Row>& rows() {
  static const std::vector<Row> all = make_rows();
  return all;
}

bool is_about(const Deviation& deviation, std::string_view name) {
  return deviation.backend.ends_with('@') ? name.starts_with(deviation.backend)
                                          : name == deviation.backend;
}

const Deviation* deviation_of(const Subject& subject, const Rule& rule) {
  const auto* found =
      std::find_if(std::begin(kDeviations), std::end(kDeviations), [&](const Deviation& deviation) {
        return is_about(deviation, subject.name) && deviation.rule == rule.name &&
               (deviation.conf == "*" || deviation.conf == subject.conf) &&
               !(deviation.on_gpu_only && on_simcuda());
      });
  return found == std::end(kDeviations) ? nullptr : found;
}

// The backend's name comes first and alone before a colon: Catch2 2 indents by what stands before
// it, and aborts where that is wider than a line.
std::string title_of(const Rule& rule, const Subject& subject) {
  std::string title =
      subject.name + ": " + std::string(rule.sentence) + " [rule " + std::string(rule.name) + "]";
  return subject.conf.empty() ? title : title + " [conf " + subject.conf + "]";
}

void report(const std::string& title, const Verdict& verdict, const Deviation* deviation) {
  INFO("seed " << test_seed() << " (ALLOCMARK_SEED sets another)");
  if (verdict.outcome == Outcome::NotClaimed) {
    WARN(title << ": NOT CLAIMED: " << verdict.reason);
  } else if (deviation != nullptr) {
    WARN(title << ": KNOWN DEVIATION: " << deviation->reason << " (" << verdict.reason << ")");
    CHECK(verdict.outcome == Outcome::Broken);
  } else if (verdict.outcome == Outcome::Broken) {
    FAIL_CHECK(title << ": " << verdict.reason);
  } else {
    CHECK(verdict.outcome == Outcome::Kept);
  }
}

// The rule that mostly waits for threads that wait. It has test cases of its own, which CTest's
// entry runs at the same time.
constexpr std::string_view kSearch = "preemption";

// Allocators that may be missing have a test of their own, which is then skipped.
constexpr std::string_view kPlugins[] = {"torch", "rmm"};

void hold_rule(const Rule& rule, bool last, std::string_view plugin,
               std::span<const Row> of_rows = rows()) {
  for (const Row& row : of_rows) {
    const bool is_plugin = std::ranges::find(kPlugins, row.entry->name) != std::end(kPlugins);
    if (is_plugin ? row.entry->name != plugin : !plugin.empty()) {
      continue;
    }
    const Deviation* const deviation = deviation_of(row.subject, rule);
    const bool comes_last = deviation != nullptr && deviation->comes_last;
    if (comes_last != last) {
      continue;
    }
    const std::string title = title_of(rule, row.subject);
    DYNAMIC_SECTION(title) {
      const std::string unavailable = row.entry->unavailable_reason();
      const Verdict verdict = unavailable.empty()
                                  ? hold_against(rule, row.subject)
                                  : Verdict{.outcome = Outcome::NotClaimed, .reason = unavailable};
      report(title, verdict, deviation);
    }
  }
}

// Of one plugin, or of all other allocators. Catch2 looks at all sections beside one for each that
// runs, so rules have sections of their own.
void hold_rules(bool last, std::string_view plugin) {
  for (const Rule& rule : conformance_rules()) {
    if (plugin.empty() && !last && rule.name == kSearch) continue;
    DYNAMIC_SECTION("rule " << rule.name) { hold_rule(rule, last, plugin); }
  }
}

const Rule& search() {
  const auto rule = std::ranges::find(conformance_rules(), kSearch, &Rule::name);
  REQUIRE(rule != conformance_rules().end());
  return *rule;
}

}  // namespace

TEST_CASE("every registered allocator keeps the backend contract") { hold_rules(false, {}); }

TEST_CASE("the first registered allocators are right while a thread stands", "[search][first]") {
  hold_rule(search(), false, {}, std::span(rows()).first(rows().size() / 2));
}
TEST_CASE("the other registered allocators are right while a thread stands", "[search][other]") {
  hold_rule(search(), false, {}, std::span(rows()).subspan(rows().size() / 2));
}

// CUB's class says that it is thread-safe, and is not (BACKENDS.md). Once this is kept, `cub` can
// claim any thread.
TEST_CASE("cub breaks the rule of threads that it does not claim") {
  const BackendEntry& entry = find_backend("cub");
  if (!on_simcuda() || !entry.unavailable_reason().empty()) {
    WARN("not run: " << (on_simcuda() ? entry.unavailable_reason() : "this is a GPU"));
    return;
  }
  Row row = row_of(entry, {});
  CHECK(hold_against(search(), row.subject).outcome == Outcome::NotClaimed);
  row.subject.capabilities.any_thread = true;
  const Verdict verdict = hold_against(search(), row.subject);
  INFO(verdict.reason);
  CHECK(verdict.outcome == Outcome::Broken);
  CHECK(verdict.reason.find("a free stood at the begin of cuda") != std::string::npos);
}

// Test cases run in the order of the file.
TEST_CASE("registered allocators deviate where it is known") { hold_rules(true, {}); }

TEST_CASE("allocator torch keeps the backend contract", "[.torch]") {
  skip_without(find_backend("torch"));
  hold_rules(false, "torch");
}
TEST_CASE("allocator torch deviates where it is known", "[.torch]") { hold_rules(true, "torch"); }

TEST_CASE("allocator rmm keeps the backend contract", "[.rmm]") {
  skip_without(find_backend("rmm"));
  hold_rules(false, "rmm");
}
TEST_CASE("allocator rmm deviates where it is known", "[.rmm]") { hold_rules(true, "rmm"); }

}  // namespace allocmark

// The list of rules, and how one is held against a backend.
#include "tests/allocators/conformance.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/device_probe.h"

namespace allocmark {
namespace {

// A backend as the rules of plugins see an allocator. What the backend throws, and what its answers
// have beside the pointer, is noted here: the other side has no words for it.
class AsPlugin {
 public:
  explicit AsPlugin(const Subject& subject) : subject_(subject), backend_(subject.make()) {}

  [[nodiscard]] conformance::Plugin functions() {
    conformance::Plugin functions;
    functions.malloc = [this](ssize_t size_bytes, int, cudaStream_t stream) {
      void* pointer = nullptr;
      guard([&] { pointer = allocate(static_cast<std::uint64_t>(size_bytes), stream); });
      return pointer;
    };
    functions.free = [this](void* pointer, ssize_t size_bytes, int, cudaStream_t stream) {
      guard([&] { backend_->deallocate(pointer, static_cast<std::uint64_t>(size_bytes), stream); });
    };
    if (subject_.capabilities.stream_ordered) {
      functions.record_stream = [this](void* pointer, cudaStream_t stream) {
        guard([&] { backend_->record_stream(pointer, stream); });
      };
    }
    functions.trim = [this] { guard([&] { backend_->trim(); }); };
    functions.renew = [this] {
      guard([&] {
        backend_.reset();
        backend_ = subject_.make();
      });
    };
    return functions;
  }

  [[nodiscard]] conformance::Claims claims() const {
    const BackendCapabilities& capabilities = subject_.capabilities;
    return {.alignment_bytes = capabilities.alignment_bytes,
            .stream_ordered = capabilities.stream_ordered,
            .real_memory = capabilities.real_memory,
            .side = capabilities.side,
            .size_bits = 21,
            .streams = {streams_[0].get(), streams_[1].get(), streams_[2].get()}};
  }

  // Nothing is live any more, and `trimmed`: nor cached.
  void expect_counted_out(bool trimmed) const {
    const MemoryStats stats = backend_->stats(nullptr);
    expect(stats.allocated_bytes.value_or(0) == 0,
           fmt::format("{} bytes count as allocated after everything was freed",
                       stats.allocated_bytes.value_or(0)));
    expect(!trimmed || stats.reserved_bytes.value_or(0) == 0,
           fmt::format("reserved_bytes is {} after trim", stats.reserved_bytes.value_or(0)));
  }

  [[nodiscard]] std::string seen() {
    const std::scoped_lock lock(mutex_);
    return seen_;
  }

 private:
  void* allocate(std::uint64_t size_bytes, cudaStream_t stream) {
    const AllocateResult result = backend_->allocate(size_bytes, stream);
    if (result.status == AllocateStatus::Ok) {
      if (size_bytes != 0 && result.pointer == nullptr) note("a null pointer came with Ok");
    } else {
      if (size_bytes == 0) note("size 0 was refused");
      if (result.pointer != nullptr) note("a refused request returned a pointer");
    }
    return result.pointer;
  }
  template <typename Call>
  void guard(Call&& call) {
    try {
      call();
    } catch (const std::exception& thrown) {
      note(std::string("threw: ") + thrown.what());
    }
  }
  void note(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    if (seen_.empty()) seen_ = text;
  }

  const Subject& subject_;
  const std::array<Stream, 3> streams_;
  std::mutex mutex_;
  std::string seen_;
  std::unique_ptr<Backend> backend_;
};

struct NotClaimed {
  std::string reason;
};

void check_as_plugin(const conformance::Rule& rule, const Subject& subject) {
  AsPlugin allocator(subject);
  conformance::Scene scene(allocator.functions(), SimcuApi::find(), allocator.claims());
  std::string broken;
  try {
    (void)rule.check(scene);
  } catch (const conformance::Broken& seen) {
    broken = seen.seen;
  } catch (const conformance::NotApplicable& reason) {
    throw NotClaimed{reason.reason};
  }
  const std::string noted = allocator.seen();
  expect(broken.empty(), broken + (noted.empty() ? "" : "; " + noted));
  expect(noted.empty(), noted);
  allocator.expect_counted_out(rule.name == "trim");
}

const Rule kBackendRules[] = {
    {"absurd-sizes", "a size beyond any device is refused as a value", Needs::Nothing,
     rules::absurd_sizes_are_refused},
    {"zero-apart", "live blocks of size 0 have no address, or one of their own", Needs::Nothing,
     rules::blocks_without_size_are_apart},
    {"refusal", "a failed request changes nothing and a smaller one then succeeds",
     Needs::RealMemory, rules::failure_changes_nothing},
    {"memory-limit", "a memory limit is kept, and freed memory counts again", Needs::MemoryLimit,
     rules::memory_limit_is_kept},
    {"inner-memory-failure",
     "whichever inner request for memory fails, nothing leaks and the backend stays usable",
     Needs::Faults, rules::inner_memory_failure_leaks_nothing},
    {"inner-event-failure",
     "whichever inner event call fails, nothing leaks and the backend stays usable", Needs::Faults,
     rules::inner_event_failure_leaks_nothing},
    {"counters", "what is reserved is never less than what is live", Needs::RealMemory,
     rules::reserved_covers_live},
    {"threads-at-once", "threads free what others asked for, all at once", Needs::AnyThread,
     rules::threads_free_for_each_other},
    {"early-reuse", "memory freed on one stream is not used by another before the first gets there",
     Needs::StreamOrder, rules::free_is_ordered},
    {"early-recorded-reuse",
     "memory used on a recorded stream is not used again before that stream is done",
     Needs::StreamOrder, rules::recorded_use_is_ordered},
    {"instances", "two instances do not disturb each other", Needs::RealMemory,
     rules::instances_are_apart},
    {"end", "an instance that ends with live blocks gives their memory back", Needs::RealMemory,
     rules::end_gives_live_blocks_back},
    {"repeat", "the same trace gives the same statuses twice", Needs::RealMemory,
     rules::statuses_repeat},
};

std::string missing_claim(Needs needs, const BackendCapabilities& capabilities) {
  const auto lacking = [&](std::string_view what) {
    return on_simcuda() ? "" : fmt::format("(test) only simcuda can {}; this is a GPU", what);
  };
  if (capabilities.frees_in_reverse) return "serves frees in reverse order alone";
  switch (needs) {
    case Needs::Nothing:
    case Needs::PluginInterface:
      return {};
    case Needs::RealMemory:
      return capabilities.real_memory ? "" : "has no memory behind its addresses";
    case Needs::MemoryLimit:
      return capabilities.honours_memory_limit ? "" : "does not enforce a memory limit of its own";
    case Needs::AnyThread:
      return capabilities.any_thread ? "" : "is for one thread";
    case Needs::StreamOrder:
      return capabilities.stream_ordered ? "" : "does not order reuse between streams";
    case Needs::ProvenOrder:
      if (!capabilities.stream_ordered) return "does not order reuse between streams";
      if (capabilities.side == MemorySide::Host)
        return "hands out memory of the host, whose use by streams simcuda does not follow";
      return lacking("prove an order");
    case Needs::Faults:
      if (!capabilities.real_memory) return "has no memory behind its addresses";
      return lacking("make inner calls fail");
    case Needs::StoppedThreads:
      if (!capabilities.real_memory) return "has no memory behind its addresses";
      if (!capabilities.any_thread) return "is for one thread";
      return lacking("stop a thread at a call");
  }
  return {};
}

}  // namespace

std::span<const Rule> conformance_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all;
    for (const conformance::Rule& rule : conformance::all_rules()) {
      if (rule.needs == Needs::PluginInterface) continue;
      all.push_back({rule.name, rule.sentence, rule.needs,
                     [&rule](const Subject& subject) { check_as_plugin(rule, subject); }});
    }
    all.insert(all.end(), std::begin(kBackendRules), std::end(kBackendRules));
    return all;
  }();
  return rules;
}

Verdict hold_against(const Rule& rule, const Subject& subject) {
  const std::string missing = missing_claim(rule.needs, subject.capabilities);
  if (!missing.empty()) {
    return {.outcome = Outcome::NotClaimed, .reason = missing};
  }
  Verdict verdict;
  try {
    rule.check(subject);
  } catch (const RuleBroken& broken) {
    verdict = {.outcome = Outcome::Broken, .reason = broken.reason};
  } catch (const NotClaimed& claim) {
    verdict = {.outcome = Outcome::NotClaimed, .reason = claim.reason};
  } catch (const std::exception& error) {
    verdict = {.outcome = Outcome::Broken, .reason = std::string("threw: ") + error.what()};
  }
  (void)cudaGetLastError();  // one subject's error must not be found by the next
  return verdict;
}

}  // namespace allocmark

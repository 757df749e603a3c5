// The list of rules, and how one is held against a backend.
#include "tests/allocators/conformance.h"

#include <cuda_runtime_api.h>

#include <array>
#include <exception>
#include <string>

#include "tests/support/device_probe.h"

namespace allocmark {
namespace {

constexpr std::array kRules = {
    Rule{"1a", "every pointer is aligned as claimed", Needs::Nothing, rules::pointers_are_aligned},
    Rule{"1b", "the device reaches the first and last byte of a block", Needs::RealMemory,
         rules::device_reaches_every_byte},
    Rule{"2a", "live blocks never overlap", Needs::Nothing, rules::live_blocks_never_overlap},
    Rule{"2b", "what an owner writes survives until it is freed", Needs::RealMemory,
         rules::contents_survive},
    Rule{"3", "size 0 is allowed and can be given back", Needs::Nothing,
         rules::size_zero_can_be_given_back},
    Rule{"4a", "a size beyond any device is refused as a value", Needs::Nothing,
         rules::absurd_sizes_are_refused},
    Rule{"4b", "a failed request changes nothing and a smaller one then succeeds",
         Needs::RealMemory, rules::failure_changes_nothing},
    Rule{"4c", "a memory limit is kept, and freed memory counts again", Needs::MemoryLimit,
         rules::memory_limit_is_kept},
    Rule{"5a",
         "whichever inner request for memory fails, nothing leaks and the backend stays usable",
         Needs::Faults, rules::inner_memory_failure_leaks_nothing},
    Rule{"5b", "whichever inner event call fails, nothing leaks and the backend stays usable",
         Needs::Faults, rules::inner_event_failure_leaks_nothing},
    Rule{"6a", "after everything is freed the same trace fits again", Needs::RealMemory,
         rules::same_trace_fits_again},
    Rule{"6b", "what is reserved is never less than what is live", Needs::RealMemory,
         rules::reserved_covers_live},
    Rule{"6c", "trim with nothing live gives everything back", Needs::RealMemory,
         rules::trim_reaches_the_floor},
    Rule{"7a", "blocks can be freed on another thread", Needs::AnyThread,
         rules::free_on_another_thread},
    Rule{"7b", "while one thread stands at any CUDA call, others are served right",
         Needs::StoppedThreads, rules::threads_at_every_call},
    Rule{"8a", "memory freed on one stream is not used by another before the first gets there",
         Needs::StreamOrder, rules::free_is_ordered},
    Rule{"8b", "memory used on a recorded stream is not used again before that stream is done",
         Needs::StreamOrder, rules::recorded_use_is_ordered},
    Rule{"9a", "two instances do not disturb each other", Needs::RealMemory,
         rules::instances_are_apart},
    Rule{"9b", "an instance that ends with live blocks gives their memory back", Needs::RealMemory,
         rules::end_gives_live_blocks_back},
    Rule{"10", "the same trace gives the same statuses twice", Needs::RealMemory,
         rules::statuses_repeat},
};

std::string missing_claim(Needs needs, const BackendCapabilities& capabilities) {
  switch (needs) {
    case Needs::Nothing:
      return {};
    case Needs::RealMemory:
      return capabilities.real_memory ? "" : "has no memory behind its addresses";
    case Needs::MemoryLimit:
      return capabilities.honours_memory_limit ? "" : "does not enforce a memory limit of its own";
    case Needs::AnyThread:
      return capabilities.any_thread ? "" : "is for one thread";
    case Needs::StreamOrder:
      return capabilities.stream_ordered ? "" : "does not order reuse between streams";
    case Needs::Faults:
      if (!capabilities.real_memory) {
        return "has no memory behind its addresses";
      }
      return on_simcuda() ? "" : "(test) only simcuda can make inner calls fail; this is a GPU";
    case Needs::StoppedThreads:
      if (!capabilities.real_memory) return "has no memory behind its addresses";
      if (!capabilities.any_thread) return "is for one thread";
      return on_simcuda() ? "" : "(test) only simcuda can stop a thread at a call; this is a GPU";
  }
  return {};
}

}  // namespace

std::span<const Rule> conformance_rules() { return kRules; }

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
  } catch (const std::exception& error) {
    verdict = {.outcome = Outcome::Broken, .reason = std::string("threw: ") + error.what()};
  }
  (void)cudaGetLastError();  // one subject's error must not be found by the next
  return verdict;
}

}  // namespace allocmark

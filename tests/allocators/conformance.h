// The backend contract as rules that any backend can be held against: the registry's, and those
// with planted faults that show that the rules catch them. A rule gives a verdict and asserts
// nothing itself. Checks; times nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "allocators/backend/backend.h"
#include "harness/tools/conformance/rule.h"

namespace allocmark {

// A backend under a config string.
struct Subject {
  std::string name;
  std::string conf;
  BackendCapabilities capabilities;
  std::function<std::unique_ptr<Backend>(const BackendOptions&)> make_backend;

  [[nodiscard]] std::unique_ptr<Backend> make(std::uint64_t memory_limit_bytes = 0) const {
    return make_backend({.conf = conf, .memory_limit_bytes = memory_limit_bytes});
  }
};

enum class Outcome : std::uint8_t { Kept, Broken, NotClaimed };

struct Verdict {
  Outcome outcome = Outcome::Kept;
  std::string reason;  // why broken or not claimed
};

// Thrown inside a rule where the backend breaks it.
struct RuleBroken {
  std::string reason;
};

inline void expect(bool holds, const std::string& otherwise) {
  if (!holds) {
    throw RuleBroken{otherwise};
  }
}

using conformance::Needs;

struct Rule {
  std::string_view name;
  std::string_view sentence;  // what holds, in plain words
  Needs needs = Needs::Nothing;
  std::function<void(const Subject& subject)> check;
};

// Those that plugins are held against too (harness/tools/conformance/rules.cc), where a backend has
// what they are about, and those of backends alone.
[[nodiscard]] std::span<const Rule> conformance_rules();

[[nodiscard]] Verdict hold_against(const Rule& rule, const Subject& subject);

// The checks of backends alone.
namespace rules {
void absurd_sizes_are_refused(const Subject& subject);
void failure_changes_nothing(const Subject& subject);
void memory_limit_is_kept(const Subject& subject);
void inner_memory_failure_leaks_nothing(const Subject& subject);
void inner_event_failure_leaks_nothing(const Subject& subject);
void reserved_covers_live(const Subject& subject);
void blocks_without_size_are_apart(const Subject& subject);
void threads_free_for_each_other(const Subject& subject);
void free_is_ordered(const Subject& subject);
void recorded_use_is_ordered(const Subject& subject);
void instances_are_apart(const Subject& subject);
void end_gives_live_blocks_back(const Subject& subject);
void statuses_repeat(const Subject& subject);
}  // namespace rules

}  // namespace allocmark

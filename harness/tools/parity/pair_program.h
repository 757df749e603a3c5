// Random operations on two implementations in step, ours and the original as a rule: what is asked
// of the two, and how it went. Checks; times nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace allocmark {

struct PairProgram {
  std::uint64_t seed = 1;
  std::uint64_t operation_count = 0;
  std::string rules;  // whose: a release of PyTorch as "2.13.0", "tf2.21" or "xla-2026-09"
};

// Up to the first difference.
struct PairResult {
  std::string setting{};  // of both, in words
  std::uint64_t operation_count = 0;
  std::map<std::string, std::uint64_t> counts{};  // of what was done and compared, by its name
  bool has_ended = false;   // at an operation where the original ends the process
  std::string operation{};  // the one that differs; empty where none does
  std::string theirs{};
  std::string ours{};

  void differs(std::string at, std::string their, std::string our) {
    operation = std::move(at);
    theirs = std::move(their);
    ours = std::move(our);
  }
};

}  // namespace allocmark

// What to do after a verdict: the line to try, where the arithmetic leaves one, and what to record
// so that the question can be answered. A message and its verdict flow in; lines to paste flow out.
#pragma once

#include <string>
#include <vector>

#include "harness/tools/why/message/verdict.h"

namespace allocmark::message {

struct Remedy {
  std::string setting{};               // "expandable_segments:True"; empty where none is named
  std::string variable{};              // for it
  std::string last_line{};             // of the answer: what to set, or that nothing is to be set
  std::vector<std::string> changes{};  // what else can be done, a sentence each
  std::string record_title{};          // what the lines below are for
  std::vector<std::string> record{};   // lines to paste
};

// Of memory of the host that was not pinned.
[[nodiscard]] Remedy for_pinning(const Message& message);

[[nodiscard]] Remedy remedy_for(const Message& message, const Verdict& verdict);

}  // namespace allocmark::message

// What is answered to the first message of a text.
#pragma once

#include <string>

#include "harness/tools/why/message/message_text.h"
#include "harness/tools/why/message/remedies.h"
#include "harness/tools/why/message/verdict.h"
#include "tests/catch.h"
#include "tests/harness/why/message/find_messages.h"

namespace allocmark::message {

struct Answer {
  Verdict verdict;
  Remedy remedy;
  std::string text;
};

inline Answer answer_to(const std::string& text) {
  const FoundMessages found = find_messages(text);
  INFO(text);
  REQUIRE(!found.messages.empty());
  const Verdict verdict = judge(found.messages[0]);
  return {verdict, remedy_for(found.messages[0], verdict), to_text(found, "oom.txt")};
}

inline bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace allocmark::message

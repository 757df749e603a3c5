// The messages of a text that is there as a whole.
#pragma once

#include <string_view>

#include "harness/tools/why/message/message.h"

namespace allocmark::message {

inline FoundMessages find_messages(std::string_view source) {
  MessageReader reader;
  reader.add(source);
  return reader.finish();
}

}  // namespace allocmark::message

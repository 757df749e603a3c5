// The answer to a pasted text, as text, JSON and Markdown.
#pragma once

#include <string>
#include <string_view>

#include "harness/tools/why/message/message.h"

namespace allocmark::message {

// First the answer in one sentence, last what to set. `name` is the file's, as it was given.
[[nodiscard]] std::string to_text(const FoundMessages& found, std::string_view name);
[[nodiscard]] std::string to_json(const FoundMessages& found, std::string_view name);
[[nodiscard]] std::string to_markdown(const FoundMessages& found, std::string_view name);

}  // namespace allocmark::message

// Lets nlohmann-json replace what is not valid: a text goes to JSON and back.
#include "results/utf8.h"

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace allocmark {

std::string valid_utf8(std::string_view text) {
  const nlohmann::json stored = std::string(text);
  return parse_json(json_text(stored)).get<std::string>();
}

}  // namespace allocmark

// Fields of a Hugging Face config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace allocmark {

using Json = nlohmann::json;

// A number above or equal to 0; nothing where the field is not there or something else.
[[nodiscard]] inline std::optional<std::uint64_t> number_of(const Json& config,
                                                            std::string_view field) {
  const auto found = config.find(field);
  if (found == config.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

[[nodiscard]] inline bool is_on(const Json& config, const char* field) {
  const auto found = config.find(field);
  return found != config.end() && *found == true;
}
[[nodiscard]] inline bool is_off(const Json& config, const char* field) {
  const auto found = config.find(field);
  return found != config.end() && *found == false;
}

}  // namespace allocmark

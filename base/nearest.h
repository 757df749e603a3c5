// "Did you mean ...": names close to a misspelled one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

// Up to `count_max` of `known`, nearest to `name` first (edit distance, case ignored; a name that
// shares a long common part counts as near). Names that have little in common with it are left out.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view name,
                                                     const std::vector<std::string>& known,
                                                     std::size_t count_max = 3);

// "did you mean 'a' or 'b'?" from nearest_names. Where nothing is near: "known: a, b, c" if they
// are few, else some of them; with `list_command`, which prints all, that is named instead.
[[nodiscard]] std::string suggest(std::string_view name, const std::vector<std::string>& known,
                                  std::string_view list_command = {});

}  // namespace allocmark

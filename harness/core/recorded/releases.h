// Which release of PyTorch an answer is for: the one that the user names, or one that puts blocks
// in the same places as the recording. Releases with equal rules for that cannot be told apart.
#pragma once

#include <string>
#include <vector>

#include "allocators/caching/release.h"

namespace allocmark {

// All releases that put blocks in the same places, oldest first.
[[nodiscard]] std::vector<const caching::Rules*> releases_placing_as(const caching::Rules& found);

// A line of the answer for `used`; `given`: the user named it.
[[nodiscard]] std::string release_line(const caching::Rules& used, bool given);

// A line that names the possible releases which have not every key of `conf`; empty where all do.
[[nodiscard]] std::string refusal_line(const std::string& conf, const caching::Rules& used,
                                       bool given);

// What a possible release does to a program's memory with one of these config strings, each once.
[[nodiscard]] std::vector<std::string> danger_notes(const std::vector<std::string>& confs,
                                                    const caching::Rules& used, bool given);

}  // namespace allocmark

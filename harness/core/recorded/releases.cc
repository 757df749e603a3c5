#include "harness/core/recorded/releases.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "allocators/caching/config.h"
#include "allocators/caching/explain.h"

namespace allocmark {
namespace {

// Releases whose allocator the answer may be of: the one given, or all that may be the one found.
std::vector<const caching::Rules*> possible_releases(const caching::Rules& used, bool given) {
  return given ? std::vector{&used} : releases_placing_as(used);
}

// The oldest release that is known here places blocks as all before it did.
bool reaches_back(const std::vector<const caching::Rules*>& releases) {
  return releases.front() == &caching::all_rules().front();
}

// "2.13, 2.14"
std::string names_of(const std::vector<const caching::Rules*>& releases) {
  std::vector<std::string> names;
  for (const caching::Rules* one : releases) names.push_back(one->name());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::vector<const caching::Rules*> releases_placing_as(const caching::Rules& found) {
  std::vector<const caching::Rules*> releases;
  for (const caching::Rules& rules : caching::all_rules()) {
    if (rules.tie_break == found.tie_break) releases.push_back(&rules);
  }
  return releases;
}

std::string release_line(const caching::Rules& used, bool given) {
  const std::string name = used.name();
  if (given) return fmt::format("release: PyTorch {}, as given\n", name);
  const auto releases = possible_releases(used, given);
  if (releases.size() == 1) return fmt::format("release: PyTorch {}, by where blocks lie\n", name);
  if (reaches_back(releases)) {
    return fmt::format(
        "release: PyTorch {} or earlier, by where blocks lie; the answer is for {} (--pytorch V: "
        "another)\n",
        releases.back()->name(), name);
  }
  return fmt::format(
      "release: one of PyTorch {}, by where blocks lie; the answer is for {} (--pytorch V: "
      "another)\n",
      names_of(releases), name);
}

std::string refusal_line(const std::string& conf, const caching::Rules& used, bool given) {
  std::vector<const caching::Rules*> refusing = possible_releases(used, given);
  std::erase_if(refusing, [&](const caching::Rules* one) {
    return !caching::parse_strict(conf, *one).error.has_value();
  });
  if (refusing.empty()) return "";
  if (!given && reaches_back(refusing)) {
    return fmt::format(
        "PyTorch {} and earlier have no such key: --pytorch V advises for your release.\n",
        refusing.back()->name());
  }
  return fmt::format("PyTorch {} {} no such key: --pytorch V advises for your release.\n",
                     names_of(refusing), refusing.size() == 1 ? "has" : "have");
}

std::vector<std::string> danger_notes(const std::vector<std::string>& confs,
                                      const caching::Rules& used, bool given) {
  std::vector<std::string> notes;
  for (const std::string& conf : confs) {
    for (const caching::Rules* const one : possible_releases(used, given)) {
      const std::vector<std::string> dangers = caching::conf_dangers(conf, *one);
      if (dangers.empty()) continue;
      // Other releases do the same, as the note says.
      const std::string note = fmt::format("{}: {}", conf, dangers.front());
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
      break;
    }
  }
  return notes;
}

}  // namespace allocmark

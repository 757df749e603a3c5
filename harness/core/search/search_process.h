// The search in processes of their own, which have the simulated device's CUDA runtime in front. A
// specification flows in and is divided by settings; the joined facts flow out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/search/search.h"

namespace allocmark {

// The result for those who read --format json: null for what no pass measured. Without passes at
// one capacity (`at_capacity` false), and of a setting that could not be tried, that is everything
// that is counted there.
[[nodiscard]] nlohmann::json to_told_json(const SearchResult& result, bool at_capacity);

class InterruptGuard;

struct SearchPlace {
  std::string device;        // "sim:..."
  std::string program_path;  // what is started with "cell"
  std::uint32_t process_count = 1;
  const InterruptGuard* interrupt = nullptr;  // may be null
  int handed_fd = -1;                         // the file of SearchSpec::handed
};

// Blocks until all processes have ended; `on_setting` is called after each setting, from
// several threads. Throws what a process ended with. After an interrupt the result has the settings
// that were done by then, and may have none.
[[nodiscard]] SearchResult run_search(
    const SearchSpec& spec, const SearchPlace& place,
    const std::function<void()>& on_setting = [] {});

}  // namespace allocmark

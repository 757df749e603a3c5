// The settings of PyTorch's allocator that a snapshot was recorded under.
#pragma once

#include <string>

#include "allocators/caching/settings.h"
#include "workloads/import/memory_snapshot.h"

namespace allocmark {

struct RecordedSettings {
  caching::Settings settings;
  std::string conf;     // what of the recorded config string is known here; empty: unset
  std::string unknown;  // keys of it that are not, "a:1,b:2"
};

// A snapshot does not say its release: `rules` are those of the one to try.
[[nodiscard]] RecordedSettings recorded_settings(const SnapshotSettings& recorded,
                                                 const caching::Rules& rules);

}  // namespace allocmark

// What makes two GPUs comparable: the same model in the same type of machine under the same driver,
// looked at equally long. A report flows in; a key to sort by flows out.
#pragma once

#include <compare>
#include <string>

#include "harness/tools/qualify/result.h"

namespace allocmark::fleet {

struct KindKey {
  std::string model, machine, driver, level;
  friend auto operator<=>(const KindKey&, const KindKey&) = default;
};

// Where the system does not tell the type of machine, its processor stands for it.
[[nodiscard]] KindKey kind_of(const qualify::Report& report, const qualify::GpuReport& gpu);

}  // namespace allocmark::fleet

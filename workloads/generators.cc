// The registry of generators. Its names stand in the CMakeLists.txt of this folder and of
// patterns/.
#include "workloads/generators.h"

#include <vector>

#include "workloads/generator_list.h"

namespace allocmark {

std::span<const GeneratorEntry> generators() {
  static const std::vector<GeneratorEntry> entries = [] {
    std::vector<GeneratorEntry> all;
    for (const GeneratorEntry* entry : kGeneratorEntries) all.push_back(*entry);
    return all;
  }();
  return entries;
}

}  // namespace allocmark

// What a bundle would tell of the person and the machine that made it. Flows in: a bundle's files;
// flows out: the same without the paths of programs, and the paths that are left, since they are
// names of workloads or libraries that somebody gave.
#pragma once

#include <string>
#include <vector>

#include "harness/tools/bundle/bundle.h"

namespace allocmark {

// In plans programs and libraries keep their file's name alone: the paths serve who runs them again
// on the same machine.
void leave_out_paths(BundleFiles* files);

struct PrivateWord {
  std::string file;  // of the bundle
  std::string word;  // "/home/me/job.csv"
};

// Paths from the root that the records name, each once, the first few.
[[nodiscard]] std::vector<PrivateWord> private_words(const BundleFiles& files);

}  // namespace allocmark

// What tests of whole qualifications share: simulated GPUs with something planted in them.
#pragma once

#include <cstdlib>
#include <string>

#include "harness/tools/qualify/conduct.h"

namespace allocmark::qualify {

// The variables of the simulated GPUs while it lives.
class Plant {
 public:
  Plant(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), /*overwrite=*/1);
  }
  ~Plant() { unsetenv(name_); }
  Plant(const Plant&) = delete;
  Plant& operator=(const Plant&) = delete;

 private:
  const char* name_;
};

inline ConductOptions options_for(int gpu_count) {
  ConductOptions options;
  options.device = "sim:h200";
  options.simulated_gpu_count = gpu_count;
  options.level = find_level("quick");
  options.thresholds = default_thresholds();
  options.program_path = ALLOCMARK_PROGRAM;
  return options;
}

}  // namespace allocmark::qualify

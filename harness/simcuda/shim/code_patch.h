// Writes over a static runtime's functions, so that calls of them come to us. In: functions of one
// module, and where their calls shall go. Out: changed code.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/simcuda/shim/stripped_runtime.h"

namespace simcuda {

// The functions' code can be written while this lives.
class CodePatch {
 public:
  explicit CodePatch(const std::vector<RuntimeFunction>& functions);
  ~CodePatch();
  CodePatch(const CodePatch&) = delete;
  CodePatch& operator=(const CodePatch&) = delete;

  // False where the code cannot be written, or the function is too short.
  [[nodiscard]] bool write_jump(const RuntimeFunction& from, const void* to) const;
  // Calls are counted and reported as those of a function that simcuda lacks. `name` stays.
  [[nodiscard]] bool write_lack(const RuntimeFunction& from, const char* name) const;

 private:
  void* pages_ = nullptr;
  std::uint64_t size_bytes_ = 0;
  bool can_write_ = false;
};

}  // namespace simcuda

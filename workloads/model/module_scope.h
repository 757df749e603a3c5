// Where a module's own computation begins and ends.
#pragma once

#include "workloads/model/tape.h"

namespace allocmark {

// What is recorded in between belongs to a module, unless it is within another one's.
class ModuleScope {
 public:
  ModuleScope(Tape& tape, const Module& module)
      : tape_(tape), begins_(tape_.begin_module(module)) {}
  ~ModuleScope() {
    if (begins_) tape_.end_module();
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  Tape& tape_;
  bool begins_;
};

}  // namespace allocmark

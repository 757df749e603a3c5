// Adapters beside a frozen model, as peft makes them.
#pragma once

#include <cstdint>

#include "workloads/model/functions.h"

namespace allocmark {

// Which of a block's products have adapters.
enum class LoraTargets : std::uint8_t { QueryAndValue, Attention, Mlp, All };

struct LoraSettings {
  std::uint64_t rank = 0;  // 0: none; adapters in four bytes, everything else frozen
  LoraTargets targets = LoraTargets::QueryAndValue;
  WeightBits bits = WeightBits::Whole;  // of the blocks' matrices
  bool dropout = false;                 // of the adapters' inputs
  bool in_own_type = false;  // adapters have the model's type, as sharded parameters need
  // Copies of the table of words and the head are trained, too (peft's modules_to_save). The frozen
  // ones stay.
  bool trains_tables = false;

  // The embedding's output asks for a gradient, as peft has it where blocks are checkpointed.
  bool input_gradient = false;
};

}  // namespace allocmark

// A recorded program as requests and frees, for blocks of a profile that use memory as programs do.
// A trace's name flows in; steps flow out. Times nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace allocmark {

struct SlotStep {
  std::uint32_t slot = 0;
  std::uint64_t size_bytes = 0;
  bool is_free = false;
};

struct SlotProgram {
  std::vector<SlotStep> steps;  // every slot is empty again at the end
  std::uint32_t slot_count = 0;
};

// What the program holds when that step begins.
[[nodiscard]] std::uint64_t held_bytes_before(const SlotProgram& program, std::size_t step_index);

// Throws UsageError where there is no such trace.
[[nodiscard]] SlotProgram load_program(std::string_view workload);

// Variable-length inference (BERT, 1 GiB), adapter training (Llama, 2 GiB) and training (GPT-2, 20
// GiB).
inline constexpr std::string_view kSmallProgramName = "bert_varlen_infer";
inline constexpr std::string_view kMediumProgramName = "llama_lora_varlen_accum";
inline constexpr std::string_view kLargeProgramName = "gpt2_train_amp";

}  // namespace allocmark

// What a stack of frames says about the memory that was asked for with it: whether a module's
// forward pass, the backward pass, an optimizer or a loader asked. The innermost frame that a rule
// knows decides.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/import/memory_snapshot.h"

namespace allocmark {

enum class StackKind : std::uint8_t {
  None,            // no frames
  Own,             // frames that no rule knows
  Weights,         // modules are made, moved or loaded; parameters are gathered
  Optimizer,       // a step of an optimizer
  OptimizerState,  // it makes its state
  Backward,
  Gradients,  // they are accumulated or reduced
  Forward,
  Recompute,  // a forward pass inside a backward pass
  KvCache,
  Inputs,
  Scratch,  // clipping and scaling of gradients
};

[[nodiscard]] StackKind kind_of_stack(const MemorySnapshot& snapshot, std::uint32_t stack);

// A frame of the program itself, not of PyTorch or an installed package.
[[nodiscard]] bool is_own_frame(const MemorySnapshot& snapshot, std::uint32_t frame);
// A text from the snapshot, safe to print on one line (results/columns/text.h) and cut where it is
// too long to read.
[[nodiscard]] std::string shortened(std::string_view text);
// "train.py:33 forward"
[[nodiscard]] std::string frame_words(const MemorySnapshot& snapshot, std::uint32_t frame);
// "train.py:33 forward < train.py:80 main": own frames, at most three, innermost first; the
// innermost one where there are none.
[[nodiscard]] std::string own_frames(const MemorySnapshot& snapshot, std::uint32_t stack);
// The innermost frame and then up to two own ones.
[[nodiscard]] std::string stack_words(const MemorySnapshot& snapshot, std::uint32_t stack);
// "model > attention > linear": the files whose forward() was being called, outermost first; empty
// where none was.
[[nodiscard]] std::string module_words(const MemorySnapshot& snapshot, std::uint32_t stack);
// Frames for a picture, outermost first: Python's where there are some, without the calls that
// stand around each module.
[[nodiscard]] std::vector<std::uint32_t> drawn_frames(const MemorySnapshot& snapshot,
                                                      std::uint32_t stack);

}  // namespace allocmark

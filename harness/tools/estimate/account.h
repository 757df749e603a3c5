// What is live when a job needs most, by kind and by phase. Events flow in; sums flow out. Nothing
// is replayed: this is what the program asks for, whatever allocator serves it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "workloads/trace/event.h"

namespace allocmark {

// What live bytes are for, as a person thinks of it.
enum class MemoryUse : std::uint8_t {
  Weights,
  Gradients,  // of weights: requests labelled as gradients that are as large as a weight
  Optimizer,
  Activations,  // with their gradients
  Logits,       // scores of all words, their gradients and casts: found by size
  KvCache,
  Workspaces,
  Communication,
  Other,  // of recordings, which do not say what a block is for
};
inline constexpr std::size_t kMemoryUseCount = 9;
[[nodiscard]] std::string_view memory_use_name(MemoryUse use);
using BytesByUse = std::array<std::uint64_t, kMemoryUseCount>;

// Sizes in bytes that only logits have; empty: none are told apart.
using LogitsSizes = std::vector<std::uint64_t>;

// Of a text of one generator that says its model and lengths: "train:gpt2-124m,seq=512".
[[nodiscard]] LogitsSizes logits_sizes_of(std::string_view workload);

// "step12" is of phase "step", "backward" of "backward".
[[nodiscard]] std::string phase_of_label(std::string_view label);

struct PhasePeak {
  std::string name;
  std::uint64_t live_bytes = 0;            // the most that is live while it lasts
  std::vector<std::uint64_t> by_use = {};  // then; by MemoryUse
};

// The phases of a job: what comes before the first mark is "load". A mark whose phase is "step"
// opens none where the job also marks "forward": it stands before each of them.
class PhaseNames {
 public:
  // The index of the phase that the mark opens; that of `current` where it opens none.
  [[nodiscard]] std::size_t after(std::string_view label, std::size_t current);
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  explicit PhaseNames(bool marks_forward) : marks_forward_(marks_forward) {}

 private:
  bool marks_forward_;
  std::vector<std::string> names_ = {"load"};
};

class MemoryAccount {
 public:
  explicit MemoryAccount(LogitsSizes logits) : logits_(std::move(logits)) {}

  void add(const Event& event);
  // `is_step`: the optimizer's, where a gradient of another size than any weight's is no
  // activation's, but one of parts or of many.
  void enter(std::size_t phase, bool is_step = false);

  [[nodiscard]] std::uint64_t peak_bytes() const { return peak_bytes_; }
  [[nodiscard]] std::size_t peak_phase() const { return peak_phase_; }
  [[nodiscard]] std::vector<PhasePeak> phases(const std::vector<std::string>& names) const;

 private:
  struct Block {
    std::uint64_t size_bytes = 0;
    MemoryUse use = MemoryUse::Other;
  };
  struct Peak {
    std::uint64_t live_bytes = 0;
    BytesByUse by_use = {};
  };

  [[nodiscard]] MemoryUse use_of(const Event& event) const;
  void note_peak();

  LogitsSizes logits_;
  std::unordered_map<std::uint64_t, Block> blocks_;           // live, by id
  std::unordered_map<std::uint64_t, std::uint64_t> weights_;  // how many of a size are live
  std::uint64_t live_bytes_ = 0;
  BytesByUse by_use_ = {};
  std::vector<Peak> peaks_ = {Peak{}};  // by phase
  std::size_t phase_ = 0;
  bool is_step_ = false;
  std::uint64_t peak_bytes_ = 0;
  std::size_t peak_phase_ = 0;
};

}  // namespace allocmark

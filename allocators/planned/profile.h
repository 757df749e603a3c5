// What a program asks for in a step: the first steps' requests and frees flow in, steps flow out.
// Times are ticks: every request and every free of a step is one, from 1 on. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace allocmark::planned {

struct StepRequest {
  std::uint64_t size_bytes = 0;  // rounded
  std::uint64_t stream = 0;
  std::uint64_t begin = 0;     // its tick
  std::uint64_t end = 0;       // the tick of its free in this step; 0: it outlives the step
  std::uint64_t end_next = 0;  // the tick in the next step, of one that does; 0: not freed there
};

struct Step {
  std::vector<StepRequest> requests = {};
  std::uint64_t tick_count = 0;
};

class Profile {
 public:
  // A step begins, and the one before has ended. What was asked for before the first is no step.
  void begin_step();
  // A block that was handed out, and one that came back; frees of unknown blocks are ticks alone.
  void note_allocate(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream);
  void note_free(std::uint64_t address);

  // Those that have ended.
  [[nodiscard]] std::size_t whole_count() const { return steps_.empty() ? 0 : steps_.size() - 1; }
  // By number from 0 on, the one that is under way as well.
  [[nodiscard]] const Step& step(std::size_t index) const { return steps_.at(index); }

 private:
  struct Place {
    std::size_t step = 0, request = 0;
  };

  std::vector<Step> steps_;
  std::unordered_map<std::uint64_t, Place> live_;
};

}  // namespace allocmark::planned

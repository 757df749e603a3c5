// What the steps of a program cost, and the middle of it. Times of one step after the other flow
// in, in any unit; their median flows out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace allocmark {

// The first two steps of a pass are its set-up and the step that takes all memory for the first
// time. They count only where no pass has later ones, and the set-up only where it is all there is.
class StepTimes {
 public:
  // Further steps of a pass are left out.
  explicit StepTimes(std::size_t step_count_max) : step_count_max_(step_count_max) {}

  // Takes the memory of a pass now, so that add() takes none.
  void reserve();
  void add(std::uint64_t time) {
    if (count_ == step_count_max_) return;
    (count_ == 0 ? set_up_ : count_ == 1 ? first_ : steady_).push_back(time);
    ++count_;
  }
  void clear();
  // The passes of another one.
  void merge(const StepTimes& other);

  // By nearest rank; 0 without steps.
  [[nodiscard]] std::uint64_t median() const;

 private:
  std::size_t step_count_max_;
  std::size_t count_ = 0;  // in this pass
  std::vector<std::uint64_t> set_up_, first_, steady_;
};

}  // namespace allocmark

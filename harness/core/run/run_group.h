// Cells that belong together, each in a process of its own: one alone, or two that are compared.
// Two take turns pass by pass, so that a pass of one lies milliseconds from one of the other and
// what disturbs the machine for longer disturbs both. Specifications flow in; each process's result
// flows out. Never blocks; the caller polls. Times nothing itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/cell/cell.h"
#include "harness/job/child_process.h"
#include "harness/job/job.h"
#include "results/schema.h"

namespace allocmark {

// A cell with the program that is to run it.
struct CellStep {
  CellSpec spec;
  std::string program_path;         // what is started with "cell"
  JobEnvironment environment = {};  // besides this process's own
};

struct RunGroupSpec {
  std::vector<CellStep> steps = {};  // one or two, in the order in which they are started
  // Two take turns; false: the second starts when the first has ended.
  bool takes_turns = false;
  // Passes of each that are wanted. After the fewest they go on for kTurnSecondsMin at most.
  std::uint32_t pass_count_min = 3;
  std::uint32_t pass_count_max = 3;
  // Every two passes run on the processor that is least disturbed when they begin; where no other
  // group runs beside this one.
  bool quiet_cpu = false;
  std::optional<std::string> visible_gpu = {};  // CUDA_VISIBLE_DEVICES of the processes, where set
};

// After this time both processes have been seen in many states of the machine; long passes need not
// be repeated more than pass_count_min times.
inline constexpr double kTurnSecondsMin = 0.25;

struct GroupResult {
  std::size_t step_index = 0;
  CellResult cell = {};
  bool in_turns = false;  // its passes alternated with those of the group's other cell
};

class RunGroup {
 public:
  explicit RunGroup(RunGroupSpec spec);

  // Starts, takes what has arrived, and gives the next turn.
  void advance();
  // What has ended since the last call.
  [[nodiscard]] std::vector<GroupResult> take_results();
  [[nodiscard]] bool ended() const;
  // Adds the processes that run.
  void add_children(std::vector<const ChildProcess*>& children) const;

 private:
  enum class Kind : std::uint8_t { Start, Check, Pass, Finish };
  struct Action {
    Kind kind = Kind::Start;
    std::size_t member_index = 0;
  };
  struct Member {
    CellStep step = {};
    std::unique_ptr<ChildProcess> child = {};  // null before its start and after its end
    bool ended = false;
    bool passes_given = false;
  };

  void plan_next();
  void run(const Action& action);
  void start(std::size_t index);
  void end_member(std::size_t index, CellResult cell);
  [[nodiscard]] bool enough_passes() const;

  RunGroupSpec spec_;
  std::vector<Member> members_;
  std::vector<GroupResult> results_;
  std::deque<Action> actions_;  // what is to be done, each when the one before is over
  std::optional<std::size_t> at_work_;
  std::uint32_t pair_count_ = 0;  // of passes that were begun
  std::chrono::steady_clock::time_point passes_began_;
  std::int32_t cpu_ = -1;
};

}  // namespace allocmark

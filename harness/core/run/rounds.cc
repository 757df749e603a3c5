// See rounds.h.
#include "harness/core/run/rounds.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/process_memory.h"
#include "base/random.h"
#include "harness/core/run/cell_process.h"
#include "harness/core/run/known_packings.h"
#include "harness/job/child_process.h"
#include "results/json.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kWaitingCountMax = 256;
constexpr std::uint64_t kFilesPerChild = 4;
constexpr std::uint64_t kFilesOfOurs = 64;

class Rounds {
 public:
  Rounds(const std::vector<CellSpec>& specs, const RoundsOptions& options, const RoundsSinks& sinks)
      : options_(options), sinks_(sinks) {
    for (const CellSpec& spec : specs) members_.push_back({.spec = spec});
  }

  bool run() {
    while (next_new_ < members_.size() || !open_.empty()) {
      if (options_.interrupt != nullptr && options_.interrupt->requested()) return false;
      while (at_work_count_ < options_.job_count && begin_turn()) {
      }
      if (take_news()) continue;
      std::vector<const ChildProcess*> children;
      for (const std::size_t index : open_) children.push_back(members_[index].child.get());
      wait_for_news(children, options_.interrupt);
    }
    return true;
  }

 private:
  struct Member {
    CellSpec spec;
    std::unique_ptr<ChildProcess> child = {};  // null before its start and after its end
    bool at_work = false;
    std::uint64_t waiting_bytes = 0;  // what it holds while it waits
    std::uint32_t turn_count = 0;
  };

  // Lets one more process work; false where there is none to begin now.
  bool begin_turn() {
    if (next_new_ < members_.size() && may_open()) return open(next_new_++);
    if (queue_.empty()) begin_round();
    if (queue_.empty()) return false;
    Member& member = members_[queue_.front()];
    queue_.pop_front();
    member.waiting_bytes = 0;
    member.child->give_turn({});
    ++member.turn_count;
    work(member);
    return true;
  }

  // Cells are opened one after the other until those that wait hold too much; then no more until
  // all of them have ended.
  [[nodiscard]] bool may_open() {
    if (open_.empty()) window_is_full_ = false;
    std::uint64_t bytes = 0;
    for (const std::size_t index : open_) bytes += members_[index].waiting_bytes;
    window_is_full_ = window_is_full_ || open_.size() >= options_.waiting_count_max ||
                      (!open_.empty() && bytes >= options_.waiting_bytes_max);
    return !window_is_full_;
  }

  // All that wait, in a new order. A process that is still at work comes into the round after.
  void begin_round() {
    for (const std::size_t index : open_) {
      if (!members_[index].at_work) queue_.push_back(index);
    }
    for (std::size_t left = queue_.size(); left > 1; --left) {
      std::swap(queue_[left - 1], queue_[order_.below(left)]);
    }
  }

  bool open(std::size_t index) {
    Member& member = members_[index];
    packings_.tell(options_.program_path, member.spec);
    try {
      member.child =
          std::make_unique<ChildProcess>(cell_command(member.spec, options_.program_path));
    } catch (const Error& error) {
      // With fewer processes there may be room for it.
      if (!open_.empty()) {
        window_is_full_ = true;
        --next_new_;
        return begin_turn_of_waiting();
      }
      sinks_.on_result(without_result(member.spec, error.what()));
      return true;
    }
    open_.push_back(index);
    ++member.turn_count;
    work(member);
    return true;
  }

  bool begin_turn_of_waiting() { return at_work_count_ < open_.size() && begin_turn(); }

  void work(Member& member) {
    member.at_work = true;
    ++at_work_count_;
  }

  // Looks at every process that has one; true where something moved.
  bool take_news() {
    bool moved = false;
    for (std::size_t i = 0; i < open_.size();) {
      const std::size_t index = open_[i];
      Member& member = members_[index];
      const std::optional<ChildOutcome> outcome = member.child->advance();
      if (outcome) {
        end(index, *outcome);
        moved = true;
        continue;
      }
      if (member.at_work && member.child->waits_for_turn()) {
        park(member);
        moved = true;
      }
      ++i;
    }
    return moved;
  }

  void park(Member& member) {
    member.at_work = false;
    --at_work_count_;
    member.waiting_bytes = member.child->own_bytes();
    hand_over_part(member);
    sinks_.on_passes(member.turn_count == 1 ? 1 + kUntimedPassCount : 1);
  }

  void hand_over_part(Member& member) {
    const std::string text = member.child->take_result();
    if (text.empty()) return;
    try {
      CellResult part = cell_result_from_json(std::string_view(text).substr(0, text.find('\n')),
                                              "a cell's result so far");
      if (part.key != member.spec.key || part.passes_to_come == 0) return;
      packings_.note(options_.program_path, part);
      sinks_.on_part(part);
    } catch (const UsageError&) {
      // What the cell says at its end is judged; a part is kept for the case that it has no end.
    }
  }

  void end(std::size_t index, const ChildOutcome& outcome) {
    Member& member = members_[index];
    if (member.at_work) --at_work_count_;
    member.child.reset();
    std::erase(open_, index);
    std::erase(queue_, index);
    const CellResult result = cell_result(member.spec, outcome);
    packings_.note(options_.program_path, result);
    sinks_.on_passes(member.turn_count == 1 ? 1 + kUntimedPassCount : 1);
    sinks_.on_result(result);
  }

  const RoundsOptions& options_;
  const RoundsSinks& sinks_;
  std::vector<Member> members_;
  std::size_t next_new_ = 0;       // of the members: the first that was not started
  std::vector<std::size_t> open_;  // started and not ended
  std::deque<std::size_t> queue_;  // whose turn is still to come in this round
  std::size_t at_work_count_ = 0;
  bool window_is_full_ = false;
  KnownPackings packings_;
  Random order_{1};
};

}  // namespace

bool run_in_rounds(const std::vector<CellSpec>& specs, const RoundsOptions& options,
                   const RoundsSinks& sinks) {
  return Rounds(specs, options, sinks).run();
}

void bound_waiting(RoundsOptions* options) {
  options->waiting_bytes_max = available_memory_bytes() / 2;
  rlimit files{};
  std::uint64_t count = kWaitingCountMax;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    const std::uint64_t rest = files.rlim_cur > kFilesOfOurs ? files.rlim_cur - kFilesOfOurs : 0;
    count = std::min(count, rest / kFilesPerChild);
  }
  options->waiting_count_max = static_cast<std::uint32_t>(std::max<std::uint64_t>(count, 1));
}

}  // namespace allocmark

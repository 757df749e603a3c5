// Whose turn it is among ranks that wait for each other. One rank runs at a time, from one meeting
// to the next; of those that can go on the one with the lowest number does. So everything happens
// in the same order every time. Arrivals flow in with their time; who met, when, and who waits in
// vain flow out. Threads call it, one for each rank.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace allocmark {

// A rank that comes to a meeting.
struct Arrival {
  std::uint32_t rank = 0;  // by index
  std::string name;
  std::uint64_t size_bytes = 0;
  std::uint64_t time_ns = 0;
};

struct Met {
  std::uint64_t start_ns = 0;   // when the last one was there
  std::uint32_t last_rank = 0;  // who that was
  std::uint64_t alone_ns = 0;   // how much earlier all others were there
};

class Schedule {
 public:
  // `collectives`: by name the ranks that come to it.
  Schedule(std::uint32_t rank_count, std::map<std::string, std::vector<std::uint32_t>> collectives);

  // Before a rank does anything. False where another thread has failed.
  [[nodiscard]] bool begin(std::uint32_t rank);
  // The rank does nothing any more; whoever waits for it waits in vain.
  void end(std::uint32_t rank);
  // A thread cannot go on for a reason that is none of the ranks': all calls return.
  void abandon();

  // Nothing where the others never come: the rank has to end. Throws UsageError where ranks bring
  // different sizes to one meeting.
  [[nodiscard]] std::optional<Met> collective(const Arrival& arrival);
  // A send waits for nobody. `time_ns`: when the bytes are there.
  void send(const Arrival& arrival);
  // As collective; `start_ns` is when the bytes are there, `last_rank` who sent them.
  [[nodiscard]] std::optional<Met> receive(const Arrival& arrival);

  // Whom a rank that waits in vain misses, by index, and at which meeting of that name (from 1).
  struct Missed {
    std::vector<std::uint32_t> ranks;
    std::uint64_t number = 0;
  };
  [[nodiscard]] Missed missed_collective(const std::string& name) const;
  [[nodiscard]] std::uint64_t received_count(const std::string& name) const;

 private:
  enum class State : std::uint8_t { Runs, Waits, InVain, Ended };
  struct Group {
    std::vector<std::uint32_t> members;
    std::vector<std::uint32_t> here;
    std::uint64_t size_bytes = 0;
    Met met;
    std::uint64_t met_count = 0;
  };
  struct Message {
    std::uint64_t size_bytes = 0;
    Met met;
  };
  struct Channel {
    std::deque<Message> messages;
    std::optional<std::uint32_t> receiver;  // that waits
    std::uint64_t received_count = 0;
  };

  // Lets the next rank run; where none can, those that wait do so in vain.
  void pass_on();
  // Until it is this rank's turn.
  void wait_turn(std::unique_lock<std::mutex>& lock, std::uint32_t rank);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> states_;
  std::uint32_t turn_ = 0;
  bool abandoned_ = false;
  std::map<std::string, Group> groups_;
  std::map<std::string, Channel> channels_;
  std::vector<Met> met_;  // by rank: its last collective
};

}  // namespace allocmark

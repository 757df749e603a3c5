// Whose turn it is among ranks that wait for each other. One rank runs at a time, from one meeting
// to the next; of those that can go on the one with the lowest number does. So everything happens
// in the same order every time. Arrivals flow in with their time; who met, when, and who waits in
// vain flow out. Threads call it, one for each rank.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "base/assert.h"
#include "base/error.h"

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
  Schedule(std::uint32_t rank_count, std::map<std::string, std::vector<std::uint32_t>> collectives)
      : states_(rank_count, State::Runs), met_(rank_count) {
    for (auto& [name, members] : collectives) groups_[name].members = std::move(members);
  }

  // Before a rank does anything. False where another thread has failed.
  [[nodiscard]] bool begin(std::uint32_t rank) {
    std::unique_lock lock(mutex_);
    wait_turn(lock, rank);
    return !abandoned_;
  }

  // The rank does nothing any more; whoever waits for it waits in vain.
  void end(std::uint32_t rank) {
    const std::lock_guard lock(mutex_);
    states_[rank] = State::Ended;
    pass_on();
  }

  // A thread cannot go on for a reason that is none of the ranks': all calls return.
  void abandon() {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    changed_.notify_all();
  }

  // Nothing where the others never come: the rank has to end. Throws UsageError where ranks bring
  // different sizes to one meeting.
  [[nodiscard]] std::optional<Met> collective(const Arrival& arrival) {
    std::unique_lock lock(mutex_);
    if (abandoned_) return std::nullopt;
    Group& group = groups_.at(arrival.name);
    if (group.here.empty()) {
      group.size_bytes = arrival.size_bytes;
      group.met = {};
    }
    if (arrival.size_bytes != group.size_bytes) refuse_sizes(arrival, group.size_bytes);
    if (arrival.time_ns >= group.met.start_ns) {
      group.met = {.start_ns = arrival.time_ns,
                   .last_rank = arrival.rank,
                   .alone_ns = group.here.empty() ? 0 : arrival.time_ns - group.met.start_ns};
    } else {
      group.met.alone_ns = std::min(group.here.size() == 1 ? ~std::uint64_t{0} : group.met.alone_ns,
                                    group.met.start_ns - arrival.time_ns);
    }
    group.here.push_back(arrival.rank);
    if (group.here.size() == group.members.size()) {
      for (const std::uint32_t member : group.here) {
        states_[member] = State::Runs;
        met_[member] = group.met;
      }
      group.here.clear();
      ++group.met_count;
    } else {
      states_[arrival.rank] = State::Waits;
    }
    pass_on();
    wait_turn(lock, arrival.rank);
    if (abandoned_ || states_[arrival.rank] == State::InVain) return std::nullopt;
    return met_[arrival.rank];
  }

  // A send waits for nobody. `time_ns`: when the bytes are there.
  void send(const Arrival& arrival) {
    const std::lock_guard lock(mutex_);
    Channel& channel = channels_[arrival.name];
    channel.messages.push_back({.size_bytes = arrival.size_bytes,
                                .met = {.start_ns = arrival.time_ns, .last_rank = arrival.rank}});
    if (channel.receiver) states_[*channel.receiver] = State::Runs;
    channel.receiver.reset();
  }

  // As collective; `start_ns` is when the bytes are there, `last_rank` who sent them.
  [[nodiscard]] std::optional<Met> receive(const Arrival& arrival) {
    std::unique_lock lock(mutex_);
    if (abandoned_) return std::nullopt;
    Channel& channel = channels_[arrival.name];
    if (channel.messages.empty()) {
      states_[arrival.rank] = State::Waits;
      channel.receiver = arrival.rank;
      pass_on();
      wait_turn(lock, arrival.rank);
      if (abandoned_ || states_[arrival.rank] == State::InVain) return std::nullopt;
    }
    ALLOCMARK_ASSERT(!channel.messages.empty());
    const Message message = channel.messages.front();
    channel.messages.pop_front();
    ++channel.received_count;
    if (message.size_bytes != arrival.size_bytes) refuse_sizes(arrival, message.size_bytes);
    return message.met;
  }

  // Whom a rank that waits in vain misses, by index, and at which meeting of that name (from 1).
  struct Missed {
    std::vector<std::uint32_t> ranks;
    std::uint64_t number = 0;
  };
  [[nodiscard]] Missed missed_collective(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const Group& group = groups_.at(name);
    Missed missed;
    missed.number = group.met_count + 1;
    for (const std::uint32_t member : group.members) {
      if (std::ranges::find(group.here, member) == group.here.end()) missed.ranks.push_back(member);
    }
    return missed;
  }

  [[nodiscard]] std::uint64_t received_count(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = channels_.find(name);
    return found == channels_.end() ? 0 : found->second.received_count;
  }

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

  [[noreturn]] static void refuse_sizes(const Arrival& arrival, std::uint64_t wanted_bytes) {
    throw UsageError({.what = "ranks bring different sizes to one meeting",
                      .where = fmt::format("rank {}, meeting '{}'", arrival.rank, arrival.name),
                      .wanted = fmt::format("{} bytes, as the others bring", wanted_bytes),
                      .got = fmt::format("{} bytes", arrival.size_bytes),
                      .next = "give every rank a trace of the same job"});
  }
  // Lets the next rank run; where none can, those that wait do so in vain.
  void pass_on() {
    auto next = std::ranges::find(states_, State::Runs);
    if (next == states_.end()) {
      std::ranges::replace(states_, State::Waits, State::InVain);
      next = std::ranges::find(states_, State::InVain);
    }
    if (next != states_.end()) turn_ = static_cast<std::uint32_t>(next - states_.begin());
    changed_.notify_all();
  }

  // Until it is this rank's turn.
  void wait_turn(std::unique_lock<std::mutex>& lock, std::uint32_t rank) {
    changed_.wait(lock, [&] { return abandoned_ || turn_ == rank; });
  }

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

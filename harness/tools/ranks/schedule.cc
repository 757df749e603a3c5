// See schedule.h.
#include "harness/tools/ranks/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/error.h"

namespace allocmark {
namespace {

[[noreturn]] void refuse_sizes(const Arrival& arrival, std::uint64_t wanted_bytes) {
  throw UsageError({.what = "ranks bring different sizes to one meeting",
                    .where = fmt::format("rank {}, meeting '{}'", arrival.rank, arrival.name),
                    .wanted = fmt::format("{} bytes, as the others bring", wanted_bytes),
                    .got = fmt::format("{} bytes", arrival.size_bytes),
                    .next = "give every rank a trace of the same job"});
}

}  // namespace

Schedule::Schedule(std::uint32_t rank_count,
                   std::map<std::string, std::vector<std::uint32_t>> collectives)
    : states_(rank_count, State::Runs), met_(rank_count) {
  for (auto& [name, members] : collectives) groups_[name].members = std::move(members);
}

void Schedule::wait_turn(std::unique_lock<std::mutex>& lock, std::uint32_t rank) {
  changed_.wait(lock, [&] { return abandoned_ || turn_ == rank; });
}

void Schedule::pass_on() {
  auto next = std::ranges::find(states_, State::Runs);
  if (next == states_.end()) {
    std::ranges::replace(states_, State::Waits, State::InVain);
    next = std::ranges::find(states_, State::InVain);
  }
  if (next != states_.end()) turn_ = static_cast<std::uint32_t>(next - states_.begin());
  changed_.notify_all();
}

bool Schedule::begin(std::uint32_t rank) {
  std::unique_lock lock(mutex_);
  wait_turn(lock, rank);
  return !abandoned_;
}

void Schedule::end(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  states_[rank] = State::Ended;
  pass_on();
}

void Schedule::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

std::optional<Met> Schedule::collective(const Arrival& arrival) {
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

void Schedule::send(const Arrival& arrival) {
  const std::lock_guard lock(mutex_);
  Channel& channel = channels_[arrival.name];
  channel.messages.push_back({.size_bytes = arrival.size_bytes,
                              .met = {.start_ns = arrival.time_ns, .last_rank = arrival.rank}});
  if (channel.receiver) states_[*channel.receiver] = State::Runs;
  channel.receiver.reset();
}

std::optional<Met> Schedule::receive(const Arrival& arrival) {
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

Schedule::Missed Schedule::missed_collective(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const Group& group = groups_.at(name);
  Missed missed;
  missed.number = group.met_count + 1;
  for (const std::uint32_t member : group.members) {
    if (std::ranges::find(group.here, member) == group.here.end()) missed.ranks.push_back(member);
  }
  return missed;
}

std::uint64_t Schedule::received_count(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(name);
  return found == channels_.end() ? 0 : found->second.received_count;
}

}  // namespace allocmark

#include "tests/harness/simcuda/core/pool_replay.h"

#include <cstddef>
#include <iterator>
#include <map>
#include <stdexcept>
#include <vector>

#include "harness/simcuda/core/device.h"
#include "tests/harness/simcuda/core/gz_lines.h"

namespace simcuda {
namespace {

constexpr int kNotIssued = 9999;  // the recorder did not free what was never allocated
constexpr std::uint64_t kStepNs = 10'000;
constexpr std::uint64_t kSleepNs = 1'000'000;

struct Answer {
  int code = 0;
  std::uint64_t address = 0;
};

int code_of(Status status) {
  switch (status) {
    case Status::Ok:
      return 0;
    case Status::OutOfMemory:
      return 2;
    case Status::NotReady:
      return 600;
    case Status::InvalidValue:
      return 1;
    case Status::InvalidHandle:
      return 400;
    case Status::Blocked:
      break;
  }
  throw std::runtime_error("the log waits for a closed gate");
}

class Replayer {
 public:
  Replayer() : device_(h200_config(StartState::Kernel)) {
    streams_[0] = kLegacyStream;
    pools_[0] = kDefaultPool;
  }

  PoolReplay run(const std::string& path) {
    for (const std::string& line : read_gz_lines(path)) {
      if (line[0] == '#') {
        continue;
      }
      const std::vector<std::string> columns = split(line, '|');
      shown_pool_ = 0;
      now_ns_ += kStepNs;
      const Answer answer = act(split(columns[0], ' '));
      compare(line, columns, answer);
    }
    return replay_;
  }

 private:
  static std::uint64_t number(const std::string& text) {
    return static_cast<std::uint64_t>(std::stoll(text));
  }

  Answer act(const std::vector<std::string>& op) {
    const std::string& name = op[0];
    if (name == "a" || name == "f" || name == "F" || name == "m" || name == "x") {
      return act_on_memory(op);
    }
    if (name == "pool" || name == "dp" || name == "attr" || name == "t") {
      return act_on_pool(op);
    }
    if (name == "ss" || name == "ds" || name == "es") {
      return synchronize(op);
    }
    return act_on_stream(op);
  }

  Answer act_on_memory(const std::vector<std::string>& op) {
    const std::uint64_t id = number(op[1]);
    if (op[0] == "a") {
      shown_pool_ = op.size() > 4 ? number(op[4]) : 0;
      const AllocationOutcome outcome = device_.allocate_async(
          number(op[2]), streams_.at(number(op[3])), pools_.at(shown_pool_), now_ns_);
      async_[id] = outcome.address;
      return {code_of(outcome.status), outcome.address};
    }
    if (op[0] == "m") {
      const AllocationOutcome outcome = device_.allocate(number(op[2]));
      heap_[id] = outcome.address;
      return {code_of(outcome.status), outcome.address};
    }
    if (op[0] == "x") {
      return {code_of(device_.deallocate(heap_.at(id), now_ns_).status), 0};
    }
    if (op[0] == "f") {
      shown_pool_ = op.size() > 3 ? number(op[3]) : 0;
    }
    const std::uint64_t address = async_.at(id);
    if (address == 0) {
      return {kNotIssued, 0};
    }
    if (op[0] == "F") {
      return {code_of(device_.deallocate(address, now_ns_).status), 0};
    }
    return {code_of(device_.deallocate_async(address, streams_.at(number(op[2])), now_ns_).status),
            0};
  }

  Answer act_on_pool(const std::vector<std::string>& op) {
    const std::uint64_t label = number(op[1]);
    if (op[0] == "dp") {
      return {code_of(device_.destroy_pool(pools_.at(label), now_ns_).status), 0};
    }
    shown_pool_ = label;
    if (op[0] == "pool") {
      const PoolOutcome outcome = device_.create_pool(op.size() > 2 ? number(op[2]) : 0);
      pools_[label] = outcome.pool;
      return {code_of(outcome.status), 0};
    }
    if (op[0] == "t") {
      return {code_of(device_.trim_pool(pools_.at(label), number(op[2])).status), 0};
    }
    MemoryPool& pool = *device_.pool(pools_.at(label));
    const std::uint64_t value = number(op[3]);
    if (op[2] == "thr") {
      pool.set_release_threshold(value);
    } else if (op[2] == "opp") {
      pool.set_allow_opportunistic(value != 0);
    } else if (op[2] == "evt") {
      pool.set_follow_event_dependencies(value != 0);
    } else if (op[2] == "int") {
      pool.set_allow_internal_dependencies(value != 0);
    } else if (op[2] == "rhi") {
      pool.reset_reserved_high();
    } else {
      pool.reset_used_high();
    }
    return {};
  }

  Answer synchronize(const std::vector<std::string>& op) {
    Outcome outcome;
    if (op[0] == "ds") {
      outcome = device_.synchronize_device(now_ns_);
    } else if (op[0] == "ss") {
      outcome = device_.synchronize_stream(streams_.at(number(op[1])), now_ns_);
    } else {
      outcome = device_.synchronize_event(event(number(op[1])), now_ns_);
    }
    return {code_of(outcome.status), 0};
  }

  Answer act_on_stream(const std::vector<std::string>& op) {
    StreamOrder& order = device_.streams();
    if (op[0] == "stream" || op[0] == "bstream") {
      const StreamKind kind = op[0] == "stream" ? StreamKind::NonBlocking : StreamKind::Blocking;
      const StreamOutcome outcome = device_.create_stream(kind, now_ns_);
      streams_[number(op[1])] = outcome.stream;
      return {code_of(outcome.status), 0};
    }
    if (op[0] == "er") {
      return {code_of(order.record(event(number(op[1])), streams_.at(number(op[2])), now_ns_)), 0};
    }
    if (op[0] == "ew") {
      return {code_of(order.wait(streams_.at(number(op[2])), event(number(op[1])), now_ns_)), 0};
    }
    if (op[0] == "k") {
      return {
          code_of(order.launch_gated(streams_.at(number(op[1])), number(op[2]), now_ns_).status),
          0};
    }
    if (op[0] == "n") {
      return {code_of(order.launch(streams_.at(number(op[1])), 1000, now_ns_).status), 0};
    }
    if (op[0] == "r") {
      order.open_gate(number(op[1]), now_ns_);
      now_ns_ += kSleepNs;
    } else if (op[0] == "sl") {
      now_ns_ += kSleepNs;
    } else if (op[0] == "sq") {
      return {code_of(order.query_stream(streams_.at(number(op[1])), now_ns_)), 0};
    } else if (op[0] != "maps") {
      throw std::runtime_error("unknown operation " + op[0]);
    }
    return {};
  }

  EventId event(std::uint64_t label) {
    if (events_.find(label) == events_.end()) {
      events_[label] = device_.streams().create_event();
    }
    return events_[label];
  }

  // cudaMalloc addresses count from the process's base, pool addresses are the same in every
  // process.
  std::uint64_t shifted(const std::string& name, std::uint64_t address, std::uint64_t recorded) {
    if (name != "m" || address == 0) {
      return address;
    }
    if (!shift_known_) {
      shift_ = recorded - address;
      shift_known_ = true;
    }
    return address + shift_;
  }

  void compare(const std::string& line, const std::vector<std::string>& columns, Answer answer) {
    const std::uint64_t recorded = std::stoull(columns[2], nullptr, 16);
    answer.address = shifted(columns[0].substr(0, 1), answer.address, recorded);
    const MemoryUsage usage = device_.pool(pools_.at(shown_pool_))->usage();
    const bool equal[] = {number(columns[1]) == static_cast<std::uint64_t>(answer.code),
                          recorded == answer.address,
                          number(columns[3]) == usage.reserved_bytes,
                          number(columns[4]) == usage.reserved_bytes_high,
                          number(columns[5]) == usage.used_bytes,
                          number(columns[6]) == usage.used_bytes_high,
                          number(columns[7]) == device_.free_bytes()};
    std::uint64_t* const counts[] = {
        &replay_.status_equal_count,   &replay_.address_equal_count,
        &replay_.reserved_equal_count, &replay_.reserved_high_equal_count,
        &replay_.used_equal_count,     &replay_.used_high_equal_count,
        &replay_.free_equal_count};
    ++replay_.line_count;
    bool all_equal = true;
    for (std::size_t column = 0; column < std::size(equal); ++column) {
      *counts[column] += equal[column] ? 1 : 0;
      all_equal &= equal[column];
    }
    if (!all_equal && replay_.first_difference.empty()) {
      replay_.first_difference =
          line + " -- simulated: " + std::to_string(answer.code) + "|" +
          std::to_string(answer.address) + "|" + std::to_string(usage.reserved_bytes) + "|" +
          std::to_string(usage.reserved_bytes_high) + "|" + std::to_string(usage.used_bytes) + "|" +
          std::to_string(usage.used_bytes_high) + "|" + std::to_string(device_.free_bytes());
    }
  }

  Device device_;
  PoolReplay replay_;
  std::uint64_t now_ns_ = 0;
  std::uint64_t shown_pool_ = 0;  // label of the pool whose figures the line shows
  std::uint64_t shift_ = 0;
  bool shift_known_ = false;
  std::map<std::uint64_t, StreamId> streams_;
  std::map<std::uint64_t, PoolId> pools_;
  std::map<std::uint64_t, EventId> events_;
  std::map<std::uint64_t, std::uint64_t> async_;  // id -> address
  std::map<std::uint64_t, std::uint64_t> heap_;
};

}  // namespace

PoolReplay replay_pool_log(const std::string& path) { return Replayer().run(path); }

}  // namespace simcuda

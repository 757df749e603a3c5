// A workload that is played as a part of another one: its events in turn, with ids of their own in
// the whole trace, and which of its blocks are live. What it holds can be put to sleep and woken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "workloads/trace/event.h"
#include "workloads/trace/event_batch.h"
#include "workloads/trace/source.h"

namespace allocmark {

class Player {
 public:
  explicit Player(EventBatch* batch) : batch_(batch) {}
  // From here on weights and cache have a private pool each, until all is given back.
  void use_pools() { has_pools_ = true; }
  // Others ask next.
  void leave_pools() { route_to(nullptr); }

  void open(const std::string& text, std::uint64_t seed);
  [[nodiscard]] bool is_open() const { return source_ != nullptr; }
  // The next event that is not played yet; null at the end.
  [[nodiscard]] const Event* peek();
  [[nodiscard]] const std::string& label(const Event& mark) const {
    return source_->labels()[mark.id];
  }
  void skip() { ++at_; }
  void play();
  // Gives back what sleeps: parameters and optimizer state.
  void put_to_sleep();
  void wake();
  void give_all_back();
  // The source is left where it is; its weights and its pool stay for the next one, which asks for
  // the same.
  void keep_residents();
  struct Block {
    std::uint64_t id = 0;  // in the whole trace
    std::uint64_t size_bytes = 0;
    TensorKind tensor = TensorKind::Unknown;
    bool sleeps = false;
  };
  // In the order in which they were asked for.
  [[nodiscard]] std::vector<Block*> blocks();

 private:
  // As `with torch.cuda.use_mem_pool(pool)`, until the next event that is of another pool or none.
  void route_to(std::uint64_t* pool);
  void end_pool(std::uint64_t* pool);
  [[nodiscard]] std::uint64_t* pool_of(TensorKind tensor) {
    if (!has_pools_) return nullptr;
    if (tensor == TensorKind::Parameter) return &weights_pool_;
    return tensor == TensorKind::KvCache ? &cache_pool_ : nullptr;
  }

  EventBatch* batch_;
  bool has_pools_ = false;
  std::uint64_t weights_pool_ = 0, cache_pool_ = 0;  // 0: none
  std::uint64_t pool_count_ = 0;
  std::uint64_t routed_ = 0;  // the pool that requests go to now; 0: none
  std::unique_ptr<EventSource> source_;
  std::span<const Event> events_;
  std::size_t at_ = 0;
  bool is_over_ = false;
  std::unordered_map<std::uint64_t, Block> blocks_;  // by the generator's own id
  std::deque<Block> residents_;                      // in the order in which they were asked for
};

}  // namespace allocmark

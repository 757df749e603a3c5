#include "workloads/player.h"

#include <algorithm>
#include <utility>

#include "workloads/open_workload.h"

namespace allocmark {

void Player::open(const std::string& text, std::uint64_t seed) {
  source_ = open_workload(text, seed);
  events_ = {};
  at_ = 0;
  is_over_ = false;
}

const Event* Player::peek() {
  if (at_ == events_.size() && !is_over_) {
    events_ = source_->next();
    at_ = 0;
    is_over_ = events_.empty();
  }
  return at_ < events_.size() ? &events_[at_] : nullptr;
}

void Player::route_to(std::uint64_t* pool) {
  if (pool != nullptr && *pool == 0) {
    *pool = ++pool_count_;
    batch_->pool({.id = *pool, .kind = EventKind::PoolCreate});
  }
  const std::uint64_t wanted = pool == nullptr ? 0 : *pool;
  if (routed_ == wanted) return;
  if (routed_ != 0) {
    batch_->pool({.id = routed_, .kind = EventKind::PoolEnd});
    batch_->pool({.id = routed_, .kind = EventKind::PoolRelease});
  }
  routed_ = wanted;
  if (wanted != 0) batch_->pool({.id = wanted, .size_bytes = 1, .kind = EventKind::PoolBegin});
}

// The MemPool is deleted.
void Player::end_pool(std::uint64_t* pool) {
  if (*pool == 0) return;
  batch_->pool({.id = *pool, .kind = EventKind::PoolRelease});
  batch_->pool({.id = *pool, .kind = EventKind::Trim});
  *pool = 0;
}

void Player::play() {
  const Event event = events_[at_++];
  route_to(event.kind == EventKind::Alloc ? pool_of(event.tensor) : nullptr);
  switch (event.kind) {
    case EventKind::Alloc: {
      if (!residents_.empty() && residents_.front().tensor == event.tensor) {
        blocks_[event.id] = residents_.front();
        residents_.pop_front();
        return;
      }
      const std::uint64_t id = batch_->allocate(
          {.size_bytes = event.size_bytes, .stream = event.stream, .tensor = event.tensor});
      blocks_[event.id] = {.id = id, .size_bytes = event.size_bytes, .tensor = event.tensor};
      return;
    }
    case EventKind::Free: {
      const auto found = blocks_.find(event.id);
      if (!found->second.sleeps) batch_->free(found->second.id);
      blocks_.erase(found);
      return;
    }
    case EventKind::Record:
      return batch_->record(blocks_.at(event.id).id, event.stream);
    case EventKind::Kernel:
      return batch_->kernel(event.duration_ns(), event.stream);
    case EventKind::Host:
      return batch_->host(event.duration_ns());
    case EventKind::Sync:
      return batch_->sync();
    case EventKind::Trim:
      return batch_->trim();
    case EventKind::PoolCreate:
    case EventKind::PoolBegin:
    case EventKind::PoolEnd:
    case EventKind::PoolRelease:
    case EventKind::PoolOnOom:
    case EventKind::PoolNoSplit:
    case EventKind::CaptureBegin:
    case EventKind::CaptureEnd:
    case EventKind::GraphReplay:
      return batch_->pool(event);
    case EventKind::Busy:
    case EventKind::Mark:
    case EventKind::HostAlloc:
    case EventKind::HostFree:
    case EventKind::HostRecord:
      return;  // the cycle has marks of its own, and nobody waits for single answers
  }
}

std::vector<Player::Block*> Player::blocks() {
  std::vector<std::pair<std::uint64_t, Block*>> by_id;
  for (auto& [own_id, block] : blocks_) by_id.emplace_back(own_id, &block);
  std::sort(by_id.begin(), by_id.end());
  std::vector<Block*> ordered;
  for (const auto& [own_id, block] : by_id) ordered.push_back(block);
  return ordered;
}

void Player::put_to_sleep() {
  for (Block* block : blocks()) {
    if (block->tensor != TensorKind::Parameter && block->tensor != TensorKind::OptimizerState) {
      continue;
    }
    batch_->free(block->id);
    block->sleeps = true;
  }
}

void Player::wake() {
  for (Block* block : blocks()) {
    if (!block->sleeps) continue;
    block->id = batch_->allocate({.size_bytes = block->size_bytes, .tensor = block->tensor});
    block->sleeps = false;
  }
}

void Player::give_all_back() {
  route_to(nullptr);
  for (const Block* block : blocks()) {
    if (!block->sleeps) batch_->free(block->id);
  }
  blocks_.clear();
  for (const Block& block : residents_) batch_->free(block.id);
  residents_.clear();
  end_pool(&weights_pool_);
  end_pool(&cache_pool_);
}

void Player::keep_residents() {
  route_to(nullptr);
  for (const Block* block : blocks()) {
    if (block->tensor == TensorKind::Parameter || block->tensor == TensorKind::KvCache) {
      residents_.push_back(*block);
    } else {
      batch_->free(block->id);
    }
  }
  blocks_.clear();
}

}  // namespace allocmark

#include "harness/tools/parity/pool_steps.h"

namespace allocmark::caching {

void PoolSteps::add(std::vector<allocmark::Event>& events) {
  if (random_.below(100) >= 4) return;
  switch (random_.below(10)) {
    case 0:
      if (used_count() < kUsedMax) create(events);
      return;
    case 1:
    case 2:
      return begin(events);
    case 3:
    case 4:
      return end(events);
    case 5:
      return release(events);
    case 6:
    case 7:
      return capture(events);
    case 8:
      return random_.below(4) == 0 ? never_split(events) : turn(events);
    default:
      return empty(events);
  }
}

void PoolSteps::note_record(std::uint64_t block) {
  recorded_.insert(block);
  if (captures()) recorded_in_capture_.insert(block);
}

bool PoolSteps::may_free(std::uint64_t block) {
  const bool waits = captures() && recorded_.contains(block);
  if (!captures() && recorded_in_capture_.contains(block)) return false;
  if (waits && rules_.tie_break == TieBreak::BlockOrder && deferred_count_ > 0) return false;
  deferred_count_ += waits ? 1 : 0;
  recorded_.erase(block);
  recorded_in_capture_.erase(block);
  return true;
}

void PoolSteps::create(std::vector<allocmark::Event>& events) {
  pools_.push_back({.id = pools_.size() + 1, .use_count = 1});
  events.push_back({.id = pools_.size(), .kind = EventKind::PoolCreate});
}

void PoolSteps::begin(std::vector<allocmark::Event>& events) {
  Pool* pool = any([](const Pool& one) { return one.use_count > 0 && !one.begun; });
  if (pool == nullptr && used_count() < kUsedMax) {
    pools_.push_back({.id = pools_.size() + 1});
    pool = &pools_.back();
  }
  if (pool == nullptr) return;
  pool->every_stream = pool->on_oom || random_.below(2) == 0;
  pool->stream = static_cast<std::uint32_t>(random_.below(stream_count_));
  pool->begun = true;
  ++pool->use_count;
  events.push_back({.id = pool->id,
                    .size_bytes = pool->every_stream ? 1u : 0u,
                    .stream = pool->every_stream ? 0 : pool->stream,
                    .kind = EventKind::PoolBegin});
}

void PoolSteps::end(std::vector<allocmark::Event>& events) {
  Pool* pool = any([](const Pool& one) { return one.begun; });
  if (pool == nullptr) return;
  if (pool->captures) end_capture(*pool, events);
  pool->begun = false;
  events.push_back({.id = pool->id, .kind = EventKind::PoolEnd});
  if (!captures()) deferred_count_ = 0;
}

void PoolSteps::capture(std::vector<allocmark::Event>& events) {
  Pool* pool = any([](const Pool& one) { return one.begun; });
  if (pool == nullptr) return;
  if (pool->captures) return end_capture(*pool, events);
  if (std::ranges::any_of(
          pools_, [&](const Pool& one) { return one.captures && one.stream == pool->stream; }))
    return;
  pool->captures = true;
  events.push_back({.id = pool->id, .stream = pool->stream, .kind = EventKind::CaptureBegin});
}

void PoolSteps::end_capture(Pool& pool, std::vector<allocmark::Event>& events) {
  pool.captures = false;
  events.push_back({.id = pool.id, .stream = pool.stream, .kind = EventKind::CaptureEnd});
  if (!captures()) deferred_count_ = 0;
}

void PoolSteps::release(std::vector<allocmark::Event>& events) {
  Pool* pool =
      any([](const Pool& one) { return one.use_count > 1 || (one.use_count == 1 && !one.begun); });
  if (pool == nullptr) return;
  if (pool->use_count == 1 && pool->on_oom) turn(*pool, events);
  --pool->use_count;
  events.push_back({.id = pool->id, .kind = EventKind::PoolRelease});
}

void PoolSteps::turn(Pool& pool, std::vector<allocmark::Event>& events) {
  pool.on_oom = !pool.on_oom;
  events.push_back(
      {.id = pool.id, .size_bytes = pool.on_oom ? 1u : 0u, .kind = EventKind::PoolOnOom});
}

void PoolSteps::turn(std::vector<allocmark::Event>& events) {
  Pool* on = any([](const Pool& one) { return one.on_oom; });
  Pool* pool = on != nullptr ? on : any([](const Pool& one) {
    return one.use_count > 0 && (!one.begun || one.every_stream);
  });
  if (pool != nullptr) turn(*pool, events);
}

void PoolSteps::never_split(std::vector<allocmark::Event>& events) {
  const Pool* pool = any([](const Pool& one) { return one.use_count > 0; });
  if (pool != nullptr) events.push_back({.id = pool->id, .kind = EventKind::PoolNoSplit});
}

void PoolSteps::empty(std::vector<allocmark::Event>& events) {
  const Pool* pool = any([](const Pool&) { return true; });
  if (pool == nullptr || (captures() && pool->use_count == 0)) return;
  events.push_back({.id = pool->id, .kind = EventKind::Trim});
}

}  // namespace allocmark::caching

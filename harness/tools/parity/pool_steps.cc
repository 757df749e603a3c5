#include "harness/tools/parity/pool_steps.h"

namespace allocmark::caching {

void PoolSteps::add(std::vector<ProgramStep>& steps) {
  if (random_.below(100) >= 4) return;
  switch (random_.below(10)) {
    case 0:
      if (used_count() < kUsedMax) create(steps);
      return;
    case 1:
    case 2:
      return begin(steps);
    case 3:
    case 4:
      return end(steps);
    case 5:
      return release(steps);
    case 6:
    case 7:
      return capture(steps);
    case 8:
      return random_.below(4) == 0 ? never_split(steps) : turn(steps);
    default:
      return empty(steps);
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

void PoolSteps::create(std::vector<ProgramStep>& steps) {
  pools_.push_back({.id = pools_.size() + 1, .use_count = 1});
  steps.push_back({.kind = StepKind::PoolCreate, .id = pools_.size()});
}

void PoolSteps::begin(std::vector<ProgramStep>& steps) {
  Pool* pool = any([](const Pool& one) { return one.use_count > 0 && !one.begun; });
  if (pool == nullptr && used_count() < kUsedMax) {
    pools_.push_back({.id = pools_.size() + 1});
    pool = &pools_.back();
  }
  if (pool == nullptr) return;
  pool->every_stream = pool->on_oom || random_.below(2) == 0;
  pool->stream = random_.below(stream_count_);
  pool->begun = true;
  ++pool->use_count;
  steps.push_back({.kind = StepKind::PoolBegin,
                   .id = pool->id,
                   .size_bytes = pool->every_stream ? 1u : 0u,
                   .stream = pool->every_stream ? 0 : pool->stream});
}

void PoolSteps::end(std::vector<ProgramStep>& steps) {
  Pool* pool = any([](const Pool& one) { return one.begun; });
  if (pool == nullptr) return;
  if (pool->captures) end_capture(*pool, steps);
  pool->begun = false;
  steps.push_back({.kind = StepKind::PoolEnd, .id = pool->id});
  if (!captures()) deferred_count_ = 0;
}

void PoolSteps::capture(std::vector<ProgramStep>& steps) {
  Pool* pool = any([](const Pool& one) { return one.begun; });
  if (pool == nullptr) return;
  if (pool->captures) return end_capture(*pool, steps);
  if (std::ranges::any_of(
          pools_, [&](const Pool& one) { return one.captures && one.stream == pool->stream; }))
    return;
  pool->captures = true;
  steps.push_back({.kind = StepKind::CaptureBegin, .id = pool->id, .stream = pool->stream});
}

void PoolSteps::end_capture(Pool& pool, std::vector<ProgramStep>& steps) {
  pool.captures = false;
  steps.push_back({.kind = StepKind::CaptureEnd, .id = pool.id, .stream = pool.stream});
  if (!captures()) deferred_count_ = 0;
}

void PoolSteps::release(std::vector<ProgramStep>& steps) {
  Pool* pool =
      any([](const Pool& one) { return one.use_count > 1 || (one.use_count == 1 && !one.begun); });
  if (pool == nullptr) return;
  if (pool->use_count == 1 && pool->on_oom) turn(*pool, steps);
  --pool->use_count;
  steps.push_back({.kind = StepKind::PoolRelease, .id = pool->id});
}

void PoolSteps::turn(Pool& pool, std::vector<ProgramStep>& steps) {
  pool.on_oom = !pool.on_oom;
  steps.push_back(
      {.kind = StepKind::PoolOnOom, .id = pool.id, .size_bytes = pool.on_oom ? 1u : 0u});
}

void PoolSteps::turn(std::vector<ProgramStep>& steps) {
  Pool* on = any([](const Pool& one) { return one.on_oom; });
  Pool* pool = on != nullptr ? on : any([](const Pool& one) {
    return one.use_count > 0 && (!one.begun || one.every_stream);
  });
  if (pool != nullptr) turn(*pool, steps);
}

void PoolSteps::never_split(std::vector<ProgramStep>& steps) {
  const Pool* pool = any([](const Pool& one) { return one.use_count > 0; });
  if (pool != nullptr) steps.push_back({.kind = StepKind::PoolNoSplit, .id = pool->id});
}

void PoolSteps::empty(std::vector<ProgramStep>& steps) {
  const Pool* pool = any([](const Pool&) { return true; });
  if (pool == nullptr || (captures() && pool->use_count == 0)) return;
  steps.push_back({.kind = StepKind::EmptyCache, .id = pool->id});
}

}  // namespace allocmark::caching

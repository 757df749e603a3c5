#include "workloads/serving/scheduler.h"

#include <algorithm>

#include "base/divided_up.h"

namespace allocmark {
Scheduler::Scheduler(const SchedulerLimits& limits)
    : limits_(limits), free_blocks_(limits.block_count) {
  running_.reserve(limits.running_max);
  for (std::uint64_t i = limits.running_max; i > 0; --i) {
    free_slots_.push_back(static_cast<std::uint32_t>(i - 1));
  }
}

std::uint64_t Scheduler::blocks_for(const ServeRequest& request, std::uint64_t cached) const {
  const std::uint64_t tokens = std::max(cached, limits_.reserved_tokens);
  if (limits_.beams == 1) return divided_up(tokens, limits_.block_tokens);
  // The prompt's blocks are shared by all beams, as far as blocks can be.
  const std::uint64_t shared = limits_.block_tokens > 1 ? std::min(tokens, request.prompt) : 0;
  return divided_up(shared, limits_.block_tokens) +
         limits_.beams * divided_up(tokens - shared, limits_.block_tokens);
}

std::uint64_t Scheduler::tokens_for(const ServeRequest& request, std::uint64_t budget) const {
  if (request.decodes()) {
    const std::uint64_t tokens = 1 + limits_.draft_tokens;
    return tokens * limits_.beams <= budget ? tokens : 0;
  }
  const std::uint64_t pending = request.pending();
  if (limits_.chunk_tokens == 0) return pending <= budget ? pending : 0;
  return std::min({pending, limits_.chunk_tokens, budget});
}

bool Scheduler::take_blocks(ServeRequest* request, std::uint64_t tokens) {
  const std::uint64_t wanted = blocks_for(*request, request->cached + tokens);
  if (wanted <= request->blocks) return true;
  if (wanted - request->blocks > free_blocks_) return false;
  free_blocks_ -= wanted - request->blocks;
  request->blocks = wanted;
  return true;
}

void Scheduler::release(ServeRequest* request) {
  free_blocks_ += request->blocks;
  free_slots_.push_back(request->slot);
  request->blocks = 0;
  request->scheduled = 0;
}

void Scheduler::evict_last() {
  ServeRequest last = running_.back();
  running_.pop_back();
  evicted_slots_.push_back(last.slot);
  release(&last);
  last.cached = 0;
  evicted_.push_front(last);
}

void Scheduler::plan_running(std::uint64_t* budget) {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const std::uint64_t tokens = tokens_for(running_[i], *budget);
    bool has_room = tokens > 0;
    while (has_room && !take_blocks(&running_[i], tokens)) {
      // The last one may be the request itself.
      has_room = i + 1 < running_.size();
      evict_last();
    }
    if (!has_room) continue;
    running_[i].scheduled = tokens;
    *budget -= tokens * width_of(running_[i]);
  }
}

bool Scheduler::admit(ServeRequest request, std::uint64_t* budget) {
  const std::uint64_t tokens = tokens_for(request, *budget);
  if (tokens == 0 || !take_blocks(&request, tokens)) return false;
  request.slot = free_slots_.back();
  free_slots_.pop_back();
  request.scheduled = tokens;
  *budget -= tokens;
  running_.push_back(request);
  return true;
}

std::span<const std::uint32_t> Scheduler::plan(
    const std::function<std::optional<ServeRequest>()>& next_request) {
  evicted_slots_.clear();
  for (ServeRequest& request : running_) request.scheduled = 0;
  std::uint64_t budget = limits_.token_budget;
  plan_running(&budget);
  // Who was just evicted does not come back at once, nor does anybody take its room.
  if (!evicted_slots_.empty()) return evicted_slots_;
  while (running_.size() < limits_.running_max && budget > 0) {
    if (!evicted_.empty()) {
      if (!admit(evicted_.front(), &budget)) break;
      evicted_.pop_front();
      continue;
    }
    if (!refused_) refused_ = next_request();
    if (!refused_ || !admit(*refused_, &budget)) break;
    refused_.reset();
  }
  return evicted_slots_;
}

const Scheduler::Outcome& Scheduler::commit(
    const std::function<std::uint64_t(const ServeRequest&)>& guessed_right) {
  outcome_.first_token_arrivals_ns.clear();
  outcome_.done.clear();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    ServeRequest request = running_[i];
    if (request.scheduled > 0) {
      const bool decoded = request.decodes();
      request.cached += decoded ? 1 : request.scheduled;
      if (request.pending() == 0) {
        const std::uint64_t right =
            decoded && limits_.draft_tokens > 0 ? guessed_right(request) : 0;
        const std::uint64_t tokens = std::min(1 + right, request.answer - request.generated);
        if (request.generated == 0) {
          outcome_.first_token_arrivals_ns.push_back(request.arrival_ns);
        }
        request.generated += tokens;
        request.cached += tokens - 1;
      }
    }
    if (request.generated == request.answer) {
      outcome_.done.push_back(request);
      release(&request);
      continue;
    }
    running_[kept++] = request;
  }
  running_.resize(kept);
  return outcome_;
}

}  // namespace allocmark

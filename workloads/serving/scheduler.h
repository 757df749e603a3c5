// Which tokens of which requests a server computes in one iteration: continuous batching with
// chunked prompts over a cache of limited size, as vLLM's scheduler decides (first come, first
// served; when the cache is full the youngest request gives its room up and is computed again
// later). Nothing here knows tensors or events.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace allocmark {

struct SchedulerLimits {
  std::uint64_t running_max = 64;     // requests in one iteration
  std::uint64_t token_budget = 2048;  // tokens computed in one iteration
  std::uint64_t chunk_tokens = 512;   // of one prompt in one iteration; 0: prompts are not cut
  std::uint64_t block_tokens = 16;    // the cache's unit
  std::uint64_t block_count = 0;      // in the cache
  std::uint64_t beams = 1;            // sequences of each request once its prompt is done
  std::uint64_t draft_tokens = 0;     // guessed tokens that come with each decoded one
  // Tokens for which room is kept from the start; 0: room is taken as tokens come.
  std::uint64_t reserved_tokens = 0;
};

struct ServeRequest {
  std::uint64_t arrival_ns = 0;
  std::uint64_t prompt = 1;  // tokens
  std::uint64_t answer = 1;  // tokens to generate, at least 1

  std::uint64_t generated = 0;  // so far
  std::uint64_t cached = 0;     // tokens whose keys and values are there
  std::uint64_t blocks = 0;     // of the cache that it has
  std::uint32_t slot = 0;       // below running_max while it runs
  std::uint64_t scheduled = 0;  // tokens of each of its sequences in this iteration

  [[nodiscard]] std::uint64_t pending() const { return prompt + generated - cached; }
  [[nodiscard]] bool decodes() const { return generated > 0 && pending() == 1; }
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // Plans an iteration at that time. `next_request` gives the next request in order of arrival
  // where one has arrived by then, and is asked only when it can be admitted. Gives the slots that
  // were evicted.
  std::span<const std::uint32_t> plan(
      const std::function<std::optional<ServeRequest>()>& next_request);
  // The iteration was computed: tokens of scheduled requests are cached, and each request that has
  // none pending gets a token; `guessed_right(request)` says how many guesses more were right.
  // Gives the requests that got their first token and those that are answered.
  struct Outcome {
    std::vector<std::uint64_t> first_token_arrivals_ns;
    std::vector<ServeRequest> done;
  };
  const Outcome& commit(const std::function<std::uint64_t(const ServeRequest&)>& guessed_right);

  // In order of admission; those with scheduled = 0 wait in this iteration.
  [[nodiscard]] std::span<const ServeRequest> running() const { return running_; }
  [[nodiscard]] bool is_idle() const { return running_.empty() && evicted_.empty() && !refused_; }
  [[nodiscard]] std::uint64_t free_blocks() const { return free_blocks_; }

  // Blocks that a request needs with so many tokens cached.
  [[nodiscard]] std::uint64_t blocks_for(const ServeRequest& request, std::uint64_t cached) const;

 private:
  // Tokens that the request may compute now; 0: none.
  [[nodiscard]] std::uint64_t tokens_for(const ServeRequest& request, std::uint64_t budget) const;
  // Rows of the batch that one of its tokens takes.
  [[nodiscard]] std::uint64_t width_of(const ServeRequest& request) const {
    return request.decodes() ? limits_.beams : 1;
  }
  bool take_blocks(ServeRequest* request, std::uint64_t tokens);
  void release(ServeRequest* request);
  void evict_last();
  void plan_running(std::uint64_t* budget);
  bool admit(ServeRequest request, std::uint64_t* budget);

  SchedulerLimits limits_;
  std::vector<ServeRequest> running_;
  std::deque<ServeRequest> evicted_;  // oldest first; at most running_max
  std::vector<std::uint32_t> free_slots_, evicted_slots_;
  std::optional<ServeRequest> refused_;  // arrived, but there was no room
  std::uint64_t free_blocks_ = 0;
  Outcome outcome_;
};

}  // namespace allocmark

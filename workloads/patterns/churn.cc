// Generator churn: random sizes and lifetimes at a steady number of live bytes, for any number of
// events. Allocations and frees only depend on the seed and on integer arithmetic. A cheap event is
// the goal: stress, not realism.
#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/trace/coroutine_program.h"
#include "workloads/trace/event_names.h"

namespace allocmark {
namespace {

constexpr std::size_t kLifetimeClassCount = 3;  // short, middle, long
constexpr std::uint64_t kPieceEventCount = 1024;

struct ChurnConfig {
  std::uint64_t live_bytes = 0;  // live bytes after which every alloc is preceded by frees
  OctaveSizes sizes;
  std::uint32_t stream_count = 1;
  std::uint64_t record_percent = 0;  // of the blocks are recorded on another stream
  std::uint64_t mark_every = 0;      // events between two marks
};

class Churn {
 public:
  using Config = ChurnConfig;
  Churn(const ChurnConfig& config, std::uint64_t seed, EventBatch* batch)
      : config_(config), random_(seed), batch_(batch) {}
  Coroutine run();

 private:
  struct Block {
    std::uint64_t id;
    std::uint64_t size_bytes;
  };
  void allocate();
  void free_one();

  ChurnConfig config_;
  Random random_;
  EventBatch* batch_;
  std::uint64_t live_bytes_ = 0;
  std::array<std::vector<Block>, kLifetimeClassCount> live_;
};

void Churn::allocate() {
  const std::uint64_t size_bytes = config_.sizes.pick(random_.next());
  // One draw decides the class (of 16 blocks 11 are short, 4 middle, 1 long), the stream and the
  // record.
  const std::uint64_t bits = random_.next();
  const std::uint64_t sixteenth = bits & 15;
  const std::size_t lifetime = sixteenth < 11 ? 0 : sixteenth < 15 ? 1 : 2;
  const auto stream =
      static_cast<std::uint32_t>(((bits >> 8) & 0xFFFFFF) * config_.stream_count >> 24);
  const std::uint64_t id = batch_->allocate({.size_bytes = size_bytes, .stream = stream});
  live_bytes_ += size_bytes;
  live_[lifetime].push_back({id, size_bytes});
  if (config_.stream_count > 1 && (bits >> 32) % 100 < config_.record_percent) {
    batch_->record(id, (stream + 1) % config_.stream_count);
  }
}

// Of 64 frees 48 hit a short-lived block, 15 a middle one and 1 a long-lived one, so the long-lived
// ones pile up until they fill most of the memory: a heap with a history.
void Churn::free_one() {
  const std::uint64_t bits = random_.next();
  const std::uint64_t draw = bits & 63;
  std::size_t lifetime = draw < 48 ? 0 : draw < 63 ? 1 : 2;
  while (live_[lifetime].empty()) lifetime = (lifetime + 1) % kLifetimeClassCount;
  std::vector<Block>& blocks = live_[lifetime];
  const std::size_t index = static_cast<std::size_t>(((bits >> 32) * blocks.size()) >> 32);
  const Block block = blocks[index];
  blocks[index] = blocks.back();
  blocks.pop_back();
  live_bytes_ -= block.size_bytes;
  batch_->free(block.id);
}

Coroutine Churn::run() {
  std::uint64_t event_count = 0;
  for (std::uint64_t mark_count = 0;; co_await room_in(batch_)) {
    const std::size_t begin = batch_->events().size();
    if (event_count >= mark_count * config_.mark_every) batch_->mark("step", mark_count++);
    while (batch_->events().size() - begin < kPieceEventCount) {
      const bool has_live = !live_[0].empty() || !live_[1].empty() || !live_[2].empty();
      if (has_live && live_bytes_ >= config_.live_bytes) {
        free_one();
      } else {
        allocate();
      }
    }
    event_count += batch_->events().size() - begin;
  }
}

std::unique_ptr<EventSource> make_churn(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  ChurnConfig config;
  config.live_bytes = parameters.size_bytes("live_bytes", 4 * kGiB, {1, kGeneratedSizeBytesMax});
  config.sizes = read_sizes(parameters, {});
  config.stream_count =
      static_cast<std::uint32_t>(parameters.number("streams", 1, {1, kTraceStreamCountMax}));
  config.record_percent = parameters.number("record_percent", 0, {0, 100});
  config.mark_every = parameters.number("mark_every", 100'000, {1, UINT32_MAX});
  return make_running<Churn>(parameters,
                             {.name = "churn",
                              .seed = seed,
                              .stream_count = config.stream_count,
                              .event_count_preset = 1'000'000},
                             config);
}

}  // namespace

extern constinit const GeneratorEntry kChurnGenerator{
    "churn", "churn:live_bytes=4GiB,streams=2,events=1000000",
    "random sizes and lifetimes at a steady number of live bytes; any length", make_churn};

}  // namespace allocmark

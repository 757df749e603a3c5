// Generator comb: allocates `count` equal blocks, frees every other one, then asks for one big
// block that would fit into the freed bytes if only they were in one piece; then everything is
// freed. Repeated `rounds` times.
#include <cstdint>

#include "base/bytes.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/trace/event_names.h"
#include "workloads/trace/generated_source.h"
#include "workloads/trace/generator_entry.h"

namespace allocmark {
namespace {

struct CombConfig {
  std::uint64_t size_bytes = 0;  // of each tooth
  std::uint64_t count = 0;       // teeth
  std::uint64_t ask_bytes = 0;   // the big block
  std::uint64_t rounds = 0;
};

class Comb {
 public:
  using Config = CombConfig;
  Comb(const CombConfig& config, std::uint64_t, EventBatch* batch)
      : config_(config), batch_(batch) {}

  bool advance() {
    if (round_ == config_.rounds) return false;
    if (phase_ == Phase::Fill && at_ == 0) batch_->mark("round", round_);
    for (int i = 0; i < kPieceEventCount && phase_ != Phase::Done; ++i) step();
    if (phase_ == Phase::Done) {
      phase_ = Phase::Fill;
      ++round_;
    }
    return round_ < config_.rounds;
  }

 private:
  static constexpr int kPieceEventCount = 1024;
  enum class Phase { Fill, FreeEven, Ask, FreeOdd, Done };

  void enter(Phase phase) {
    phase_ = phase;
    at_ = 0;
  }
  // Ids count up within a round, so the first id and the index name a tooth.
  void step() {
    switch (phase_) {
      case Phase::Fill: {
        const std::uint64_t id = batch_->allocate({.size_bytes = config_.size_bytes});
        if (at_ == 0) first_id_ = id;
        if (++at_ == config_.count) enter(Phase::FreeEven);
        return;
      }
      case Phase::FreeEven:
        batch_->free(first_id_ + at_);
        at_ += 2;
        if (at_ >= config_.count) enter(Phase::Ask);
        return;
      case Phase::Ask:
        batch_->free(batch_->allocate({.size_bytes = config_.ask_bytes}));
        enter(Phase::FreeOdd);
        at_ = 1;
        if (at_ >= config_.count) enter(Phase::Done);
        return;
      case Phase::FreeOdd:
        batch_->free(first_id_ + at_);
        at_ += 2;
        if (at_ >= config_.count) enter(Phase::Done);
        return;
      case Phase::Done:
        return;
    }
  }

  CombConfig config_;
  EventBatch* batch_;
  Phase phase_ = Phase::Fill;
  std::uint64_t at_ = 0;
  std::uint64_t first_id_ = 0;
  std::uint64_t round_ = 0;
};

std::unique_ptr<EventSource> make_comb(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  CombConfig config;
  config.size_bytes = parameters.size_bytes("size_bytes", 2 * kMiB, {0, kGeneratedSizeBytesMax});
  config.count = parameters.number("count", 512, {1, UINT32_MAX});
  require_live_bytes(parameters, "count", config.count, config.size_bytes);
  config.ask_bytes = parameters.size_bytes("ask_bytes", 512 * kMiB, {0, kGeneratedSizeBytesMax});
  config.rounds = parameters.number("rounds", 1, {1, UINT32_MAX});
  return make_generated<Comb>(parameters, {.name = "comb", .seed = seed}, config);
}

}  // namespace

extern const GeneratorEntry kCombGenerator;
constinit const GeneratorEntry kCombGenerator{
    "comb", "comb:size_bytes=2MiB,count=512,ask_bytes=512MiB",
    "allocates many blocks, frees every other one, asks for a big one: fragmentation at its "
    "purest",
    make_comb};

}  // namespace allocmark

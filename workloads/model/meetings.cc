// What the meetings of a rank are called: members of one group use the same name, sender and
// receiver of a pipeline too. And what a tape writes where ranks meet.
#include <string>

#include "base/link_time.h"
#include "workloads/model/tape.h"

namespace allocmark {
namespace {

std::uint64_t replica_at(const ParallelSetup& parallel, std::uint64_t stage) {
  return parallel.data_rank + parallel.data * stage;
}

std::uint64_t piece_at(const ParallelSetup& parallel, std::uint64_t stage) {
  return parallel.context_rank + parallel.context * replica_at(parallel, stage);
}

std::uint64_t rank_at(const ParallelSetup& parallel, std::uint64_t stage) {
  return parallel.part() + parallel.part_count() * piece_at(parallel, stage);
}

// "tensor3": the fourth group of tensor parallel ranks.
std::string group_name(const ParallelSetup& parallel, RankGroup group) {
  switch (group) {
    case RankGroup::Tensor:
      return "tensor" + std::to_string(piece_at(parallel, parallel.stage));
    case RankGroup::Context:
      return "context" + std::to_string(parallel.part() + parallel.part_count() *
                                                              replica_at(parallel, parallel.stage));
    case RankGroup::Data:
      // Those that share sequences share parameters and gradients, too.
      return "data" + std::to_string(parallel.replica() +
                                     parallel.replicas * (parallel.part() +
                                                          parallel.part_count() * parallel.stage));
    case RankGroup::Replicas:
      return "replicas" +
             std::to_string(parallel.part() +
                            parallel.part_count() *
                                (parallel.shard_rank() + parallel.shard_count() * parallel.stage));
    case RankGroup::Expert:
      break;
  }
  return "experts" + std::to_string(piece_at(parallel, parallel.stage));
}

// "0>4": from rank 0 to rank 4; "4>0.gradient".
std::string link_name(const ParallelSetup& parallel, const StageLink& link) {
  // Chunks of an interleaved pipeline go from the last stage to the first.
  const std::uint64_t stages = parallel.pipeline;
  const bool is_to_next = link.sends != link.is_gradient;
  const std::uint64_t other =
      is_to_next ? (parallel.stage + 1) % stages : (parallel.stage + stages - 1) % stages;
  const std::string own_rank = std::to_string(rank_at(parallel, parallel.stage));
  const std::string other_rank = std::to_string(rank_at(parallel, other));
  const std::string from_to =
      link.sends ? own_rank + ">" + other_rank : other_rank + ">" + own_rank;
  return link.is_gradient ? from_to + ".gradient" : from_to;
}

}  // namespace

void Tape::communicate(std::uint64_t size_bytes, std::uint32_t stream, RankGroup group) {
  if (stopped_) return;
  if (!meetings_) {
    if (kernels_) pool_->batch().kernel(link_ns(size_bytes), stream);
    return;
  }
  pool_->batch().meet(MarkClass::Collective, group_name(*meetings_, group),
                      {.size_bytes = size_bytes, .stream = stream});
}

void Tape::communicate(std::uint64_t size_bytes, std::uint32_t stream, const StageLink& link) {
  if (stopped_ || !meetings_) return communicate(size_bytes, stream, RankGroup::Data);
  pool_->batch().meet(link.sends ? MarkClass::Send : MarkClass::Receive,
                      link_name(*meetings_, link), {.size_bytes = size_bytes, .stream = stream});
}

}  // namespace allocmark

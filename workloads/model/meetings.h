// Whom a rank of a parallel job meets. What such a meeting is called stands in meetings.cc.
#pragma once

#include <cstdint>
namespace allocmark {

// Whom a collective operation joins.
// Data: those that share parameters, where ranks do; Replicas: those with the same shards.
enum class RankGroup : std::uint8_t { Tensor, Context, Data, Replicas, Expert };

// What goes from a stage of the pipeline to the next one, or its gradient back.
struct StageLink {
  bool sends = false;  // else it receives
  bool is_gradient = false;
};

}  // namespace allocmark

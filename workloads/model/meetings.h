// What the meetings of a rank are called: members of one group use the same name, sender and
// receiver of a pipeline too. A rank's place in a job flows in, names flow out.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/model/setup.h"

namespace allocmark {

// Whom a collective operation joins.
// Data: those that share parameters, where ranks do; Replicas: those with the same shards.
enum class RankGroup : std::uint8_t { Tensor, Context, Data, Replicas, Expert };

// What goes from a stage of the pipeline to the next one, or its gradient back.
struct StageLink {
  bool sends = false;  // else it receives
  bool is_gradient = false;
};

// "tensor3": the fourth group of tensor parallel ranks.
[[nodiscard]] std::string group_name(const ParallelSetup& parallel, RankGroup group);
// "0>4": from rank 0 to rank 4; "4>0.gradient".
[[nodiscard]] std::string link_name(const ParallelSetup& parallel, const StageLink& link);

}  // namespace allocmark

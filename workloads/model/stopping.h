// The stopping criteria of transformers' generate(): whether an answer is as long as it may be, or
// ends with an end token. Flows in: how many answers are tested; flows out: a boolean for each.
#pragma once

#include <cstdint>

#include "workloads/model/tape.h"

namespace allocmark {

// Answers begin as not ended; each of the two criteria is joined to that by an or.
[[nodiscard]] Tensor test_answers(Tape& tape, std::uint64_t answer_count);

}  // namespace allocmark

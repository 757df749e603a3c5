// Reads which model a generator is to run from a workload's text.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/setup.h"
#include "workloads/trace/parameters.h"

namespace allocmark {

// The model of the variant with the dimensions that the text overrides. Throws UsageError where
// heads do not divide what they must.
[[nodiscard]] ModelShape read_model_shape(Parameters& parameters);

// Throws UsageError where only training has the model's blocks.
void refuse_trained_only(Parameters& parameters, const ModelShape& model);

// The dimensions of a draft model: keys draft_layers, draft_hidden, draft_heads, draft_kv_heads,
// draft_ffn; its own where they are not given.
void read_draft_shape(Parameters& parameters, ModelShape* draft);

// How experts run and how uneven their shares are, for models that have some. `token_count`: of
// every forward, so that shares may be given; 0 where it varies.
void read_experts(Parameters& parameters, std::uint64_t token_count, TransformerSetup* setup);

// Tensor parallel inference (key tp): what is left of the model on one rank. Heads, inner layers
// and experts' inner layers are shared; says by how many ranks.
[[nodiscard]] std::uint64_t read_tensor_ranks(Parameters& parameters, ModelShape* model);

// Marks where one of `rank_count` ranks meets the others (key collectives). Read last of what says
// how many there are.
void read_meetings(Parameters& parameters, std::uint64_t rank_count, TransformerSetup* setup);

// Key vision: the ViT that sees images beside a Llama; false where there is none.
[[nodiscard]] bool read_vision_model(Parameters& parameters, TransformerSetup* setup);
// An image's patches have to fit into every text; 0 is a length that is not given.
void check_vision_lengths(Parameters& parameters, const TransformerSetup& setup,
                          const std::vector<std::uint64_t>& lengths);

}  // namespace allocmark

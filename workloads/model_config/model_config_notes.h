// What a model's config.json says and no generator's key can, with what it amounts to.
#pragma once

#include <cstdint>

#include "workloads/model_config/config_fields.h"
#include "workloads/model_config/model_config.h"

namespace allocmark {

// Appends to the model's notes. Of a Llama's kin.
void note_left_out(const Json& config, ModelConfig* model);

// A model that sees images: its tower (SigLIP) and projector. `text_hidden`: width of the text's
// residual stream.
void note_vision(const Json& config, std::uint64_t text_hidden, ModelConfig* model);

}  // namespace allocmark

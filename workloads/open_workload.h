// Opens a workload by what a person typed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/trace/source.h"

namespace allocmark {

// A workload as the command line names it: "train:gpt2-124m,batch=8" (a generator and its
// parameters), "train:PATH/config.json,batch=8" (with a Hugging Face model's), "file:PATH" (a trace
// file), the name of a scenario or of a recorded trace that ships
// with the suite, or some of these with "then" and "beside" between them (composition.h). Throws
// UsageError with the nearest names.
[[nodiscard]] std::unique_ptr<EventSource> open_workload(std::string_view workload,
                                                         std::uint64_t seed);

// Paths of the trace files that the text names with "file:", those of its scenarios included, in
// its order.
[[nodiscard]] std::vector<std::string> workload_files(std::string_view text);

// The same workload with what each scenario says in place of its name, and each config.json in
// place of its path, so that it opens without these files; empty where the text names none. Throws
// UsageError where a scenario inside of "then" or "beside" has the same word in it: its parts would
// get other seeds.
[[nodiscard]] std::string define_workload(std::string_view text);

// Keys that decide how much memory a generated workload needs or how fast it answers and that its
// text does not give, with what stands for them: "precision=bf16_autocast (weights in four bytes),
// optimizer=adamw". Empty where the text gives them all, or has no generator.
[[nodiscard]] std::string deciding_presets(std::string_view text);

// What the text's config.json files say and no generator's key can, with what it amounts to.
[[nodiscard]] std::vector<std::string> left_out_of_workload(std::string_view text);

}  // namespace allocmark

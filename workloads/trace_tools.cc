#include "workloads/trace_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "workloads/data_folder.h"
#include "workloads/generators.h"
#include "workloads/scenario.h"
#include "workloads/summary.h"
#include "workloads/trace_reader.h"
#include "workloads/trace_writer.h"

namespace allocmark {
namespace {

void print(std::FILE* out, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), out);
}

struct RecordedNote {
  std::string_view name;
  std::string_view summary;
};

// The traces that ship with the suite; a user's own file gets a general line.
constexpr RecordedNote kRecordedNotes[] = {
    {"gpt2_train_amp",
     "GPT-2 124M training, batch 8 x 1024, bf16 autocast, AdamW, 4 steps (PyTorch 2.11)"},
    {"gpt2_train_ckpt", "the same with activation checkpointing"},
    {"bert_varlen_infer", "BERT-base inference, batches of 1-16 with lognormal lengths"},
    {"llama_lora_varlen_accum",
     "Llama-shaped LoRA fine-tuning, checkpointing, 4 accumulation steps of varying length"},
    {"gpt2_medium_amp", "GPT-2 355M training, batch 4 x 1024, bf16 autocast, AdamW, 3 steps"},
    {"gpt2_bf16_sgd", "GPT-2 124M training, batch 8 x 512, bf16, SGD, fused attention, 4 steps"},
    {"gpt2_accum_fp32", "GPT-2 124M training, 3 micro steps of 4 x 256, fp32, AdamW, 2 steps"},
    {"gpt2_generate", "GPT-2 124M generation, bf16, batch 8, prompt 64, growing KV cache"},
    {"bert_mlm_fp32", "BERT-base masked-LM training, batch 16 x 128, fp32, AdamW, 4 steps"},
    {"llama_bf16_fused",
     "Llama-shaped 8 x 2048 training, batch 4 x 1024, bf16, fused AdamW and attention, 4 steps"},
    {"llama_eager_amp",
     "Llama-shaped 6 x 1024 training, batch 4 x 512, bf16 autocast, eager attention, 3 steps"},
    {"llama_ckpt_amp",
     "Llama-shaped 8 x 2048 training, batch 2 x 2048, bf16 autocast, checkpointing, 3 steps"},
    {"llama_generate", "Llama-shaped 8 x 2048 generation, bf16, batch 4, growing KV cache"},
    {"vit_amp", "ViT-base training, 32 images of 224 x 224, bf16 autocast, AdamW, 4 steps"},
    {"t5_small_amp", "T5-small training, batch 16, 256 tokens in, 64 out, bf16 autocast, 3 steps"},
    {"fuzz_1", "random sizes on one stream with empty_cache"},
    {"fuzz_s1", "random sizes on three streams"},
    {"fuzz_r1", "random sizes on three streams with record_stream, unfinished kernels and syncs"},
};

}  // namespace

std::unique_ptr<EventSource> open_path_or_workload(std::string_view text, std::uint64_t seed) {
  std::error_code ignored;
  const std::string path(text);
  if (std::filesystem::is_regular_file(path, ignored)) return open_trace_file(path);
  return open_workload(text, seed);
}

int trace_summary(std::string_view path_or_workload, std::uint64_t seed, std::FILE* out) {
  const std::unique_ptr<EventSource> source = open_path_or_workload(path_or_workload, seed);
  print(out, to_text(summarize(*source)));
  return static_cast<int>(ExitCode::Pass);
}

int trace_convert(std::string_view path_or_workload, const std::string& path_to, std::uint64_t seed,
                  std::FILE* out) {
  const std::unique_ptr<EventSource> source = open_path_or_workload(path_or_workload, seed);
  const std::uint64_t event_count = write_trace_file(path_to, *source);
  print(out, fmt::format("{}: {} events\n", path_to, event_count));
  return static_cast<int>(ExitCode::Pass);
}

int trace_validate(const std::string& path, std::FILE* out) {
  const std::unique_ptr<EventSource> source =
      open_trace_file(path.starts_with("file:") ? path.substr(5) : path);
  const TraceSummary summary = summarize(*source);
  print(out, fmt::format("{}: valid, {} events, hash {:016x}\n", path, summary.event_count,
                         summary.hash));
  return static_cast<int>(ExitCode::Pass);
}

std::vector<WorkloadListing> list_workloads() {
  std::vector<WorkloadListing> result;
  for (const GeneratorEntry& generator : generators()) {
    result.push_back({.name = std::string(generator.example),
                      .kind = "generator",
                      .summary = std::string(generator.summary)});
  }
  for (const NamedFile& file : recorded_traces()) {
    std::string_view summary = "a recorded trace";
    for (const RecordedNote& note : kRecordedNotes) {
      if (note.name == file.name) summary = note.summary;
    }
    result.push_back({.name = file.name, .kind = "recorded", .summary = std::string(summary)});
  }
  return result;
}

std::vector<WorkloadListing> list_scenarios() {
  std::vector<WorkloadListing> result;
  for (const NamedFile& file : scenario_files()) {
    const Scenario scenario = read_scenario(file.path);
    result.push_back({.name = scenario.name, .kind = scenario.intent, .summary = scenario.summary});
  }
  std::ranges::stable_sort(result, {}, &WorkloadListing::kind);
  return result;
}

}  // namespace allocmark

#include "workloads/open_workload.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "workloads/composition.h"
#include "workloads/generators.h"
#include "workloads/import/recording.h"
#include "workloads/model/shapes.h"
#include "workloads/model_config/model_config.h"
#include "workloads/scenario.h"
#include "workloads/trace/data_folder.h"
#include "workloads/trace/model_keys.h"
#include "workloads/trace/other_words.h"
#include "workloads/trace/trace_reader.h"

namespace allocmark {

namespace {

constexpr std::string_view kFilePrefix = "file:";
constexpr std::string_view kPathEndings[] = {".csv",    ".gz",  ".zst", ".json",
                                             ".pickle", ".pkl", ".txt", ".log"};

// A scenario names a generator, a file or a recorded trace; a chain of scenarios would hide what
// runs.
std::unique_ptr<EventSource> open_scenario_workload(const Scenario& scenario, std::uint64_t seed) {
  const std::vector<std::string> parts = workload_parts(scenario.workload);
  for (const NamedFile& file : scenario_files()) {
    if (std::ranges::find(parts, file.name) == parts.end()) continue;
    throw UsageError({.what = "a scenario names another scenario",
                      .where = scenario.path,
                      .wanted = "a generator, file:PATH or a recorded trace",
                      .got = scenario.workload});
  }
  try {
    return open_workload(scenario.workload, seed);
  } catch (const UsageError& error) {
    ErrorText text = error.text();
    text.where = scenario.path + ", key 'workload'" + (text.where.empty() ? "" : ", ") + text.where;
    throw UsageError(std::move(text));
  }
}

// open_workload takes a name for one of these first.
bool comes_before_scenarios(const std::string& name) {
  const std::vector<NamedFile> recorded = recorded_traces();
  return std::ranges::find(generators(), name, &GeneratorEntry::name) != generators().end() ||
         std::ranges::find(recorded, name, &NamedFile::name) != recorded.end();
}

// The path behind "file:". A shell leaves its "~" as it is there, where it is no word's beginning.
std::string file_path(const std::string& text) {
  std::string path = text.substr(kFilePrefix.size());
  if (path.empty()) {
    throw UsageError(
        {.what = "no file is named behind 'file:'", .wanted = "file:PATH", .got = "nothing"});
  }
  std::error_code ignored;
  if (!path.starts_with("~/") || std::filesystem::exists(path, ignored)) return path;
  throw FileError({.what = "a shell does not expand '~' behind 'file:'",
                   .where = path,
                   .wanted = "a path from / or from this folder",
                   .next = "did you mean file:$HOME" + path.substr(1) + "?"});
}

// "A,B" of two names that are known.
void refuse_list(const std::string& text, const std::vector<std::string>& known) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) return;
  if (std::ranges::find(known, text.substr(0, comma)) == known.end()) return;
  std::string apart = text;
  std::ranges::replace(apart, ',', ' ');
  throw UsageError({.what = "several workloads stand apart",
                    .where = text,
                    .next = "did you mean " + apart + "?"});
}

bool ends_like_file(std::string_view text) {
  const std::string extension = std::filesystem::path(text).extension().string();
  return std::ranges::find(kPathEndings, extension) != std::end(kPathEndings);
}

// A path where a name is wanted: says how a file is named, or that there is none.
void refuse_path(const std::string& text) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool is_file = fs::is_regular_file(text, ignored);
  const bool like_path = text.find('/') != std::string::npos || ends_like_file(text);
  if (is_file) {
    throw UsageError({.what = "a trace file needs 'file:' before its path",
                      .where = text,
                      .next = "did you mean file:" + text + "?"});
  }
  if (!like_path || text.find(':') < text.find('/')) return;
  throw FileError({.what = "there is no trace file of this name",
                   .where = text,
                   .wanted = "file:PATH, or a workload by name",
                   .got = fs::is_directory(text, ignored) ? "a folder" : "nothing there",
                   .next = "check the path; for names see: allocmark list workloads"});
}

// Methods and programs by their own names, with a blank between, and what is typed for them here.
struct Method {
  std::string_view names, typed;
};
constexpr Method kMethods[] = {
    {"grpo ppo rlhf rloo rl", "colocate:llama-3-8b,requests=32"},
    {"dpo orpo", "train:llama-3-8b,lora=16,batch=8 (twice the pairs)"},
    {"kto", "train:llama-3-8b,lora=16,batch=4"},
    {"sft finetune pretrain", "train:llama-3-8b,batch=4"},
    {"lora", "train:llama-3-8b,lora=16"},
    {"qlora", "train:llama-3-8b,lora=16,quantize=nf4"},
    {"fsdp", "train:llama-3-8b,dp=8,fsdp=2"},
    {"deepspeed", "train:llama-3-8b,dp=8,zero=3"},
    {"vllm sglang tgi", "serve:llama-3-8b"},
    {"generate inference", "infer:llama-3-8b"},
};

// A model alone does not say what is done with it. Only behind an owner's name may it have more
// words than ours: a trace's name may begin with a model's.
void refuse_model(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(','));
  const std::vector<std::string> models = model_names();
  std::string model = word.find('/') == std::string_view::npos ? other_word(word, models)
                                                               : model_word(word, models);
  if (std::ranges::find(models, word) != models.end()) model = word;
  std::error_code ignored;
  if (model.empty() || ends_like_file(word) || std::filesystem::exists(word, ignored)) return;
  throw UsageError({.what = "a model is no workload yet",
                    .where = std::string(text),
                    .wanted = "what is done with it before its name",
                    .next = fmt::format("did you mean train:{0}, infer:{0} or serve:{0}?", model)});
}

void refuse_method(std::string_view name, std::string_view text) {
  const auto* method = std::ranges::find_if(kMethods, [&](const Method& one) {
    return std::ranges::count(words_of(one.names), name) > 0;
  });
  if (method == std::end(kMethods)) return;
  std::string typed(method->typed);
  constexpr std::string_view kModel = "llama-3-8b";
  const std::string_view model =
      text.substr(std::min(name.size() + 1, text.size()), text.find(',') - name.size() - 1);
  if (!model.empty()) typed.replace(typed.find(kModel), kModel.size(), model);
  throw UsageError({.what = fmt::format("unknown workload '{}'", text),
                    .wanted = fmt::format("a generator; for {} that is {}", name, typed),
                    .next = "workloads/GENERATORS.md, \"Methods by their names\", has the rest"});
}

// The text of an error, pasted where a workload goes.
void refuse_message(std::string_view text) {
  if (std::ranges::count(text, ' ') < 3 || text.find("emory") == std::string_view::npos) return;
  throw UsageError({.what = "the text of an error is no workload",
                    .where = std::string(text.substr(0, 60)),
                    .wanted = "a generator, file:PATH, a recorded trace or a scenario",
                    .next = "ask about the error: allocmark why -, then paste"});
}

constexpr std::array<std::string_view, 10> kDecidingKeys = {
    "precision", "optimizer", "batch",      "seq",    "checkpoint",
    "kv",        "kv_memory", "per_minute", "tflops", "bandwidth"};

// What a word does not say by itself.
std::string_view preset_words(std::string_view key, std::string_view value) {
  if (key != "precision") return "";
  const bool is_narrow = value == "bf16" || value == "bf16_weights_autocast";
  return is_narrow ? " (weights in two bytes)" : " (weights in four bytes)";
}

std::string presets_of_part(const std::string& part, const GeneratorEntry& generator) {
  Parameters parameters(part);
  (void)generator.make(parameters, 1);
  std::string text;
  for (const std::string_view key : kDecidingKeys) {
    for (const auto& [own, value] : parameters.presets()) {
      if (own != key) continue;
      std::string joined = value;
      std::erase(joined, ' ');
      text +=
          fmt::format("{}{}={}{}", text.empty() ? "" : ", ", key, joined, preset_words(key, value));
      break;
    }
  }
  return text;
}

}  // namespace

std::string deciding_presets(std::string_view text) {
  const std::string defined = define_workload(text);
  std::vector<std::string> parts = workload_parts(defined.empty() ? text : defined);
  std::string presets;
  for (const std::string& part : parts) {
    const auto generator =
        std::ranges::find(generators(), part.substr(0, part.find(':')), &GeneratorEntry::name);
    if (generator == generators().end()) continue;
    const std::string own = presets_of_part(part, *generator);
    if (own.empty()) continue;
    if (!presets.empty()) presets += "; ";
    presets += parts.size() > 1 ? part.substr(0, part.find(',')) + ": " + own : own;
  }
  return presets;
}

std::vector<std::string> left_out_of_workload(std::string_view text) {
  std::vector<std::string> notes;
  for (const std::string& part : workload_parts(text)) {
    for (std::string& note : with_configs(part).notes) notes.push_back(std::move(note));
  }
  return notes;
}

std::unique_ptr<EventSource> open_workload(std::string_view workload, std::uint64_t seed) {
  if (std::unique_ptr<EventSource> composed = open_composition(workload, seed)) return composed;
  if (workload.starts_with(kFilePrefix)) {
    return open_recording(file_path(std::string(workload))).events;
  }
  const std::string text = with_configs(std::string(workload)).text;
  std::vector<std::string> known;
  const std::string name = text.substr(0, text.find(':'));
  for (const GeneratorEntry& generator : generators()) {
    if (generator.name == name) {
      Parameters parameters(text);
      return generator.make(parameters, seed);
    }
    known.emplace_back(generator.name);
  }
  for (const NamedFile& file : recorded_traces()) {
    if (file.name == text) return open_trace_file(file.path);
    known.push_back(file.name);
  }
  for (const NamedFile& file : scenario_files()) {
    if (file.name == text) return open_scenario_workload(read_scenario(file.path), seed);
    known.push_back(file.name);
  }
  refuse_message(text);
  refuse_model(text);
  refuse_path(text);
  refuse_list(text, known);
  refuse_method(name, text);
  throw UsageError({.what = "unknown workload '" + text + "'",
                    .wanted = "a generator, file:PATH, a recorded trace or a scenario",
                    .next = suggest(name, known, "allocmark list workloads")});
}

std::string define_workload(std::string_view text) {
  const std::vector<NamedFile> files = scenario_files();
  bool is_defined = false;
  const auto define = [&](const std::string& name) {
    if (DescribedWorkload described = with_configs(name); described.text != name) {
      is_defined = true;
      return std::move(described.text);
    }
    const auto file = std::ranges::find(files, name, &NamedFile::name);
    if (file == files.end() || comes_before_scenarios(name)) return name;
    is_defined = true;
    return read_scenario(file->path).workload;
  };
  std::string definition = replace_workload_parts(text, define);
  return is_defined ? definition : std::string();
}

std::vector<std::string> workload_files(std::string_view text) {
  const std::string definition = define_workload(text);
  std::vector<std::string> paths;
  for (const std::string& part : workload_parts(definition.empty() ? text : definition)) {
    if (part.starts_with(kFilePrefix)) paths.push_back(part.substr(kFilePrefix.size()));
  }
  return paths;
}

}  // namespace allocmark

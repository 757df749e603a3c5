// A Hugging Face config.json as keys of a generator. JSON text flows in; the head of a workload's
// text flows out, or what of the model no generator has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

struct ModelConfig {
  std::string model_type = {};
  std::string head = {};  // "llama-3-8b,layers=28,hidden=3072,..."
  // What the config says and the generator leaves out, and what that changes.
  std::vector<std::string> notes = {};
};

// `where` is named in errors. Throws UsageError where the text is no model's config, where its
// family is not generated (and says what is missing), and where a number that decides is not there.
[[nodiscard]] ModelConfig read_model_config(std::string_view json, const std::string& where);

struct DescribedWorkload {
  std::string text = {};
  std::vector<std::string> notes = {};  // as ModelConfig's
};

// "train:PATH/config.json,batch=2" with the model's keys in place of the path, and with those of
// DeepSpeed's config in place of "deepspeed=PATH"; keys that the text gives itself win. Other texts
// stay as they are. Throws as read_model_config and read_deepspeed_config, and FileError where a
// file cannot be read.
[[nodiscard]] DescribedWorkload with_configs(const std::string& workload);

}  // namespace allocmark

// Config strings as they are pasted: with the variable they are exported in, or in quotes of their
// own. Text flows in; the config string flows out, and a note where they differ.
#pragma once

#include <string>

namespace allocmark {

struct PastedConf {
  std::string conf;
  std::string note;  // what was left out; empty: the text was a config string as it stood
};

// "export PYTORCH_CUDA_ALLOC_CONF='max_split_size_mb:128'" is max_split_size_mb:128. No config
// string begins like this, so nothing else can be meant.
[[nodiscard]] PastedConf read_pasted_conf(const std::string& text);

// Throws UsageError where the text is a word that people use for no config string: here that is
// unset.
void refuse_words_for_none(const std::string& text);

}  // namespace allocmark

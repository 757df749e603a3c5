// See suites.h. A table: a suite is data, and each line of it is as a user would type it.
#include "harness/core/run/suites.h"

#include <fmt/format.h>
#include "base/error.h"
#include "base/nearest.h"

namespace allocmark {

const std::vector<Suite>& suites() {
  static const std::vector<Suite> table = {
      {.name = "default",
       .summary = "recorded and generated training and inference on the allocators of CUDA, "
                  "PyTorch, CUB and Thrust, with and without the usual config strings, with plenty "
                  "of memory and with little; about a minute",
       .workloads = {"gpt2_train_amp", "bert_varlen_infer", "llama_lora_varlen_accum",
                     "train:gpt2-124m,batch=8,seq=1024,steps=4",
                     "infer:gpt2-124m,requests=16,batch=4,lengths=conv,kv=concat,events=200000"},
       .allocators = {"null", "native", "async", "caching", "cub", "thrust_pool"},
       .confs = {"unset", "caching=max_split_size_mb:32", "caching=max_split_size_mb:128",
                 "caching=max_split_size_mb:512", "caching=garbage_collection_threshold:0.8",
                 "caching=expandable_segments:True", "async=release_threshold_mb:max"},
       .capacities = {"unlimited", "1.05x"},
       .pass_count = 3},
      {.name = "smoke",
       .summary =
           "one recorded run on the same allocators; a few seconds, to see that everything works",
       .workloads = {"gpt2_train_amp"},
       .allocators = {"null", "native", "async", "caching", "cub", "thrust_pool"},
       .confs = {"unset", "caching=max_split_size_mb:128"},
       .capacities = {"unlimited"},
       .pass_count = 1},
  };
  return table;
}

const Suite& find_suite(std::string_view name) {
  std::vector<std::string> names;
  for (const Suite& suite : suites()) {
    if (suite.name == name) return suite;
    names.emplace_back(suite.name);
  }
  throw UsageError({.what = fmt::format("there is no suite '{}'", name),
                    .where = "--suite",
                    .next = suggest(name, names) + "; see: allocmark list suites"});
}

}  // namespace allocmark

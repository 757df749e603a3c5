// The tables. JAX's are of docs/gpu_memory_allocation.rst and xla_client.py of jaxlib (August
// 2026), and of XLA's se_gpu_pjrt_client.cc.
#include "harness/core/search/frameworks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/bytes.h"

namespace allocmark {
namespace {

constexpr std::string_view kJax = "jax";
constexpr std::string_view kTensorFlow = "tensorflow";

// JAX's share of the card without a variable.
constexpr double kJaxFraction = 0.75;

std::string threshold(double share_bytes) {
  return fmt::format("release_threshold_mb:{}", static_cast<std::uint64_t>(share_bytes) / kMiB);
}

std::vector<FrameworkSetting> jax_settings(std::uint64_t capacity_bytes) {
  const std::string bfc = "bfc@xla-2026-09";
  const std::string rest =
      "The share is of the whole card: CUDA's context, cuDNN, NCCL and other processes need the "
      "rest. Newer releases also say XLA_CLIENT_MEM_FRACTION; JAX refuses both together.";
  const std::string platform =
      "JAX's manual calls it very slow. JAX 0.10.2 silently took BFC with it where a bug was not "
      "mended (ROCm/xla 856); XLA_PYTHON_CLIENT_ALLOCATOR=address of that release does the same.";
  const std::string vmm = "JAX calls it experimental, and releases before 0.10 refuse it.";
  const double share_bytes = kJaxFraction * static_cast<double>(capacity_bytes);
  return {{.setting = "", .allocator = bfc, .conf = ""},
          {.setting = "XLA_PYTHON_CLIENT_MEM_FRACTION=.90",
           .allocator = bfc,
           .conf = "fraction:0.9",
           .note = rest},
          {.setting = "XLA_PYTHON_CLIENT_MEM_FRACTION=.95",
           .allocator = bfc,
           .conf = "fraction:0.95",
           .note = rest},
          {.setting = "XLA_PYTHON_CLIENT_PREALLOCATE=false",
           .allocator = bfc,
           .conf = "preallocate:False"},
          {.setting = "XLA_PYTHON_CLIENT_PREALLOCATE=false XLA_PYTHON_CLIENT_MEM_FRACTION=.95",
           .allocator = bfc,
           .conf = "preallocate:False,fraction:0.95",
           .note = rest},
          {.setting = "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_PYTHON_CLIENT_PREALLOCATE=false",
           .allocator = "async",
           .conf = threshold(share_bytes)},
          {.setting = "XLA_PYTHON_CLIENT_ALLOCATOR=vmm",
           .allocator = "xla_vmm",
           .conf = "",
           .note = vmm},
          {.setting = "XLA_PYTHON_CLIENT_ALLOCATOR=vmm XLA_PYTHON_CLIENT_MEM_FRACTION=.95",
           .allocator = "xla_vmm",
           .conf = "fraction:0.95",
           .note = vmm + " " + rest},
          {.setting = "XLA_PYTHON_CLIENT_ALLOCATOR=platform",
           .allocator = "native",
           .conf = "",
           .note = platform}};
}

std::vector<FrameworkSetting> tensorflow_settings(std::uint64_t capacity_bytes) {
  const std::string bfc = "bfc@tf2.21";
  return {
      {.setting = "", .allocator = bfc, .conf = ""},
      {.setting = "TF_FORCE_GPU_ALLOW_GROWTH=true", .allocator = bfc, .conf = "allow_growth:True"},
      {.setting = "TF_GPU_ALLOCATOR=cuda_malloc_async",
       .allocator = "async",
       .conf = threshold(static_cast<double>(capacity_bytes))}};
}

// Adds what is not there yet.
void add_once(std::string text, std::vector<std::string>* texts) {
  if (std::ranges::find(*texts, text) == texts->end()) texts->push_back(std::move(text));
}

}  // namespace

const FrameworkSetting& Framework::at(std::string_view setting) const {
  const auto found = std::ranges::find(settings, setting, &FrameworkSetting::setting);
  ALLOCMARK_ASSERT(found != settings.end());
  return *found;
}

std::vector<std::string> Framework::variables() const {
  std::vector<std::string> names;
  for (const FrameworkSetting& one : settings) {
    std::string_view rest = one.setting;
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      add_once(std::string(word.substr(0, word.find('='))), &names);
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    }
  }
  return names;
}

std::vector<std::string> Framework::allocators() const {
  std::vector<std::string> names;
  for (const FrameworkSetting& one : settings) add_once(one.allocator, &names);
  return names;
}

std::vector<std::string> framework_names() { return {std::string(kJax), std::string(kTensorFlow)}; }

Framework framework_of(std::string_view name, std::uint64_t capacity_bytes) {
  if (name == kJax) {
    return {.name = std::string(name), .title = "JAX", .settings = jax_settings(capacity_bytes)};
  }
  ALLOCMARK_ASSERT(name == kTensorFlow);
  return {.name = std::string(name),
          .title = "TensorFlow",
          .settings = tensorflow_settings(capacity_bytes)};
}

SearchResult run_framework_search(const Framework& framework, const SearchSpec& spec,
                                  const SearchPlace& place,
                                  const std::function<void()>& on_setting) {
  std::optional<SearchResult> whole;
  std::vector<SettingFacts> found;
  for (const std::string& allocator : framework.allocators()) {
    SearchSpec part = spec;
    part.allocator = allocator;
    part.confs.clear();
    std::vector<std::string> names;
    for (const std::string& name : spec.confs) {
      const FrameworkSetting& setting = framework.at(name);
      if (setting.allocator != allocator) continue;
      part.confs.push_back(setting.conf);
      names.push_back(name);
    }
    if (part.confs.empty()) continue;
    SearchResult result = run_search(part, place, on_setting);
    for (SettingFacts& facts : result.settings) {
      const auto at = std::ranges::find(part.confs, facts.conf) - part.confs.begin();
      facts.conf = names[static_cast<std::size_t>(at)];
      found.push_back(std::move(facts));
    }
    if (!whole) whole = std::move(result);
  }
  if (!whole) return run_search(spec, place, on_setting);
  // In the order asked for.
  whole->settings.clear();
  for (const std::string& name : spec.confs) {
    const auto at = std::ranges::find(found, name, &SettingFacts::conf);
    if (at != found.end()) whole->settings.push_back(std::move(*at));
  }
  return std::move(*whole);
}

}  // namespace allocmark

#include "harness/tools/why/frame_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "results/columns/text.h"

namespace allocmark {
namespace {

constexpr std::size_t kNameBytesMax = 200;
constexpr std::size_t kModulesMax = 24;

// A rule holds where the file has `file` in its path, or in its own name where `file` has no slash,
// and the function's name is `name`; empty: any. A name that ends in '*' is a beginning, and one
// that begins with '*' stands anywhere.
struct FrameRule {
  std::string_view file;
  std::string_view name;
  StackKind kind;
};

// The first that holds decides, so what is special comes before what is general.
constexpr FrameRule kFrameRules[] = {
    // Python's names of what a C++ frame is called stand in its name.
    {"", "*AccumulateGrad", StackKind::Gradients},
    {"", "*c10d::Reducer", StackKind::Gradients},
    {"", "*torch::autograd::Engine", StackKind::Backward},
    {"", "*torch::autograd::generated::", StackKind::Backward},
    // Optimizers make their state in their first step, then step.
    {"/optim", "_init_group", StackKind::OptimizerState},
    {"/optim", "*init_state", StackKind::OptimizerState},
    {"/deepspeed/runtime/zero/", "*fp32", StackKind::OptimizerState},
    {"/deepspeed/runtime/zero/", "*initialize_optimizer", StackKind::OptimizerState},
    {"bitsandbytes/optim/", "*get_state_buffer", StackKind::OptimizerState},
    {"/torch/optim/lr_scheduler", "", StackKind::Own},
    {"/torch/optim/", "", StackKind::Optimizer},
    {"/apex/optimizers/", "", StackKind::Optimizer},
    {"/bitsandbytes/optim/", "", StackKind::Optimizer},
    {"/deepspeed/ops/adam", "", StackKind::Optimizer},
    {"/megatron/core/optimizer/", "", StackKind::Optimizer},
    {"/torchao/optim/", "", StackKind::Optimizer},
    {"/transformer_engine/pytorch/optimizers/", "", StackKind::Optimizer},
    {"/galore_torch/", "", StackKind::Optimizer},
    {"/pytorch_optimizer/", "", StackKind::Optimizer},
    {"optim", "step", StackKind::Optimizer},
    {"adam", "step", StackKind::Optimizer},
    {"muon", "step", StackKind::Optimizer},
    // Work on gradients between the passes.
    {"/torch/nn/utils/clip_grad", "", StackKind::Scratch},
    {"/torch/amp/grad_scaler", "", StackKind::Scratch},
    {"", "clip_grad_norm*", StackKind::Scratch},
    // Shards of gradients and parameters.
    {"/fsdp/", "*reduce", StackKind::Gradients},
    {"/fsdp/", "*_post_backward", StackKind::Gradients},
    {"/fsdp/", "*grad", StackKind::Gradients},
    {"/fsdp/", "*all_gather", StackKind::Weights},
    {"/fsdp/", "*unshard", StackKind::Weights},
    {"/fsdp/", "*_init_*", StackKind::Weights},
    {"/deepspeed/runtime/zero/", "*grad", StackKind::Gradients},
    {"/deepspeed/runtime/zero/", "*reduce", StackKind::Gradients},
    {"/deepspeed/runtime/zero/partition", "", StackKind::Weights},
    {"/torch/nn/parallel/distributed.py", "*_ddp_init", StackKind::Gradients},
    {"param_and_grad_buffer", "__init__", StackKind::Gradients},
    // Caches of keys and values, before the modules that call them.
    {"kv_cache", "", StackKind::KvCache},
    {"kvcache", "", StackKind::KvCache},
    {"/cache_utils.py", "", StackKind::KvCache},
    {"/cache_engine", "", StackKind::KvCache},
    {"/mem_cache/", "", StackKind::KvCache},
    {"", "*kv_cache", StackKind::KvCache},
    // Modules are made, moved and loaded.
    {"/torch/nn/modules/module.py", "*_call_impl", StackKind::Forward},
    {"/torch/nn/modules/module.py", "_slow_forward", StackKind::Forward},
    {"/torch/nn/modules/module.py", "", StackKind::Weights},
    {"/torch/nn/modules/", "__init__", StackKind::Weights},
    {"/torch/nn/modules/", "reset_parameters", StackKind::Weights},
    {"/torch/nn/init.py", "", StackKind::Weights},
    {"/torch/nn/parameter.py", "", StackKind::Weights},
    {"/torch/serialization.py", "", StackKind::Weights},
    {"/safetensors/", "", StackKind::Weights},
    {"/transformers/modeling_utils.py", "*load", StackKind::Weights},
    {"/transformers/modeling_utils.py", "*from_pretrained", StackKind::Weights},
    {"/transformers/core_model_loading.py", "", StackKind::Weights},
    {"/accelerate/utils/modeling.py", "", StackKind::Weights},
    {"/accelerate/big_modeling.py", "", StackKind::Weights},
    {"/model_loader/", "", StackKind::Weights},
    {"", "load_weights", StackKind::Weights},
    {"", "create_weights", StackKind::Weights},
    {"", "load_state_dict", StackKind::Weights},
    {"", "from_pretrained", StackKind::Weights},
    {"model", "__init__", StackKind::Weights},
    {"/models/", "__init__", StackKind::Weights},
    // The data.
    {"/torch/utils/data/", "", StackKind::Inputs},
    {"/accelerate/data_loader.py", "", StackKind::Inputs},
    {"", "send_to_device", StackKind::Inputs},
    {"", "_prepare_input*", StackKind::Inputs},
    {"", "move_data_to_device", StackKind::Inputs},
    // The two passes.
    {"/torch/autograd/__init__.py", "", StackKind::Backward},
    {"/torch/autograd/graph.py", "_engine_run_backward", StackKind::Backward},
    {"", "backward", StackKind::Backward},
    {"", "_backward_impl", StackKind::Backward},
    {"/torch/nn/functional.py", "", StackKind::Forward},
    {"/torch/nn/modules/", "", StackKind::Forward},
    {"", "forward", StackKind::Forward},
};

bool names_match(std::string_view name, std::string_view wanted) {
  if (wanted.empty()) return true;
  const bool open_end = wanted.ends_with('*');
  if (wanted.starts_with('*')) {
    wanted.remove_prefix(1);
    if (open_end) wanted.remove_suffix(1);
    return name.find(wanted) != std::string_view::npos;
  }
  if (open_end) return name.starts_with(wanted.substr(0, wanted.size() - 1));
  return name == wanted;
}

std::string_view base_name(std::string_view file) {
  return file.substr(file.find_last_of("/\\") + 1);
}

std::optional<StackKind> kind_of_frame(std::string_view file, std::string_view name) {
  for (const FrameRule& rule : kFrameRules) {
    const bool of_path = rule.file.find('/') != std::string_view::npos;
    const std::string_view place = of_path ? file : base_name(file);
    if (place.find(rule.file) != std::string_view::npos && names_match(name, rule.name))
      return rule.kind;
  }
  return std::nullopt;
}

// A frame of the backward pass, or one that computes activations again for it.
bool is_backward_frame(std::string_view file, std::string_view name) {
  if (file.find("/torch/utils/checkpoint.py") != std::string_view::npos)
    return name == "unpack_hook" || name == "backward";
  const std::optional<StackKind> kind = kind_of_frame(file, name);
  return kind == StackKind::Backward || kind == StackKind::Gradients;
}

std::string_view stem(std::string_view file) {
  const std::string_view base = base_name(file);
  return base.substr(0, base.rfind('.'));
}

std::string_view file_of(const MemorySnapshot& snapshot, std::uint32_t frame) {
  return snapshot.texts[snapshot.frames[frame].file];
}

std::string_view name_of_frame(const MemorySnapshot& snapshot, std::uint32_t frame) {
  return snapshot.texts[snapshot.frames[frame].name];
}

// PyTorch's way into a module stands around each forward().
bool is_call_wrapper(std::string_view name) {
  return name == "_call_impl" || name == "_wrapped_call_impl";
}

bool is_python(const MemorySnapshot& snapshot, std::uint32_t frame) {
  const std::string_view file = file_of(snapshot, frame);
  return file.ends_with(".py") || file.starts_with('<');
}

std::string join_own(const MemorySnapshot& snapshot, const std::vector<std::uint32_t>& frames,
                     std::string text, int count_max) {
  for (std::size_t i = text.empty() ? 0 : 1; i < frames.size() && count_max > 0; ++i) {
    if (!is_own_frame(snapshot, frames[i])) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " < ", frame_words(snapshot, frames[i]));
    --count_max;
  }
  if (text.empty() && !frames.empty()) text = frame_words(snapshot, frames.front());
  return text;
}

}  // namespace

StackKind kind_of_stack(const MemorySnapshot& snapshot, std::uint32_t stack) {
  const std::vector<std::uint32_t>& frames = snapshot.stacks[stack];
  if (frames.empty()) return StackKind::None;
  for (auto at = frames.begin(); at != frames.end(); ++at) {
    const std::optional<StackKind> kind =
        kind_of_frame(file_of(snapshot, *at), name_of_frame(snapshot, *at));
    if (!kind) continue;
    const bool in_backward =
        *kind == StackKind::Forward && std::any_of(at, frames.end(), [&](std::uint32_t frame) {
          return is_backward_frame(file_of(snapshot, frame), name_of_frame(snapshot, frame));
        });
    return in_backward ? StackKind::Recompute : *kind;
  }
  return StackKind::Own;
}

bool is_own_frame(const MemorySnapshot& snapshot, std::uint32_t frame) {
  const std::string_view file = file_of(snapshot, frame);
  return file.find("/torch/") == std::string_view::npos &&
         file.find("site-packages") == std::string_view::npos && file != "??";
}

std::string shortened(std::string_view text) {
  if (text.size() <= kNameBytesMax) return printable(text);
  std::size_t end = kNameBytesMax;
  // Not in the middle of a character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  return printable(text.substr(0, end)) + "...";
}

std::string frame_words(const MemorySnapshot& snapshot, std::uint32_t frame) {
  return fmt::format("{}:{} {}", shortened(base_name(file_of(snapshot, frame))),
                     snapshot.frames[frame].line + 0, shortened(name_of_frame(snapshot, frame)));
}

std::string own_frames(const MemorySnapshot& snapshot, std::uint32_t stack) {
  return join_own(snapshot, snapshot.stacks[stack], "", 3);
}

std::string stack_words(const MemorySnapshot& snapshot, std::uint32_t stack) {
  std::vector<std::uint32_t> frames = drawn_frames(snapshot, stack);
  std::ranges::reverse(frames);
  if (frames.empty()) return "";
  return join_own(snapshot, frames, frame_words(snapshot, frames.front()), 2);
}

std::string module_words(const MemorySnapshot& snapshot, std::uint32_t stack) {
  std::string text;
  std::string_view last;
  std::size_t count = 0;
  const std::vector<std::uint32_t>& frames = snapshot.stacks[stack];
  for (auto at = frames.rbegin(); at != frames.rend(); ++at) {
    const std::string_view name = stem(file_of(snapshot, *at));
    const bool skipped = name_of_frame(snapshot, *at) != "forward" || name == "module" ||
                         name == "container" || name == last;
    if (skipped) continue;
    last = name;
    if (++count > kModulesMax) return text + " > ...";
    text += fmt::format("{}{}", text.empty() ? "" : " > ", shortened(name));
  }
  return text;
}

std::vector<std::uint32_t> drawn_frames(const MemorySnapshot& snapshot, std::uint32_t stack) {
  constexpr std::size_t kDepthMax = 48;
  const std::vector<std::uint32_t>& frames = snapshot.stacks[stack];
  const bool has_python =
      std::ranges::any_of(frames, [&](std::uint32_t frame) { return is_python(snapshot, frame); });
  std::vector<std::uint32_t> drawn;
  for (auto at = frames.rbegin(); at != frames.rend() && drawn.size() < kDepthMax; ++at) {
    if (has_python && !is_python(snapshot, *at)) continue;
    if (!is_call_wrapper(name_of_frame(snapshot, *at))) drawn.push_back(*at);
  }
  return drawn;
}

}  // namespace allocmark

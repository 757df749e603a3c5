#include "workloads/trace/other_words.h"

#include <algorithm>
#include <cctype>

namespace allocmark {
namespace {

struct OtherWords {
  std::string_view ours;
  std::vector<std::string_view> theirs;
};

// A word may stand in more than one row: the workload's own keys decide which is meant.
const std::vector<OtherWords> kOtherWords{
    {"layers", {"n_layers", "num_layers", "n_layer", "num_hidden_layers", "depth"}},
    {"hidden", {"hidden_size", "d_model", "n_embd", "hidden_dim", "dim", "embed_dim"}},
    {"heads", {"n_heads", "num_heads", "n_head", "num_attention_heads"}},
    {"kv_heads", {"num_key_value_heads", "n_kv_heads", "num_query_groups"}},
    {"ffn", {"ffn_hidden_size", "intermediate_size", "mlp_dim"}},
    {"vocabulary", {"vocab", "vocab_size"}},
    {"batch",
     {"batch_size", "bs", "micro_batch_size", "per_device_train_batch_size",
      "train_micro_batch_size_per_gpu", "max_num_seqs", "max_batch_size"}},
    {"batch_tokens", {"max_num_batched_tokens", "max_tokens_per_batch"}},
    {"global_batch", {"global_batch_size", "train_batch_size"}},
    {"seq",
     {"seq_len", "seqlen", "sequence", "sequence_length", "seq_length", "max_length", "max_seq_len",
      "max_seq_length", "context", "context_length", "tokens"}},
    {"context_max", {"max_model_len", "max_length", "max_seq_len", "context_length", "context"}},
    {"generated_max", {"max_new_tokens", "max_tokens", "new_tokens", "output_len"}},
    {"steps", {"max_steps", "num_steps", "iterations", "train_iters", "iters"}},
    {"precision", {"dtype", "torch_dtype", "amp", "mixed_precision", "data_type"}},
    {"accumulate",
     {"grad_accum", "accumulation", "accum", "gradient_accumulation_steps", "grad_accum_steps",
      "accumulation_steps"}},
    {"checkpoint",
     {"ckpt", "gradient_checkpointing", "activation_checkpointing", "grad_checkpointing",
      "recompute", "recomputation", "recompute_granularity"}},
    {"lora", {"lora_r", "lora_rank", "r", "peft"}},
    {"quantize", {"quantization", "quant", "load_in_4bit", "load_in_8bit", "bits"}},
    {"zero", {"zero_stage", "deepspeed", "stage"}},
    {"tp", {"tensor_parallel", "tensor_parallel_size", "tensor_model_parallel_size", "tp_size"}},
    {"pp", {"pipeline_parallel_size", "pipeline_model_parallel_size", "pp_size"}},
    {"dp", {"data_parallel", "data_parallel_size", "world_size", "dp_size", "gpus", "num_gpus"}},
    {"sp", {"sequence_parallel"}},
    {"ep", {"expert_parallel", "expert_model_parallel_size", "ep_size"}},
    {"optimizer", {"optim", "opt"}},
    {"clip", {"max_grad_norm", "clip_grad", "gradient_clipping", "grad_clip"}},
    {"attention", {"attn", "attn_implementation", "flash_attention", "attn_impl", "sdpa"}},
    {"offload", {"cpu_offload", "offload_optimizer", "offload_optimizer_device"}},
    {"gpt2-124m", {"gpt2", "gpt2_small"}},
    {"gpt2-355m", {"gpt2_medium"}},
    {"gpt2-774m", {"gpt2_large"}},
    {"gpt2-1.5b", {"gpt2_xl"}},
    {"gpt3-175b", {"gpt3", "gpt_3"}},
    {"llama-3-8b", {"llama_3.1_8b", "llama_3_8b"}},
    {"llama-3-70b", {"llama_3.1_70b", "llama_3.3_70b", "llama_3_70b"}},
    {"vit-base", {"vit_b", "vit_b_16"}},
    {"vit-large", {"vit_l", "vit_l_16"}},
    {"vit-huge", {"vit_h", "vit_h_14"}},
    {"t5-3b", {"t5_xl"}},
    {"t5-11b", {"t5_xxl"}},
    {"requests", {"num_requests", "num_prompts", "n_requests"}},
    {"per_minute", {"rate", "request_rate", "qps", "rps"}},
    {"beams", {"num_beams", "beam_width", "beam_size"}},
    {"block_tokens", {"block_size", "page_size"}},
    {"chunk", {"chunked_prefill", "chunk_size", "max_chunk"}},
    {"bf16", {"bfloat16", "torch.bfloat16", "half"}},
    {"fp32", {"float32", "float", "torch.float32", "full"}},
    {"fp16_autocast", {"fp16", "float16", "torch.float16", "half"}},
    {"bf16_autocast", {"amp", "autocast", "bf16_amp", "amp_bf16"}},
    {"full", {"true", "yes", "on", "1", "all"}},
    {"none", {"false", "no", "off", "0"}}};

}  // namespace

std::string other_word(std::string_view word, const std::vector<std::string>& known) {
  std::string folded(word);
  std::ranges::transform(folded, folded.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::tolower(c));
  });
  for (const OtherWords& row : kOtherWords) {
    if (std::ranges::find(row.theirs, folded) == row.theirs.end()) continue;
    if (std::ranges::find(known, row.ours) != known.end()) return std::string(row.ours);
  }
  return {};
}

std::string model_word(std::string_view word, const std::vector<std::string>& known) {
  std::string name(
      word.substr(word.rfind('/') == std::string_view::npos ? 0 : word.rfind('/') + 1));
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return c == '_' || c == ':' ? '-' : static_cast<char>(std::tolower(c));
  });
  for (const std::string_view front : {"meta-", "facebook-", "google-", "flan-"}) {
    if (name.starts_with(front)) name.erase(0, front.size());
  }
  if (name.starts_with("llama2") || name.starts_with("llama3")) name.insert(5, "-");
  // Words behind the size say how it was trained, not what it is made of.
  while (true) {
    const auto is_name = [&](const std::string& one) { return one == name; };
    const auto found = std::ranges::find_if(known, is_name);
    if (found != known.end()) return *found;
    if (const std::string ours = other_word(name, known); !ours.empty()) return ours;
    const std::size_t dash = name.rfind('-');
    if (dash == std::string::npos) return "";
    name.resize(dash);
  }
}

}  // namespace allocmark

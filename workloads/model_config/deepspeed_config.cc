// See deepspeed_config.h. Fields and presets: DeepSpeed 0.19.8, runtime/config.py and
// runtime/zero/config.py; "auto": transformers 5.17, integrations/deepspeed.py.
#include "workloads/model_config/deepspeed_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/nearest.h"
#include "workloads/model_config/config_fields.h"

namespace allocmark {
namespace {

constexpr std::string_view kAuto = "auto";

// A number of elements, the key that says it, and DeepSpeed's preset.
struct ElementField {
  std::string_view field;
  std::string_view other_name;  // without "stage3_", which DeepSpeed takes too
  std::string_view key;
  std::uint64_t preset = 0;
  bool may_be_auto = false;
  bool is_third_stage = true;
};
constexpr ElementField kElementFields[] = {
    {"reduce_bucket_size", "", "reduce_elements", 500'000'000, true, false},
    {"stage3_prefetch_bucket_size", "prefetch_bucket_size", "prefetch_elements", 50'000'000, true},
    {"stage3_param_persistence_threshold", "param_persistence_threshold", "persistent_elements",
     100'000, true},
    {"stage3_max_live_parameters", "max_live_parameters", "live_elements", 1'000'000'000},
    {"stage3_max_reuse_distance", "max_reuse_distance", "reuse_elements", 1'000'000'000},
    {"sub_group_size", "", "group_elements", 1'000'000'000},
};

// Switches that change what is allocated, with the value that is generated.
struct FixedField {
  std::string_view field;
  bool generated = false;
};
constexpr FixedField kFixedFields[] = {
    {"contiguous_gradients", true},
    {"reduce_scatter", true},
    {"use_multi_rank_bucket_allreduce", true},
    {"memory_efficient_linear", true},
    {"zero_quantized_weights", false},
    {"zero_quantized_nontrainable_weights", false},
    {"zero_quantized_gradients", false},
    {"stage3_use_all_reduce_for_fetch_params", false},
    {"stage3_allgather_sequential", false},
    {"parameter_alignment", false},
};

// What changes nothing that is asked of the allocator.
constexpr std::string_view kPassedZeroFields[] = {
    "allgather_bucket_size",
    "allgather_partitions",
    "compute_grad_norm",
    "elastic_checkpoint",
    "ignore_unused_parameters",
    "legacy_stage1",
    "load_from_fp32_weights",
    "log_trace_cache_warnings",
    "override_module_apply",
    "pipeline_loading_checkpoint",
    "stage3_gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save",
};
constexpr std::string_view kPassedFields[] = {
    "aio",
    "check_overflow",
    "checkpoint",
    "comms_logger",
    "csv_monitor",
    "dataloader_drop_last",
    "disable_python_gc",
    "dump_state",
    "flops_profiler",
    "gradient_predivide_factor",
    "load_universal",
    "log_level",
    "memory_breakdown",
    "prescale_gradients",
    "scheduler",
    "steps_per_print",
    "tensorboard",
    "wall_clock_breakdown",
    "wandb",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
};
constexpr std::string_view kReadZeroFields[] = {
    "stage",       "overlap_comm",          "offload_optimizer", "offload_param",
    "cpu_offload", "round_robin_gradients", "cpu_offload_param", "zero_hpz_partition_size"};
constexpr std::string_view kReadFields[] = {"zero_optimization",
                                            "train_batch_size",
                                            "train_micro_batch_size_per_gpu",
                                            "gradient_clipping",
                                            "bf16",
                                            "gradient_accumulation_steps",
                                            "activation_checkpointing",
                                            "fp16",
                                            "amp",
                                            "optimizer"};

class DeepspeedConfig {
 public:
  DeepspeedConfig(const Json& config, const std::string& where) : config_(config), where_(where) {}

  [[nodiscard]] DescribedWorkload read() {
    check_known(config_, {{kPassedFields}, {kReadFields}}, "");
    read_zero();
    read_batches();
    read_precision();
    read_optimizer();
    return std::move(out_);
  }

 private:
  using Names = std::vector<std::span<const std::string_view>>;

  [[noreturn]] void refuse(const std::string& field, std::string wanted, const Json& got) const {
    throw UsageError({.what = fmt::format("'{}' cannot be used", field),
                      .where = where_,
                      .wanted = std::move(wanted),
                      .got = json_text(got).substr(0, 60),
                      .next = "correct it, or record the job: scripts/record/record_pytorch.py"});
  }

  void check_known(const Json& object, const Names& names, const std::string& prefix) const {
    std::vector<std::string> known;
    for (const auto& some : names) known.insert(known.end(), some.begin(), some.end());
    for (const auto& [field, value] : object.items()) {
      if (std::ranges::find(known, field) != known.end()) continue;
      throw UsageError(
          {.what = fmt::format("unknown field '{}{}'", prefix, field),
           .where = where_,
           .wanted = "fields of DeepSpeed that change no memory, or that are generated",
           .got = json_text(value).substr(0, 60),
           .next = suggest(field, known, "DeepSpeed's page on its config")});
    }
  }

  void add(std::string_view key, const auto& value) {
    out_.text += fmt::format("{}{}={}", out_.text.empty() ? "" : ",", key, value);
  }

  // The object that is there, null where there is none.
  [[nodiscard]] const Json* object(const Json& holder, const char* field) const {
    const auto found = holder.find(field);
    if (found == holder.end() || found->is_null()) return nullptr;
    if (!found->is_object()) refuse(field, "an object", *found);
    return &*found;
  }

  // Numbers may be written as 5e8. Nothing where it is "auto" or left out.
  [[nodiscard]] std::optional<std::uint64_t> number(const Json& holder, std::string_view field,
                                                    bool may_be_auto = true) const {
    const auto found = holder.find(field);
    if (found == holder.end() || (may_be_auto && *found == kAuto)) return std::nullopt;
    constexpr double kMost = 1e15;
    const double value = found->is_number() ? found->get<double>() : -1;
    if (!(value >= 0 && value <= kMost) || value != std::floor(value)) {
      refuse(std::string(field),
             may_be_auto ? "a whole number from 0 on, or \"auto\"" : "a whole number from 0 on",
             *found);
    }
    return static_cast<std::uint64_t>(value);
  }

  // Whether a switch is on; nothing where it is "auto" or left out.
  [[nodiscard]] std::optional<bool> flag(const Json& holder, std::string_view field) const {
    const auto found = holder.find(field);
    if (found == holder.end() || found->is_null() || *found == kAuto) return std::nullopt;
    if (!found->is_boolean()) refuse(std::string(field), "true or false", *found);
    return found->get<bool>();
  }

  void read_zero() {
    const Json* const zero = object(config_, "zero_optimization");
    const std::uint64_t stage = zero != nullptr ? number(*zero, "stage", false).value_or(0) : 0;
    if (stage < 1 || stage > 3) {
      refuse("zero_optimization.stage", "1, 2 or 3",
             zero != nullptr && zero->contains("stage") ? (*zero)["stage"] : Json(nullptr));
    }
    std::vector<std::string_view> names;
    for (const ElementField& one : kElementFields) {
      names.push_back(one.field);
      if (!one.other_name.empty()) names.push_back(one.other_name);
    }
    for (const FixedField& one : kFixedFields) names.push_back(one.field);
    check_known(*zero, {{kPassedZeroFields}, {kReadZeroFields}, names}, "zero_optimization.");
    add("zero", stage);
    read_elements(*zero, stage);
    for (const FixedField& one : kFixedFields) {
      if (flag(*zero, one.field).value_or(one.generated) != one.generated) {
        refuse(std::string(one.field), one.generated ? "true" : "false", !one.generated);
      }
    }
    if (number(*zero, "zero_hpz_partition_size").value_or(1) > 1) {
      refuse("zero_hpz_partition_size", "1", (*zero)["zero_hpz_partition_size"]);
    }
    if (const std::optional<bool> overlaps = flag(*zero, "overlap_comm")) {
      add("overlap", *overlaps ? 1 : 0);
    }
    read_offload(*zero, stage);
    if (flag(*zero, "round_robin_gradients").value_or(false) && stage < 3) {
      out_.notes.emplace_back(
          "round_robin_gradients is left out: it changes which parameters a rank steps on");
    }
  }

  void read_elements(const Json& zero, std::uint64_t stage) {
    const auto name_of = [&](const ElementField& one) {
      return !one.other_name.empty() && zero.contains(one.other_name) ? one.other_name : one.field;
    };
    const auto is_auto = [&](const ElementField& one) {
      const auto found = zero.find(name_of(one));
      return one.may_be_auto && found != zero.end() && *found == kAuto;
    };
    const bool fills_in = std::ranges::any_of(kElementFields, is_auto);
    if (fills_in) add("zero_presets", "trainer");
    for (const ElementField& one : kElementFields) {
      if (one.is_third_stage && stage < 3) continue;
      std::optional<std::uint64_t> value = number(zero, name_of(one), one.may_be_auto);
      // What is left out has DeepSpeed's preset, not the Trainer's.
      if (!value && fills_in && one.may_be_auto && !is_auto(one)) value = one.preset;
      if (value) add(one.key, *value);
    }
  }

  void read_offload(const Json& zero, std::uint64_t stage) {
    const auto device_of = [&](const char* field) -> std::string {
      const Json* const offload = object(zero, field);
      if (offload == nullptr) return "none";
      const auto found = offload->find("device");
      if (found == offload->end() || found->is_null()) return "none";
      if (!found->is_string()) refuse(fmt::format("{}.device", field), "cpu or none", *found);
      return found->get<std::string>();
    };
    const auto is_on_host = [&](const char* field, const char* old_field) {
      const std::string device = flag(zero, old_field).value_or(false) ? "cpu" : device_of(field);
      if (device != "cpu" && device != "none") {
        refuse(fmt::format("{}.device", field), "cpu or none", device);
      }
      const Json* const offload = object(zero, field);
      const Json ratio = offload != nullptr ? offload->value("ratio", Json(1)) : Json(1);
      if (ratio != 1) refuse(fmt::format("{}.ratio", field), "1: all is on the host", ratio);
      return device == "cpu";
    };
    const bool has_states = is_on_host("offload_optimizer", "cpu_offload");
    const bool has_parameters = is_on_host("offload_param", "cpu_offload_param") && stage == 3;
    if (has_parameters && !has_states) {
      refuse("offload_optimizer.device", "cpu where offload_param is on the host", "none");
    }
    if (has_states) add("offload", has_parameters ? "parameters" : "states");
  }

  void read_batches() {
    if (const auto batch = number(config_, "train_micro_batch_size_per_gpu")) add("batch", *batch);
    const auto accumulate = number(config_, "gradient_accumulation_steps");
    if (accumulate) add("accumulate", *accumulate);
    const auto all = number(config_, "train_batch_size");
    if (all && !accumulate) add("global_batch", *all);
    const auto clips = config_.find("gradient_clipping");
    if (clips == config_.end() || clips->is_null()) return;
    if (*clips != kAuto && !clips->is_number()) refuse("gradient_clipping", "a number", *clips);
    if (*clips == kAuto || *clips > 0) add("clip", 1);
  }

  void read_precision() {
    const auto is_enabled = [&](const char* field) -> std::optional<bool> {
      const Json* const type = object(config_, field);
      if (type == nullptr) return false;
      const auto found = type->find("enabled");
      return found == type->end() ? std::optional<bool>(false) : flag(*type, "enabled");
    };
    const std::optional<bool> brain = is_enabled("bf16"), half = is_enabled("fp16");
    if (half.value_or(false)) {
      out_.notes.emplace_back(
          "fp16 is taken as bf16, which is as wide: the check of gradients for infinities is left "
          "out");
    }
    if (brain.value_or(false) || half.value_or(false)) add("precision", "bf16");
    if (brain == false && half == false) add("precision", "fp32");
  }

  void read_optimizer() {
    const Json* const amp = object(config_, "amp");
    if (amp != nullptr && flag(*amp, "enabled").value_or(false)) {
      refuse("amp.enabled", "false", true);
    }
    if (const Json* const saves = object(config_, "activation_checkpointing")) {
      const bool is_any = std::ranges::any_of(*saves, [](const Json& one) { return one == true; });
      if (is_any) {
        out_.notes.emplace_back(
            "activation_checkpointing is left out: only models that call DeepSpeed's own "
            "checkpoint() read it");
      }
    }
    const Json* const optimizer = object(config_, "optimizer");
    if (optimizer == nullptr) return;
    const auto type = optimizer->find("type");
    const std::string name =
        type != optimizer->end() && type->is_string() ? type->get<std::string>() : "";
    // torch_adam: PyTorch's own, else one kernel, or the host's.
    const Json* const given = object(*optimizer, "params");
    const bool is_torch = given != nullptr && flag(*given, "torch_adam").value_or(false);
    if (name == "Adam" || name == "AdamW")
      return add("optimizer", is_torch ? "adamw" : "adamw_fused");
    if (name != "SGD") {
      refuse("optimizer.type",
             "Adam, AdamW or SGD; or no optimizer, and one in the workload's text",
             type != optimizer->end() ? *type : Json(nullptr));
    }
    const Json momentum = given != nullptr ? given->value("momentum", Json(0)) : Json(0);
    add("optimizer", momentum == 0 ? "sgd" : "sgd_momentum");
  }

  const Json& config_;
  const std::string& where_;
  DescribedWorkload out_;
};

}  // namespace

DescribedWorkload read_deepspeed_config(std::string_view json, const std::string& where) {
  const JsonSource source{.where = where,
                          .what = "no config of DeepSpeed",
                          .wanted = "a JSON object with 'zero_optimization'",
                          .next = "give the file that deepspeed.initialize() or the Trainer gets"};
  const Json config = parse_json(json, source);
  if (!config.is_object() || !config.contains("zero_optimization")) {
    refuse_json(source, "no 'zero_optimization'");
  }
  return DeepspeedConfig(config, where).read();
}

}  // namespace allocmark

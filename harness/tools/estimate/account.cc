// See account.h.
#include "harness/tools/estimate/account.h"

#include <algorithm>

#include "workloads/programs/train_options.h"
#include "workloads/trace/parameters.h"
#include "workloads/trace/request_marks.h"

namespace allocmark {

std::string_view memory_use_name(MemoryUse use) {
  constexpr std::array<std::string_view, kMemoryUseCount> kNames = {
      "weights",  "gradients",  "optimizer",     "activations", "logits",
      "kv_cache", "workspaces", "communication", "other"};
  return kNames[static_cast<std::size_t>(use)];
}

LogitsSizes logits_sizes_of(std::string_view workload) {
  if (!workload.starts_with("train:")) return {};
  Parameters parameters(workload);
  const TrainConfig config = read_train_config(parameters);
  const TransformerSetup& setup = config.setup;
  if (setup.model.image > 0 || config.draws_lengths || config.is_megatron()) return {};
  LogitsSizes sizes;
  const bool has_decoder = setup.model.family == ModelFamily::T5;
  const std::uint64_t shift = has_decoder || setup.model.family == ModelFamily::Bert ? 0 : 1;
  for (const std::uint64_t length : has_decoder ? config.targets : config.sequences) {
    const std::uint64_t own = length / setup.parallel.context;
    for (const std::uint64_t tokens : {own, own - shift}) {
      for (const std::uint64_t width : {2, 4}) {
        sizes.push_back(setup.batch * tokens * setup.model.vocabulary * width);
      }
    }
  }
  return sizes;
}

std::string phase_of_label(std::string_view label) {
  while (!label.empty() && label.back() >= '0' && label.back() <= '9') label.remove_suffix(1);
  return label.empty() ? "step" : std::string(label);
}

std::size_t PhaseNames::after(std::string_view label, std::size_t current) {
  if (mark_class_of(label) != MarkClass::Step) return current;
  const std::string name = phase_of_label(label);
  if (name == "begin" || name == "end") return current;
  if (marks_forward_ && name == "step") return current;
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
  names_.push_back(name);
  return names_.size() - 1;
}

MemoryUse MemoryAccount::use_of(const Event& event) const {
  switch (event.tensor) {
    case TensorKind::Parameter:
      return MemoryUse::Weights;
    case TensorKind::OptimizerState:
      return MemoryUse::Optimizer;
    case TensorKind::KvCache:
      return MemoryUse::KvCache;
    case TensorKind::Communication:
      return MemoryUse::Communication;
    case TensorKind::Unknown:
    case TensorKind::Failed:
      return MemoryUse::Other;
    case TensorKind::Gradient:
      if (is_step_ || weights_.contains(event.size_bytes)) return MemoryUse::Gradients;
      break;
    case TensorKind::Activation:
    case TensorKind::Workspace:
      break;
  }
  if (std::ranges::find(logits_, event.size_bytes) != logits_.end()) return MemoryUse::Logits;
  return event.tensor == TensorKind::Workspace ? MemoryUse::Workspaces : MemoryUse::Activations;
}

void MemoryAccount::note_peak() {
  Peak& peak = peaks_[phase_];
  if (live_bytes_ > peak.live_bytes) peak = {.live_bytes = live_bytes_, .by_use = by_use_};
  if (live_bytes_ <= peak_bytes_) return;
  peak_bytes_ = live_bytes_;
  peak_phase_ = phase_;
}

void MemoryAccount::enter(std::size_t phase, bool is_step) {
  phase_ = phase;
  is_step_ = is_step;
  if (peaks_.size() <= phase) peaks_.resize(phase + 1);
  note_peak();
}

void MemoryAccount::add(const Event& event) {
  if (event.kind == EventKind::Alloc) {
    const Block block{.size_bytes = event.size_bytes, .use = use_of(event)};
    blocks_[event.id] = block;
    if (block.use == MemoryUse::Weights) ++weights_[block.size_bytes];
    live_bytes_ += block.size_bytes;
    by_use_[static_cast<std::size_t>(block.use)] += block.size_bytes;
    note_peak();
    return;
  }
  if (event.kind != EventKind::Free) return;
  const auto found = blocks_.find(event.id);
  if (found == blocks_.end()) return;
  const Block block = found->second;
  blocks_.erase(found);
  if (block.use == MemoryUse::Weights && --weights_[block.size_bytes] == 0) {
    weights_.erase(block.size_bytes);
  }
  live_bytes_ -= block.size_bytes;
  by_use_[static_cast<std::size_t>(block.use)] -= block.size_bytes;
}

std::vector<PhasePeak> MemoryAccount::phases(const std::vector<std::string>& names) const {
  std::vector<PhasePeak> phases;
  for (std::size_t at = 0; at < names.size() && at < peaks_.size(); ++at) {
    const Peak& peak = peaks_[at];
    phases.push_back({.name = names[at],
                      .live_bytes = peak.live_bytes,
                      .by_use = {peak.by_use.begin(), peak.by_use.end()}});
  }
  return phases;
}

}  // namespace allocmark

#include "workloads/trace/event_names.h"

namespace allocmark {
namespace {

// Indexed by the enumerators' values.
constexpr std::array<std::string_view, kEventKindCount> kEventNames = {
    "alloc",        "free",        "record",        "kernel",        "busy",        "sync",
    "empty_cache",  "mark",        "host",          "pool_create",   "pool_begin",  "pool_end",
    "pool_release", "pool_on_oom", "pool_no_split", "capture_begin", "capture_end", "graph_replay",
    "host_alloc",   "host_free",   "host_record"};
constexpr std::array<std::string_view, kTensorKindCount> kTensorNames = {
    "unknown",   "parameter", "gradient",      "optimizer_state", "activation",
    "workspace", "kv_cache",  "communication", "failed"};

}  // namespace

std::string_view event_kind_name(EventKind kind) {
  return kEventNames[static_cast<std::size_t>(kind)];
}

std::optional<EventKind> event_kind_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kEventNames.size(); ++i) {
    if (kEventNames[i] == name) return static_cast<EventKind>(i);
  }
  if (name == "trim") return EventKind::Trim;
  return std::nullopt;
}

std::vector<std::string> event_kind_names() { return {kEventNames.begin(), kEventNames.end()}; }

std::string_view tensor_kind_name(TensorKind kind) {
  return kTensorNames[static_cast<std::size_t>(kind)];
}

std::optional<TensorKind> tensor_kind_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kTensorNames.size(); ++i) {
    if (kTensorNames[i] == name) return static_cast<TensorKind>(i);
  }
  return std::nullopt;
}

std::vector<std::string> tensor_kind_names() { return {kTensorNames.begin(), kTensorNames.end()}; }

}  // namespace allocmark

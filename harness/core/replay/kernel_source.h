// A workload with events added to it or left out. "+kernels:off" takes its kernels away, so that
// the device is idle, "+kernels:20us" gives it one after every request, so that it is busy
// (recorded traces hold none); "+empty_cache:steps" asks the allocator for its cached memory after
// every step mark. A workload's text flows in with these at its end; events flow out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "workloads/trace/serving_card.h"
#include "workloads/trace/source.h"

namespace allocmark {

struct KernelChoice {
  enum class Kind : std::uint8_t { Trace, None, AfterRequest } kind = Kind::Trace;
  std::uint64_t duration_ns = 0;  // of the kernel after every request, on the block's stream
};

// "trace" (or ""), "off", or a duration as "20us" (ns, us or ms; up to 10 s). Throws UsageError.
[[nodiscard]] KernelChoice parse_kernels(std::string_view text);

// The workload's text with the choice at its end: "gpt2_train_amp+kernels:20us"; unchanged for
// "trace". Throws UsageError where the text has one already or the choice is unknown.
[[nodiscard]] std::string with_kernels(std::string_view workload, std::string_view kernels);

// Whether the text has such a choice.
[[nodiscard]] bool says_kernels(std::string_view workload);

// As open_workload and define_workload, for texts with and without additions.
[[nodiscard]] std::string define_workload_with_kernels(std::string_view text);
// The workload, its scenarios spelt out, with the card's figures in every server that does not give
// its own ("serve:llama-3-8b,tflops=121,bandwidth=300"): how long its steps take, and with that
// which requests meet in one, is the card's. Empty where that changes nothing.
[[nodiscard]] std::string define_workload_on_card(std::string_view text, const ServingCard& card);
// As deciding_presets, of a text with additions.
[[nodiscard]] std::string presets_of_workload(std::string_view text);
// As left_out_of_workload, of a text with additions.
[[nodiscard]] std::vector<std::string> notes_of_workload(std::string_view text);
// Paths of the trace files that such a text names, scenarios' included, in its order.
[[nodiscard]] std::vector<std::string> trace_files_of_workload(std::string_view text);
[[nodiscard]] std::unique_ptr<EventSource> open_workload_with_kernels(std::string_view text,
                                                                      std::uint64_t seed);

}  // namespace allocmark

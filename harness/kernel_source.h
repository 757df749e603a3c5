// A workload with other kernels than its own: none, so that the device is idle, or one after every
// request, so that it is busy. Recorded traces hold no kernels; this gives them some. A workload's
// text flows in with "+kernels:..." at its end; events flow out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "workloads/source.h"

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

// As open_workload, for texts with and without a choice of kernels.
[[nodiscard]] std::unique_ptr<EventSource> open_workload_with_kernels(std::string_view text,
                                                                      std::uint64_t seed);

}  // namespace allocmark

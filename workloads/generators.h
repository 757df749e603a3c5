// The registry of generators: one row each. A generator is one file with a make function; its
// README row says what it stresses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "workloads/parameters.h"
#include "workloads/source.h"

namespace allocmark {

struct GeneratorEntry {
  std::string_view name;
  std::string_view example;  // a workload text that shows the most useful keys
  std::string_view summary;  // one line: what it does and stresses
  std::unique_ptr<EventSource> (*make)(Parameters& parameters, std::uint64_t seed);
};

[[nodiscard]] std::span<const GeneratorEntry> generators();

// One per file.
[[nodiscard]] std::unique_ptr<EventSource> make_train(Parameters& parameters, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_infer(Parameters& parameters, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_serve(Parameters& parameters, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_load(Parameters& parameters, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_colocate(Parameters& parameters,
                                                         std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_pause(Parameters& parameters, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_churn(Parameters& parameters, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_comb(Parameters& parameters, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_sawtooth(Parameters& parameters,
                                                         std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_growing(Parameters& parameters, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_robson(Parameters& parameters, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_slivers(Parameters& parameters, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_boundaries(Parameters& parameters,
                                                           std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_producer(Parameters& parameters,
                                                         std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_litter(Parameters& parameters, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<EventSource> make_oom_edge(Parameters& parameters,
                                                         std::uint64_t seed);

}  // namespace allocmark

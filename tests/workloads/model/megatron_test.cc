// Memory of Megatron-LM's set-ups: what generator train holds against the published formulas, which
// are written down here on their own: Korthikanti et al., arXiv 2205.05198, table 2, and
// megatron/training/theoretical_memory_usage.py. Weights, gradients and optimizer must be equal to
// the byte, activations within 2 %. The table of workloads/FIDELITY.md must say what they are.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include <fmt/format.h>
#include "base/input_file.h"
#include "tests/catch.h"
#include "workloads/open_workload.h"
#include "workloads/trace/source.h"

using namespace allocmark;

namespace {

enum class Recompute { None, Selective, Full };

struct Setup {
  const char* name;
  std::uint64_t layers, hidden, heads, sequence, vocabulary, batch;
  std::uint64_t tensor, pipeline, chunks, micro_batches, data;
  bool sequence_parallel;
  Recompute recompute;
  bool distributed_optimizer;
};

constexpr Setup kSetups[] = {
    {"22B", 48, 6144, 64, 2048, 51200, 4, 8, 1, 1, 1, 1, true, Recompute::Selective, false},
    {"22B", 48, 6144, 64, 2048, 51200, 4, 8, 1, 1, 1, 1, false, Recompute::Selective, false},
    {"22B", 48, 6144, 64, 2048, 51200, 4, 8, 1, 1, 1, 1, true, Recompute::None, false},
    {"22B", 48, 6144, 64, 2048, 51200, 4, 8, 1, 1, 1, 1, false, Recompute::None, false},
    {"22B", 48, 6144, 64, 2048, 51200, 4, 8, 1, 1, 1, 1, false, Recompute::Full, false},
    {"22B", 48, 6144, 64, 2048, 51200, 4, 8, 1, 1, 1, 8, true, Recompute::Selective, true},
    {"175B", 96, 12288, 96, 2048, 51200, 1, 8, 8, 3, 64, 1, true, Recompute::Selective, false},
    {"175B", 96, 12288, 96, 2048, 51200, 1, 8, 8, 1, 64, 1, true, Recompute::Selective, false},
    {"175B", 96, 12288, 96, 2048, 51200, 1, 8, 8, 1, 4, 16, true, Recompute::Selective, true},
    {"175B", 96, 12288, 96, 2048, 51200, 1, 8, 8, 1, 64, 1, false, Recompute::Full, false},
    {"530B", 105, 20480, 128, 2048, 51200, 1, 8, 35, 3, 280, 1, true, Recompute::Selective, false},
    {"1T", 128, 25600, 160, 2048, 51200, 1, 8, 64, 1, 512, 1, true, Recompute::Selective, false},
};

std::string workload_of(const Setup& s) {
  const auto key = [](const char* name, std::uint64_t value) {
    return std::string(",") + name + "=" + std::to_string(value);
  };
  constexpr std::array<const char*, 3> kRecomputes = {"none", "selective", "full"};
  return "train:gpt2-1.5b,implementation=megatron,steps=2,marks=phases" + key("layers", s.layers) +
         key("hidden", s.hidden) + key("heads", s.heads) + key("ffn", 4 * s.hidden) +
         key("positions", s.sequence) + key("seq", s.sequence) + key("vocabulary", s.vocabulary) +
         key("batch", s.batch) + key("tp", s.tensor) + key("sp", s.sequence_parallel ? 1 : 0) +
         key("pp", s.pipeline) + (s.chunks > 1 ? key("virtual", s.chunks) : "") +
         key("micro_batches", s.micro_batches) + key("dp", s.data) +
         key("zero", s.distributed_optimizer ? 1 : 0) +
         ",checkpoint=" + kRecomputes[static_cast<std::size_t>(s.recompute)];
}

// Parameters of the first stage's tensor rank.
std::uint64_t parameter_count(const Setup& s) {
  const std::uint64_t h = s.hidden;
  const std::uint64_t shared = 12 * h * h + 7 * h;  // matrices; biases of q, k, v and h to 4h
  const std::uint64_t whole = 6 * h;                // norms; biases of the two outputs
  std::uint64_t count = s.layers / s.pipeline * (shared / s.tensor + whole);
  count += s.vocabulary * h / s.tensor + s.sequence * h;
  if (s.pipeline == 1) count += 2 * h;
  return count;
}

std::uint64_t state_bytes(const Setup& s) {
  const std::uint64_t count = parameter_count(s);
  return s.distributed_optimizer ? 6 * count + 12 * count / s.data : 18 * count;
}

// In units of bytes; sbh for one layer.
double activation_bytes(const Setup& s) {
  const double t = static_cast<double>(s.tensor);
  const double share = s.sequence_parallel ? t : 1.0;  // by which whole activations are divided
  const double sb = static_cast<double>(s.sequence * s.batch);
  const double sbh = sb * static_cast<double>(s.hidden);
  const double scores =
      5.0 * static_cast<double>(s.heads * s.sequence) / static_cast<double>(s.hidden);
  double layer = 10.0 / share + 24.0 / t;
  if (s.recompute == Recompute::None) layer += scores / t;
  if (s.recompute == Recompute::Full) layer = 2.0 / share;
  const double p = static_cast<double>(s.pipeline);
  const double in_flight = s.chunks > 1 ? 1.0 + (p - 1.0) / (p * static_cast<double>(s.chunks))
                                        : std::min(1.0, static_cast<double>(s.micro_batches) / p);
  const double embeddings = (sbh + 8.0 * sb) / share * p;
  double total = (sbh * layer * static_cast<double>(s.layers) + embeddings) * in_flight;
  if (s.pipeline == 1) {
    total += 4.0 * sbh / share + 4.0 * sb * static_cast<double>(s.vocabulary) / t;
  }
  return total;
}

struct Held {
  std::uint64_t states = 0;       // parameters, gradient buffers, optimizer
  std::uint64_t activations = 0;  // most at the begin of a backward
  std::uint64_t peak = 0;
};

Held held_by(const Setup& setup) {
  const std::unique_ptr<EventSource> source = open_workload(workload_of(setup), 1);
  std::unordered_map<std::uint64_t, Event> blocks;
  std::array<std::uint64_t, 8> live{};
  const auto at = [&](TensorKind kind) -> std::uint64_t& {
    return live[static_cast<std::size_t>(kind)];
  };
  Held held;
  std::uint64_t total = 0, weights = 0, optimizer = 0;
  for (std::span<const Event> batch = source->next(); !batch.empty(); batch = source->next()) {
    for (const Event& event : batch) {
      if (event.kind == EventKind::Alloc) {
        blocks[event.id] = event;
        at(event.tensor) += event.size_bytes;
        total += event.size_bytes;
        held.peak = std::max(held.peak, total);
        optimizer = std::max(optimizer, at(TensorKind::OptimizerState));
      } else if (event.kind == EventKind::Free) {
        const Event& block = blocks[event.id];
        at(block.tensor) -= block.size_bytes;
        total -= block.size_bytes;
        blocks.erase(event.id);
      } else if (event.kind == EventKind::Mark) {
        const std::string& label = source->labels()[event.id];
        if (label == "forward" && weights == 0) {
          weights = at(TensorKind::Parameter) + at(TensorKind::Gradient);
        }
        if (label == "backward") {
          // What a stage received is its first block's saved input.
          held.activations = std::max(held.activations,
                                      at(TensorKind::Activation) + at(TensorKind::Communication));
        }
      }
    }
  }
  held.states = weights + optimizer;
  return held;
}

double gib(double bytes) { return bytes / static_cast<double>(std::uint64_t{1} << 30); }

// As in the table of workloads/FIDELITY.md.
std::string row_of(const Setup& s, const Held& held) {
  constexpr std::array<const char*, 3> kRecomputes = {"none", "selective", "full"};
  const double expected = activation_bytes(s);
  const auto activations = static_cast<double>(held.activations);
  return fmt::format(
      "| {} | {}, {}, {}, {}, {}, {}{} | {} | {} | {}; {} | {:.3f}; {:.3f} ({:+.2f} %) | {:.2f} "
      "|\n",
      s.name, s.batch, s.tensor, s.pipeline, s.chunks, s.micro_batches, s.data,
      s.distributed_optimizer ? " distributed" : "", s.sequence_parallel ? "yes" : "no",
      kRecomputes[static_cast<std::size_t>(s.recompute)], state_bytes(s),
      held.states == state_bytes(s) ? "equal" : std::to_string(held.states), gib(expected),
      gib(activations), 100.0 * (activations / expected - 1.0),
      gib(static_cast<double>(held.peak)));
}

}  // namespace

TEST_CASE("Megatron set-ups hold what the published formulas say, and the manual's table says so") {
  const std::string manual = read_file("workloads/FIDELITY.md");
  for (const Setup& setup : kSetups) {
    INFO(workload_of(setup));
    const Held held = held_by(setup);
    CHECK(held.states == state_bytes(setup));
    const double expected = activation_bytes(setup);
    CHECK(std::abs(static_cast<double>(held.activations) / expected - 1.0) < 0.02);
    const std::string row = row_of(setup, held);
    INFO("workloads/FIDELITY.md should say: " << row);
    CHECK(manual.find(row) != manual.npos);
  }
}

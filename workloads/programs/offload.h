// What the kinds of generator `offload` share: how each is made from its keys, and what a copy
// between host and device takes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "workloads/trace/coroutine_program.h"

namespace allocmark {

// Each reads its keys and makes its source; what they do stands at their definitions.
using OffloadMaker = std::unique_ptr<EventSource>(Parameters& parameters, std::uint64_t seed);
OffloadMaker make_offload_optimizer, make_offload_checkpoint, make_offload_loader,
    make_offload_kv_cache, make_offload_weights;

inline constexpr std::uint32_t kCopyStream = 1;  // of copies that run beside the computation

// Elements of the tensors of a model, by layer. The first entry holds the embedding, the last the
// final norm and the head.
using LayerTensors = std::vector<std::vector<std::uint64_t>>;
// Of the model that the keys `model` and `layers` name: a dense Llama.
[[nodiscard]] LayerTensors read_layer_tensors(Parameters& parameters);

// Copies of pinned memory over the bus of the card.
class HostCopies {
 public:
  HostCopies(std::uint64_t bus_gbs, EventBatch* batch) : bus_gbs_(bus_gbs), batch_(batch) {}

  // A copy between the pinned block and the device starts on the stream.
  void copy(std::uint64_t host_block, std::uint64_t size_bytes, std::uint32_t stream) {
    batch_->kernel(kCopyStartNs + size_bytes / bus_gbs_, stream);
    batch_->host_record(host_block, stream);
  }

 private:
  static constexpr std::uint64_t kCopyStartNs = 10'000;
  std::uint64_t bus_gbs_;
  EventBatch* batch_;
};

// Key `bus_gbs`: what the bus moves, in GB/s.
[[nodiscard]] std::uint64_t read_bus_gbs(Parameters& parameters);

}  // namespace allocmark

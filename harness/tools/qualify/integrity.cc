// Test "integrity": nearly all memory is written with words that name their place, and read back,
// as they are and inverted. On a GPU by kernels; on simcuda, whose memory is not there, only a word
// in every 32 MiB is looked at, and the answer says so. This file checks.
#include <cuda_runtime_api.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/core/replay/block_pattern.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/replay/kernels.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/tools/qualify/gpu_facts.h"
#include "harness/tools/qualify/memory_ways.h"
#include "harness/tools/qualify/repeat.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {
namespace {

constexpr std::array<std::uint64_t, 4> kFlips = {0, ~std::uint64_t{0}, 0xAAAAAAAAAAAAAAAAu,
                                                 0x5555555555555555u};
// Left free, for what the driver needs while kernels run.
constexpr std::uint64_t kLeftBytes = 64 * kMiB;
constexpr std::uint64_t kSimulatedStepBytes = 32 * kMiB;

struct Found {
  std::uint64_t changed_count = 0;
  std::uint64_t looked_bytes = 0;  // in all rounds
  std::string first;               // the first changed word
  double write_s = 0, read_s = 0;  // in all rounds
};

std::string describe(std::uint64_t address, std::uint64_t expected, std::uint64_t found) {
  return fmt::format("at 0x{:x} 0x{:016x} became 0x{:016x} ({} bits)", address, expected, found,
                     std::popcount(expected ^ found));
}

class FaultWord {
 public:
  FaultWord() {
    void* host = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaHostAlloc(&host, sizeof(PatternFault), cudaHostAllocMapped));
    fault_.reset(new (host) PatternFault);
    void* device = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaHostGetDevicePointer(&device, host, 0));
    on_device_ = static_cast<PatternFault*>(device);
  }
  [[nodiscard]] PatternFault* on_device() const { return on_device_; }
  [[nodiscard]] const PatternFault& value() const { return *fault_; }
  void clear() { *fault_ = PatternFault{}; }

 private:
  struct FreeHost {
    void operator()(PatternFault* pointer) const { (void)cudaFreeHost(pointer); }
  };
  std::unique_ptr<PatternFault, FreeHost> fault_;
  PatternFault* on_device_ = nullptr;
};

PatternBlock pattern_of(const std::vector<TakenBlock>& blocks, std::size_t index,
                        std::uint64_t flip) {
  return {.block = blocks[index].pointer,
          .size_bytes = blocks[index].size_bytes,
          .event_index = index,
          .id = index,
          .flip = flip};
}

void check_by_kernels(const std::vector<TakenBlock>& blocks, std::uint64_t flip, FaultWord& word,
                      Found& found) {
  const Rounds write_time(0);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ALLOCMARK_CUDA_CHECK(launch_write_pattern_kernel(nullptr, pattern_of(blocks, i, flip)));
  }
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  found.write_s += write_time.elapsed_s();
  const Rounds read_time(0);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ALLOCMARK_CUDA_CHECK(
        launch_check_pattern_kernel(nullptr, pattern_of(blocks, i, flip), word.on_device()));
  }
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  found.read_s += read_time.elapsed_s();
  found.looked_bytes += total_bytes(blocks);
  const PatternFault& fault = word.value();
  if (fault.word_count == 0) return;
  if (found.first.empty()) {
    found.first = describe(reinterpret_cast<std::uintptr_t>(fault.block.block) + fault.offset_bytes,
                           fault.expected, fault.found);
  }
  found.changed_count += fault.word_count;
  word.clear();
}

// The first launch of a kernel loads its code, which takes memory: before the memory is full.
void load_kernels(MemoryWay& way, FaultWord& word) {
  std::vector<TakenBlock> blocks{way.take(kPatternBytes).value_or(TakenBlock{})};
  if (blocks.front().pointer == nullptr) return;
  Found found;
  check_by_kernels(blocks, 0, word, found);
  give_back_all(way, blocks);
}

template <typename Visit>
void for_simulated_words(const SimcuApi& simcu, const std::vector<TakenBlock>& blocks,
                         Visit&& visit) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::uint64_t at = 0; at < blocks[i].size_bytes; at += kSimulatedStepBytes) {
      char* const address = static_cast<char*>(blocks[i].pointer) + at;
      auto* const word = static_cast<std::uint64_t*>(simcu.view(address, sizeof(std::uint64_t)));
      visit(pattern_word({.event_index = i, .offset_bytes = at}), word, address);
    }
  }
}

void check_on_simcuda(const SimcuApi& simcu, const std::vector<TakenBlock>& blocks,
                      std::uint64_t flip, Found& found) {
  for_simulated_words(simcu, blocks, [&](std::uint64_t pattern, std::uint64_t* word, char*) {
    if (word != nullptr) *word = pattern ^ flip;
  });
  for_simulated_words(simcu, blocks, [&](std::uint64_t pattern, std::uint64_t* word, char* at) {
    const std::uint64_t expected = pattern ^ flip;
    const std::uint64_t seen = word == nullptr ? ~expected : *word;
    found.looked_bytes += sizeof(std::uint64_t);
    if (seen == expected) return;
    ++found.changed_count;
    if (found.first.empty()) {
      found.first = describe(reinterpret_cast<std::uintptr_t>(at), expected, seen);
    }
  });
}

Figure speed_figure(const char* name, std::uint64_t bytes, double seconds) {
  return {.name = name, .value = static_cast<double>(bytes) / seconds / 1e9, .note = "GB/s"};
}

}  // namespace

TestAnswer run_integrity(const TestContext& context) {
  const SimcuApi simcu = SimcuApi::find();
  const std::unique_ptr<MemoryWay> way = std::move(memory_ways().front());
  std::optional<FaultWord> word;
  if (!simcu.present) {
    word.emplace();
    load_kernels(*way, *word);
  }
  std::vector<TakenBlock> blocks = fill(*way, kGiB, kDevicePageBytes);
  for (std::uint64_t left_bytes = 0; left_bytes < kLeftBytes && blocks.size() > 1;) {
    left_bytes += blocks.back().size_bytes;
    way->give_back(blocks.back());
    blocks.pop_back();
  }
  Found found;
  for (Rounds rounds(context.spec.seconds); rounds.next();) {
    for (const std::uint64_t flip : kFlips) {
      if (word) {
        check_by_kernels(blocks, flip, *word, found);
      } else {
        check_on_simcuda(simcu, blocks, flip, found);
      }
    }
  }
  const std::uint64_t covered_bytes = total_bytes(blocks);
  give_back_all(*way, blocks);

  TestAnswer answer;
  answer.figures.push_back({.name = "changed words",
                            .threshold = "integrity.changed_words",
                            .value = static_cast<double>(found.changed_count),
                            .note = found.first});
  if (word) {
    answer.figures.push_back(
        {.name = "memory covered",
         .threshold = "integrity.covered_share",
         .value = static_cast<double>(covered_bytes) / static_cast<double>(gpu_memory_bytes()),
         .note = fmt::format("{} looked at in all", format_bytes(found.looked_bytes))});
    answer.figures.push_back(speed_figure("writing", found.looked_bytes, found.write_s));
    answer.figures.push_back(speed_figure("reading", found.looked_bytes, found.read_s));
  } else {
    answer.skip = fmt::format(
        "{}{} words in {} were written and read back, one in every 32 MiB", kNoMemoryCells,
        found.looked_bytes / sizeof(std::uint64_t) / kFlips.size(), format_bytes(covered_bytes));
  }
  return answer;
}

}  // namespace allocmark::qualify

// Patterns in blocks; see block_contents.h. This file checks.
#include "harness/check/block_contents.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "harness/replay/block_pattern.h"

namespace allocmark {

namespace {

// At the level edges contents are checked for the first blocks and then for every 61st, up to so
// many: each costs host memory.
constexpr std::uint64_t kMarkedFirstCount = 256;
constexpr std::uint64_t kMarkedPeriod = 61;
constexpr std::uint64_t kMarkedAllocationsMax = 250'000;

// At the level whole, on simcuda: the host's memory stands for the device's, page by page as it is
// touched. Beyond this much only the ends of blocks are filled.
constexpr std::uint64_t kPageBytes = std::uint64_t{2} << 20;
constexpr std::uint64_t kTouchedPageCountMax = 2048;  // 4 GiB
constexpr std::uint64_t kLongEdgeBytes = std::uint64_t{64} << 10;

// A stream takes 1024 launches; with one more the host waits for the gate that only it can open.
// The program's own kernels need their places too.
constexpr std::uint64_t kQueuedCountMax = 512;

std::uint64_t round_down(std::uint64_t value) { return value / kPatternBytes * kPatternBytes; }

}  // namespace

// Bytes [begin, end) of a block; begin is a multiple of 8.
struct BlockContents::Part {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

namespace {

template <typename Part>
std::array<Part, 2> parts_of(std::uint64_t size_bytes, std::uint64_t marked_bytes) {
  if (marked_bytes * 2 >= size_bytes) return {Part{0, size_bytes}, Part{}};
  return {Part{0, marked_bytes}, Part{round_down(size_bytes - marked_bytes), size_bytes}};
}

// The words of a part follow each other by one, which lets both loops run at the memory's speed.
template <typename Part>
void fill(char* to, const Part& part, std::uint64_t event_index) {
  const std::uint64_t first =
      pattern_word({.event_index = event_index, .offset_bytes = part.begin});
  const std::uint64_t word_count = (part.end - part.begin) / kPatternBytes;
  auto* const words = reinterpret_cast<std::uint64_t*>(to);
  for (std::uint64_t i = 0; i < word_count; ++i) words[i] = first + i;
  const std::uint64_t last = first + word_count;
  std::memcpy(words + word_count, &last, (part.end - part.begin) % kPatternBytes);
}

// Whether the bytes are what fill wrote.
template <typename Part>
bool is_filled(const char* contents, const Part& part, std::uint64_t event_index) {
  const std::uint64_t first =
      pattern_word({.event_index = event_index, .offset_bytes = part.begin});
  const std::uint64_t word_count = (part.end - part.begin) / kPatternBytes;
  const auto* const words = reinterpret_cast<const std::uint64_t*>(contents);
  std::uint64_t difference = 0;
  for (std::uint64_t i = 0; i < word_count; ++i) difference |= words[i] ^ (first + i);
  const std::uint64_t last = first + word_count;
  return difference == 0 &&
         std::memcmp(words + word_count, &last, (part.end - part.begin) % kPatternBytes) == 0;
}

}  // namespace

void BlockContents::FreeHost::operator()(PatternFault* pointer) const {
  (void)cudaFreeHost(pointer);
}

BlockContents::BlockContents(const SimcuApi& simcu, VerifyLevel level)
    : simcu_(simcu), level_(level) {
  if (level_ != VerifyLevel::Whole || simcu_.present) return;
  void* host = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaHostAlloc(&host, sizeof(PatternFault), cudaHostAllocMapped));
  fault_.reset(static_cast<PatternFault*>(host));
  *fault_ = PatternFault{};
  void* device = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaHostGetDevicePointer(&device, host, 0));
  fault_on_device_ = static_cast<PatternFault*>(device);
}

BlockContents::~BlockContents() {
  // The kernels write to the fault, so it may only go when they are done.
  if (fault_ != nullptr) (void)cudaDeviceSynchronize();
}

// How many bytes at either end of the block are to be marked.
std::uint64_t BlockContents::wanted_bytes(const Block& block, std::uint64_t allocate_count) {
  if (level_ == VerifyLevel::Whole) {
    if (!simcu_.present || may_touch(block)) return block.shadow.size_bytes;
    ++edges_only_count_;
    return kLongEdgeBytes;
  }
  if (block.shadow.size_bytes < 2 * kPatternBytes) return 0;
  const bool sampled =
      allocate_count <= kMarkedFirstCount ||
      (allocate_count % kMarkedPeriod == 0 && allocate_count <= kMarkedAllocationsMax);
  return sampled ? kPatternBytes : 0;
}

bool BlockContents::may_touch(const Block& block) {
  const std::uint64_t first = block.shadow.address / kPageBytes;
  const std::uint64_t last = (block.shadow.address + block.shadow.size_bytes - 1) / kPageBytes;
  std::vector<std::uint64_t> pages;
  for (std::uint64_t page = first; page <= last; ++page) {
    if (!touched_pages_.contains(page)) pages.push_back(page);
    if (touched_pages_.size() + pages.size() > kTouchedPageCountMax) return false;
  }
  touched_pages_.insert(pages.begin(), pages.end());
  return true;
}

void BlockContents::note_gate(std::uint32_t stream) {
  if (queued_by_stream_.size() <= stream) queued_by_stream_.resize(stream + 1);
  if (!queued_by_stream_[stream]) queued_by_stream_[stream] = 0;
}

void BlockContents::note_synchronize() { queued_by_stream_.clear(); }

// Whether one more kernel can be launched for the block without waiting for a gate.
bool BlockContents::may_queue(const Block& block) {
  const std::uint32_t stream = block.shadow.stream;
  if (stream >= queued_by_stream_.size() || !queued_by_stream_[stream]) return true;
  std::uint64_t& queued = *queued_by_stream_[stream];
  if (queued >= kQueuedCountMax && cudaStreamQuery(block.stream) == cudaSuccess) queued = 0;
  if (queued >= kQueuedCountMax) return false;
  ++queued;
  return true;
}

std::uint64_t BlockContents::write(const Block& block, std::uint64_t allocate_count) {
  const std::uint64_t marked_bytes = wanted_bytes(block, allocate_count);
  if (marked_bytes == 0) return 0;
  if (uses_kernels() && !may_queue(block)) {
    ++unmarked_count_;
    return 0;
  }
  const std::uint64_t event_index = block.shadow.event_index;
  if (uses_kernels()) {
    ALLOCMARK_CUDA_CHECK(
        launch_write_pattern_kernel(block.stream, {.block = block.pointer,
                                                   .size_bytes = block.shadow.size_bytes,
                                                   .event_index = event_index,
                                                   .id = block.shadow.id}));
    return marked_bytes;
  }
  char* const view = simcu_.present
                         ? static_cast<char*>(simcu_.view(block.pointer, block.shadow.size_bytes))
                         : nullptr;
  for (const Part& part : parts_of<Part>(block.shadow.size_bytes, marked_bytes)) {
    if (part.begin == part.end) continue;
    if (view != nullptr) {
      fill(view + part.begin, part, event_index);
      continue;
    }
    std::vector<char> bytes(part.end - part.begin);
    fill(bytes.data(), part, event_index);
    ALLOCMARK_CUDA_CHECK(cudaMemcpy(static_cast<char*>(block.pointer) + part.begin, bytes.data(),
                                    bytes.size(), cudaMemcpyHostToDevice));
  }
  return marked_bytes;
}

// False where a word differs; changed() then has it.
bool BlockContents::look(const Block& block, const char* contents, const Part& part) {
  if (is_filled(contents, part, block.shadow.event_index)) return true;
  for (std::uint64_t at = part.begin; at < part.end; at += kPatternBytes) {
    const std::uint64_t expected =
        pattern_word({.event_index = block.shadow.event_index, .offset_bytes = at});
    std::uint64_t found = expected;
    std::memcpy(&found, contents + (at - part.begin), std::min(kPatternBytes, part.end - at));
    if (found == expected) continue;
    changed_ = {.event_index = block.shadow.event_index,
                .id = block.shadow.id,
                .size_bytes = block.shadow.size_bytes,
                .offset_bytes = at,
                .expected = expected,
                .found = found};
    return false;
  }
  return true;
}

BlockContents::Answer BlockContents::check(const Block& block) {
  if (uses_kernels()) {
    if (!may_queue(block)) {
      ++unmarked_count_;
      return Answer::NotLooked;
    }
    ALLOCMARK_CUDA_CHECK(launch_check_pattern_kernel(block.stream,
                                                     {.block = block.pointer,
                                                      .size_bytes = block.shadow.size_bytes,
                                                      .event_index = block.shadow.event_index,
                                                      .id = block.shadow.id},
                                                     fault_on_device_));
    return Answer::Later;
  }
  const char* view = nullptr;
  if (simcu_.present) {
    view = static_cast<const char*>(simcu_.view(block.pointer, block.shadow.size_bytes));
    if (view == nullptr) return Answer::Unmapped;
  }
  for (const Part& part : parts_of<Part>(block.shadow.size_bytes, block.marked_bytes)) {
    if (part.begin == part.end) continue;
    std::vector<char> bytes;
    const char* contents = view + part.begin;
    if (view == nullptr) {
      bytes.resize(part.end - part.begin);
      ALLOCMARK_CUDA_CHECK(cudaMemcpy(bytes.data(),
                                      static_cast<const char*>(block.pointer) + part.begin,
                                      bytes.size(), cudaMemcpyDeviceToHost));
      contents = bytes.data();
    }
    if (!look(block, contents, part)) return Answer::Changed;
  }
  return Answer::Unchanged;
}

bool BlockContents::found_later() {
  if (fault_ == nullptr ||
      std::atomic_ref<unsigned long long>(fault_->complete).load(std::memory_order_acquire) == 0) {
    return false;
  }
  changed_ = {.event_index = fault_->block.event_index,
              .id = fault_->block.id,
              .size_bytes = fault_->block.size_bytes,
              .offset_bytes = fault_->offset_bytes,
              .expected = fault_->expected,
              .found = fault_->found};
  return true;
}

void BlockContents::synchronize() {
  if (fault_ != nullptr) ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
}

}  // namespace allocmark

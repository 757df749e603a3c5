// Patterns in blocks; see block_contents.h. This file checks.
#include "harness/core/check/block_contents.h"

#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "harness/core/replay/block_pattern.h"

namespace allocmark {
namespace {

// At the level edges contents are checked for the first blocks and then for every 61st, up to so
// many: each costs host memory.
constexpr std::uint64_t kMarkedFirstCount = 256;
constexpr std::uint64_t kMarkedPeriod = 61;
constexpr std::uint64_t kMarkedAllocationsMax = 250'000;

// At the level whole, on simcuda: the host's memory stands for the device's, a few KiB for each
// page of 2 MiB in a lazy pattern. Beyond this much only the ends of blocks are filled.
constexpr std::uint64_t kPageBytes = LazyPattern::kPageBytes;
constexpr std::uint64_t kTouchedPageCountMax = 131072;  // 256 GiB
constexpr std::uint64_t kLongEdgeBytes = std::uint64_t{64} << 10;

// A stream takes 1024 launches; with one more the host waits for the gate that only it can open.
// The program's own kernels need their places too.
constexpr std::uint64_t kQueuedCountMax = 512;

std::uint64_t round_down(std::uint64_t value) { return value / kPatternBytes * kPatternBytes; }

LazyPattern::Block lazy_block(const ShadowBlock& shadow) {
  return {.address = shadow.address,
          .size_bytes = shadow.size_bytes,
          .event_index = shadow.event_index};
}

std::array<PatternPart, 2> parts_of(std::uint64_t size_bytes, std::uint64_t marked_bytes) {
  if (marked_bytes * 2 >= size_bytes) return {PatternPart{0, size_bytes}, PatternPart{}};
  return {PatternPart{0, marked_bytes},
          PatternPart{round_down(size_bytes - marked_bytes), size_bytes}};
}

}  // namespace

void BlockContents::FreeHost::operator()(PatternFault* pointer) const {
  (void)cudaFreeHost(pointer);
}

BlockContents::BlockContents(const SimcuApi& simcu, VerifyLevel level, MemorySide side)
    : simcu_(simcu), level_(level), side_(side) {
  if (level_ != VerifyLevel::Whole || side_ == MemorySide::Host) return;
  if (simcu_.present) {
    lazy_ = std::make_unique<LazyPattern>(simcu_);
    return;
  }
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

char* BlockContents::view_of(const Block& block) const {
  const std::uint64_t size_bytes = block.shadow.size_bytes;
  if (side_ == MemorySide::Host) {
    const bool is_there = !simcu_.present || simcu_.pins(block.pointer, size_bytes);
    return is_there ? static_cast<char*>(block.pointer) : nullptr;
  }
  return simcu_.present ? static_cast<char*>(simcu_.view(block.pointer, size_bytes)) : nullptr;
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
  if (lazy_ != nullptr && marked_bytes == block.shadow.size_bytes) {
    return lazy_->write(lazy_block(block.shadow)) ? marked_bytes : 0;
  }
  char* const view = view_of(block);
  for (const PatternPart& part : parts_of(block.shadow.size_bytes, marked_bytes)) {
    if (part.begin == part.end) continue;
    if (view != nullptr) {
      fill_pattern(view + part.begin, part, event_index);
      continue;
    }
    std::vector<char> bytes(part.end - part.begin);
    fill_pattern(bytes.data(), part, event_index);
    ALLOCMARK_CUDA_CHECK(cudaMemcpy(static_cast<char*>(block.pointer) + part.begin, bytes.data(),
                                    bytes.size(), cudaMemcpyHostToDevice));
  }
  return marked_bytes;
}

// False where a word differs; changed() then has it.
bool BlockContents::look(const Block& block, const char* contents, const PatternPart& part) {
  const std::optional<PatternChange> change = find_change(contents, part, block.shadow.event_index);
  if (change) note_change(block, *change);
  return !change;
}

void BlockContents::note_change(const Block& block, const PatternChange& change) {
  changed_ = {.event_index = block.shadow.event_index,
              .id = block.shadow.id,
              .size_bytes = block.shadow.size_bytes,
              .offset_bytes = change.offset_bytes,
              .expected = change.expected,
              .found = change.found};
}

void BlockContents::forget(const Block& block) {
  if (is_lazy(block)) lazy_->forget(lazy_block(block.shadow));
}

BlockContents::Answer BlockContents::check_lazily(const Block& block) {
  PatternChange change;
  switch (lazy_->check(lazy_block(block.shadow), &change)) {
    case LazyPattern::Answer::Unchanged:
      return Answer::Unchanged;
    case LazyPattern::Answer::Unmapped:
      return Answer::Unmapped;
    case LazyPattern::Answer::Changed:
      break;
  }
  note_change(block, change);
  return Answer::Changed;
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
  if (is_lazy(block)) return check_lazily(block);
  const char* const view = view_of(block);
  if (simcu_.present && view == nullptr) return Answer::Unmapped;
  for (const PatternPart& part : parts_of(block.shadow.size_bytes, block.marked_bytes)) {
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

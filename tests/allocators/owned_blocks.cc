// See owned_blocks.h.
#include "tests/allocators/owned_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <iterator>
#include <string>

#include "allocators/cuda/cuda_check.h"
#include "tests/allocators/conformance.h"

namespace allocmark {
namespace {

using Mark = std::array<std::uint64_t, 4>;

std::string shown(const OwnedBlock& block) {
  return fmt::format("block {} ({} bytes at {})", block.id, block.size_bytes,
                     fmt::ptr(block.pointer));
}

// Marks go to the beginning, the middle and the end: enough to find a foreign write of any
// neighbour, and cheap for large blocks.
std::vector<std::uint64_t> mark_offsets(std::uint64_t size_bytes) {
  if (size_bytes < sizeof(Mark)) {
    return {};
  }
  return {0, (size_bytes - sizeof(Mark)) / 2, size_bytes - sizeof(Mark)};
}

Mark mark_of(const OwnedBlock& block) {
  Random random(block.id ^ reinterpret_cast<std::uintptr_t>(block.pointer));
  Mark mark{};
  for (std::uint64_t& word : mark) {
    word = random.next();
  }
  return mark;
}

void write_marks(const OwnedBlock& block) {
  const Mark mark = mark_of(block);
  for (const std::uint64_t offset : mark_offsets(block.size_bytes)) {
    ALLOCMARK_CUDA_CHECK(cudaMemcpyAsync(static_cast<char*>(block.pointer) + offset, mark.data(),
                                         sizeof(Mark), cudaMemcpyDefault, block.stream));
    // Marks of a small block overlap each other; the last one written stands.
    ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(block.stream));
  }
}

void check_marks(const OwnedBlock& block) {
  const std::vector<std::uint64_t> offsets = mark_offsets(block.size_bytes);
  const Mark wanted = mark_of(block);
  for (std::size_t index = 0; index < offsets.size(); ++index) {
    const bool overwritten_by_ourselves =
        index + 1 < offsets.size() && offsets[index + 1] < offsets[index] + sizeof(Mark);
    if (overwritten_by_ourselves) {
      continue;
    }
    Mark found{};
    ALLOCMARK_CUDA_CHECK(cudaMemcpyAsync(found.data(),
                                         static_cast<char*>(block.pointer) + offsets[index],
                                         sizeof(Mark), cudaMemcpyDefault, block.stream));
    ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(block.stream));
    expect(found == wanted,
           fmt::format("contents of {} changed at offset {}", shown(block), offsets[index]));
  }
}

}  // namespace

bool overlap(const OwnedBlock& a, const OwnedBlock& b) {
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a.pointer);
  const auto begin_b = reinterpret_cast<std::uintptr_t>(b.pointer);
  return begin_a < begin_b + b.size_bytes && begin_b < begin_a + a.size_bytes;
}

void RangeMap::add(const OwnedBlock& block) {
  if (block.size_bytes == 0) {
    return;
  }
  expect(block.pointer != nullptr,
         fmt::format("a request of {} bytes got a null pointer and Ok", block.size_bytes));
  const auto begin = reinterpret_cast<std::uintptr_t>(block.pointer);
  const auto after = end_by_begin_.lower_bound(begin);
  expect(after == end_by_begin_.end() || begin + block.size_bytes <= after->first,
         shown(block) + " overlaps the live block after it");
  expect(after == end_by_begin_.begin() || std::prev(after)->second <= begin,
         shown(block) + " overlaps the live block before it");
  end_by_begin_.emplace(begin, begin + block.size_bytes);
}

void RangeMap::remove(const OwnedBlock& block) {
  if (block.size_bytes != 0) {
    end_by_begin_.erase(reinterpret_cast<std::uintptr_t>(block.pointer));
  }
}

AllocateStatus OwnedBlocks::allocate(std::uint64_t size_bytes, cudaStream_t stream) {
  const AllocateResult result = backend_.allocate(size_bytes, stream);
  if (result.status == AllocateStatus::OutOfMemory) {
    expect(result.pointer == nullptr, "a failed request returned a pointer");
    return result.status;
  }
  const OwnedBlock block{
      .pointer = result.pointer, .size_bytes = size_bytes, .stream = stream, .id = next_id_++};
  ranges_.add(block);
  if (contents_ == Contents::Checked) {
    write_marks(block);
  }
  blocks_.push_back(block);
  live_bytes_ += size_bytes;
  return result.status;
}

void OwnedBlocks::free(std::size_t index) {
  const OwnedBlock block = blocks_[index];
  blocks_[index] = blocks_.back();
  blocks_.pop_back();
  live_bytes_ -= block.size_bytes;
  if (contents_ == Contents::Checked) {
    check_marks(block);
  }
  ranges_.remove(block);
  backend_.deallocate(block.pointer, block.size_bytes, block.stream);
}

void OwnedBlocks::free_all() {
  while (!blocks_.empty()) {
    free(blocks_.size() - 1);
  }
}

void OwnedBlocks::check_contents() const {
  for (const OwnedBlock& block : blocks_) {
    check_marks(block);
  }
}

std::uint64_t random_size_bytes(Random& random, std::uint64_t size_bytes_max) {
  const int magnitude_max = static_cast<int>(std::bit_width(size_bytes_max));
  const std::uint64_t top = std::uint64_t{1}
                            << random.between(1, static_cast<std::uint64_t>(magnitude_max));
  return std::min(random.between(top / 2, top), size_bytes_max);
}

std::vector<AllocateStatus> run_trace(OwnedBlocks& owned, const TraceShape& shape) {
  Random random(shape.seed);
  std::vector<AllocateStatus> statuses;
  for (int step = 0; step < shape.step_count; ++step) {
    const std::uint64_t size_bytes = random_size_bytes(random, shape.size_bytes_max);
    while (owned.live_bytes() + size_bytes > shape.live_bytes_max && !owned.blocks().empty()) {
      owned.free(random.below(owned.blocks().size()));
    }
    statuses.push_back(
        owned.allocate(size_bytes, shape.streams[random.below(shape.streams.size())]));
    if (!owned.blocks().empty() && random.below(3) == 0) {
      owned.free(random.below(owned.blocks().size()));
    }
  }
  return statuses;
}

std::uint64_t test_seed() {
  const char* text = std::getenv("ALLOCMARK_SEED");
  return text == nullptr ? 20261120 : std::strtoull(text, nullptr, 0);
}

}  // namespace allocmark

// Operators that read or add to rows by their numbers: embeddings, and index_put_ that accumulates.
#include <algorithm>
#include <bit>

#include "base/divided_up.h"
#include "workloads/model/functions.h"
#include "workloads/model/module_scope.h"

namespace allocmark {
namespace {

// CUB's, of pairs.
constexpr std::uint64_t kSortTile = 4608;
constexpr std::uint64_t kUniqueTile = 4480;

std::uint64_t sort_scratch_bytes(std::uint64_t count, std::uint64_t pass_count) {
  return radix_sort_bytes(
      {.count = count, .key_bytes = 8, .pass_count = pass_count, .tile = kSortTile});
}

// An embedding's indexes are sorted by all of their bits.
constexpr std::uint64_t kAllBitsPasses = 8;

// Whether PyTorch adds pieces to the table at once: blocks of threads for its rows alone would
// leave the GPU idle, and there are many pieces to each. Found with PyTorch 2.11's code: the last
// such number of rows in 48 set-ups, all of 132 multiprocessors (H100 and H200).
bool is_added_at_once(std::uint64_t row_count, std::uint64_t piece_count, std::uint64_t width) {
  constexpr std::uint64_t kWarp = 32;
  constexpr std::uint64_t kThreadsMax = 1024;
  constexpr std::uint64_t kBlocksWanted = 4 * 132;
  const std::uint64_t row_threads = rounded_up(width, kWarp);
  const std::uint64_t block_threads = std::min(row_threads, kThreadsMax);
  const std::uint64_t blocks = divided_up(row_count * row_threads, block_threads);
  return blocks < kBlocksWanted && piece_count > 4 * blocks;
}

// sizes: bytes of the table, indexes, bytes of a row in four bytes per element, rows of the table,
// whether the indexes were expanded, bytes of a gradient that has to be copied first.
void embedding_backward(Tape& tape, Node& node, Backprop& b) {
  const std::uint64_t count = node.sizes[1];
  Tensor rows;
  if (node.sizes[5] > 0) rows = tape.gradient(node.sizes[5]);
  // Up to 3072 indexes are added one by one; more are sorted, and equal ones summed in pieces of
  // ten rows before they meet.
  Tensor contiguous;  // of indexes that were expanded over the batch
  if (node.sizes[4] == 1) contiguous = tape.scratch(count * 8);
  if (count <= 3072) {
    b.out[0].tensor = tape.gradient(node.sizes[0]);
    return;
  }
  const Tensor sorted = tape.scratch(count * 8);
  const Tensor original = tape.scratch(count * 8);
  {
    const Tensor range = tape.scratch(count * 8);
    const Tensor sorting = tape.scratch(sort_scratch_bytes(count, kAllBitsPasses));
  }
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  const Tensor offsets = tape.scratch(count * 8);
  const Tensor segment_count = tape.scratch(8);
  {
    const Tensor range = tape.scratch(count * 8);
    take_look_back(tape, divided_up(count, kUniqueTile), 16);
  }
  const std::uint64_t segments_max = std::min(count, node.sizes[3]);
  const Tensor pieces = tape.scratch(segments_max * 8);
  const Tensor piece_offsets = tape.scratch(segments_max * 8);
  take_running_sum_scratch(tape, segments_max);
  const Tensor piece_count = tape.scratch(8);
  const std::uint64_t pieces_max = count / 10 + segments_max;
  const Tensor starts = tape.scratch(pieces_max * 8);
  const bool is_short = is_added_at_once(segments_max, pieces_max, node.sizes[2] / 4);
  const Tensor sums = tape.scratch(pieces_max * (is_short ? 8 : node.sizes[2]));
  if (is_short && node.sizes[0] < node.sizes[2] * node.sizes[3]) {
    tape.take_scratch(node.sizes[2] * node.sizes[3]);
  }
}

}  // namespace

Var embedding(Tape& tape, const Tensor& indexes, std::uint64_t index_count, std::size_t weight,
              std::uint64_t hidden, bool is_permuted, std::uint64_t table_rows) {
  const ModuleScope module(tape, {.parameters = {weight}, .hears_end = false});
  const Var table = tape.parameter(weight);
  if (table_rows == 0) table_rows = table.count / hidden;
  Node* node = tape.record(embedding_backward, {&table},
                           {table_rows * hidden * table.width, index_count, hidden * 4, table_rows,
                            indexes.size_bytes() < index_count * 8 ? 1u : 0u,
                            is_permuted ? index_count * hidden * table.width : 0u});
  tape.save(node, 0, indexes);
  return tape.result(node, index_count * hidden, table.width);
}

std::uint64_t radix_sort_bytes(const RadixSort& sort) {
  const std::uint64_t again_bytes =
      sort.pass_count > 1
          ? rounded_up(sort.count * sort.key_bytes, 256) + rounded_up(sort.count * 8, 256)
          : 0;
  return again_bytes + divided_up(sort.count, sort.tile) * 1024 + sort.pass_count * 2048 + 511;
}

void take_sort_scratch(Tape& tape, std::uint64_t count) {
  constexpr std::uint64_t kOneBlockMax = 4096;
  if (count <= kOneBlockMax) return;
  tape.take_scratch(sort_scratch_bytes(count, kAllBitsPasses));
}

void put_accumulated(Tape& tape, const PutSizes& sizes) {
  const std::uint64_t index_count = sizes.index_count;
  Tensor wrapped = tape.scratch(index_count * 8);
  const Tensor joined = tape.scratch(index_count * 8);
  wrapped.reset();
  for (std::uint64_t i = 1; i < sizes.dimension_count; ++i) {
    wrapped = tape.scratch(index_count * 8);
    const Tensor scaled = tape.scratch(index_count * 8);
    wrapped.reset();
  }
  const Tensor sorted = tape.scratch(index_count * 8);
  const Tensor original = tape.scratch(index_count * 8);
  const Tensor range = tape.scratch(index_count * 8);
  // So few are sorted by one block of CUB, in its own memory; more by the bits that row numbers
  // have.
  constexpr std::uint64_t kOneBlockMax = 2304;
  const std::uint64_t bits = std::bit_width(std::max<std::uint64_t>(sizes.row_count, 2) - 1);
  tape.take_scratch(index_count <= kOneBlockMax ? 1
                                                : sort_scratch_bytes(index_count, (bits + 7) / 8));
}

}  // namespace allocmark

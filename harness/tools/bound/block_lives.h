// The blocks of a program, for the packer: of a trace, or of a CSV file as minimalloc reads them.
// In: what a person typed. Out: blocks with names. Errors are thrown.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "allocators/packing/packing.h"
#include "workloads/trace/source.h"

namespace allocmark {

struct NamedBlocks {
  std::vector<BlockLife> blocks{};
  std::vector<std::string> names{};  // by block, as in the file; of a trace the block's id
};

inline constexpr std::size_t kPackedBlocksMax = 1'000'000;

// As harness/core/replay/trace_blocks.h. Throws UsageError where there are too many.
[[nodiscard]] NamedBlocks blocks_of_trace(std::unique_ptr<EventSource> source);

// Whether the file begins as one of minimalloc's does, with the columns id, lower, upper and size.
// False where it cannot be read.
[[nodiscard]] bool is_block_file(const std::string& path);
// Throws UsageError with the line: columns that are missing, no numbers, upper not above lower,
// more than 2^60 bytes in all, too many blocks. Columns beside the four are refused, since a
// packing would not obey them; `offset` may be there and is not read.
[[nodiscard]] NamedBlocks read_block_file(const std::string& path);

// As minimalloc writes its solutions: the four columns, and `offset`.
void write_packing_file(const NamedBlocks& named, const BlockPacking& packing,
                        const std::string& path);

}  // namespace allocmark

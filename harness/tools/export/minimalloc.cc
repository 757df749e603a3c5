#include "harness/tools/export/writers.h"

#include <fmt/format.h>

#include <cstdint>
#include <unordered_map>

#include "workloads/import/minimalloc_rows.h"
#include "workloads/trace/byte_stream.h"

namespace allocmark {

void write_minimalloc(const MemorySnapshot& snapshot, const std::string& path) {
  struct Block {
    std::uint64_t id = 0;
    std::uint64_t begin = 0;
    std::uint64_t size_bytes = 0;
  };
  ByteWriter bytes(path);
  bytes.write(kMinimallocHeader);
  std::unordered_map<std::uint64_t, Block> live;  // by address
  std::uint64_t now = 0, id = 0;
  const auto write = [&](const Block& block) {
    bytes.write(minimalloc_line({.id = fmt::format("b{}", block.id),
                                 .lower = block.begin,
                                 .upper = now,
                                 .size_bytes = block.size_bytes}));
  };
  snapshot.for_each_entry(snapshot.main_device(), [&](const SnapshotEntry& entry) {
    if (entry.action == SnapshotAction::Alloc)
      live[entry.address] = {.id = ++id, .begin = now, .size_bytes = entry.size_bytes};
    if (entry.action == SnapshotAction::FreeRequested) {
      const auto found = live.find(entry.address);
      if (found != live.end()) {
        write(found->second);
        live.erase(found);
      }
    }
    ++now;
  });
  for (const auto& [address, block] : live) write(block);
  bytes.finish();
}

}  // namespace allocmark

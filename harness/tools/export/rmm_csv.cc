#include "harness/tools/export/writers.h"

#include <fmt/format.h>

#include <unordered_map>

#include "workloads/trace/byte_stream.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kFirstAddress = std::uint64_t{1} << 32;
constexpr std::uint64_t kAddressStep = 256;

struct LoggedBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t stream = 0;
};

std::string clock_text(std::uint64_t time_us) {
  constexpr std::uint64_t kSecond = 1'000'000;
  const std::uint64_t seconds = time_us / kSecond;
  return fmt::format("{:02}:{:02}:{:02}.{:06}", seconds / 3600 % 24, seconds / 60 % 60,
                     seconds % 60, time_us % kSecond);
}

std::string address_text(std::uint64_t address) {
  return address == 0 ? "(nil)" : fmt::format("{:#x}", address);
}

std::string stream_text(std::uint32_t stream) {
  return stream == 0 ? "0" : fmt::format("{:#x}", stream);
}

}  // namespace

RmmLogCounts write_rmm_log(EventSource& source, const std::string& path) {
  RmmLogCounts counts;
  ByteWriter bytes(path);
  bytes.write("Thread,Time,Action,Pointer,Size,Stream\n");
  std::unordered_map<std::uint64_t, LoggedBlock> live;  // by id
  std::uint64_t block_count = 0;
  const auto write = [&](const char* action, const LoggedBlock& block) {
    bytes.write(fmt::format("1,{},{},{},{},{}\n", clock_text(counts.row_count++), action,
                            address_text(block.address), block.size_bytes,
                            stream_text(block.stream)));
  };
  for (auto events = source.next(); !events.empty(); events = source.next()) {
    for (const Event& event : events) {
      if (event.kind == EventKind::Free) {
        const auto found = live.find(event.id);
        if (found == live.end()) continue;  // of a request that failed
        write("free", found->second);
        live.erase(found);
      } else if (event.kind != EventKind::Alloc) {
        ++counts.left_out_count;
      } else if (event.tensor == TensorKind::Failed) {
        write("allocate failure", {.size_bytes = event.size_bytes, .stream = event.stream});
      } else {
        const LoggedBlock block{.address = kFirstAddress + kAddressStep * block_count++,
                                .size_bytes = event.size_bytes,
                                .stream = event.stream};
        write("allocate", block);
        live[event.id] = block;
      }
    }
  }
  bytes.finish();
  return counts;
}

}  // namespace allocmark

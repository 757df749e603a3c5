// A backend over made-up addresses that can be told to fail or to break rules: for tests of the
// harness alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "allocators/backend/backend.h"

namespace allocmark {

class FakeBackend final : public Backend {
 public:
  // The n-th requests (0-based) that fail.
  std::vector<std::uint64_t> failing_requests;
  // Requests that are answered with another address than the next free one.
  std::map<std::uint64_t, std::uint64_t> address_by_request;
  // What stats() answers.
  std::function<MemoryStats()> stats_now = [] { return MemoryStats{}; };

  // Every call in order: "a0 100 s1", "f 0x..." and so on; blocks are named by the request that
  // made them.
  std::vector<std::string> calls;

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    const std::uint64_t request = request_count_++;
    calls.push_back("alloc " + std::to_string(size_bytes) + stream_text(stream));
    for (const std::uint64_t failing : failing_requests) {
      if (failing == request) return {.pointer = nullptr, .status = AllocateStatus::OutOfMemory};
    }
    std::uint64_t address = next_address_;
    const auto planted = address_by_request.find(request);
    if (planted != address_by_request.end()) address = planted->second;
    next_address_ += (size_bytes + 1023) / 512 * 512;
    request_by_address_[address] = request;
    return {.pointer = reinterpret_cast<void*>(address), .status = AllocateStatus::Ok};
  }
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    calls.push_back("free " + name(pointer) + " " + std::to_string(size_bytes) +
                    stream_text(stream));
  }
  void record_stream(void* pointer, cudaStream_t stream) override {
    calls.push_back("record " + name(pointer) + stream_text(stream));
  }
  void trim() override { calls.emplace_back("trim"); }
  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override { return stats_now(); }

  static constexpr std::uint64_t kFirstAddress = 0x10000;

 private:
  [[nodiscard]] std::string name(void* pointer) {
    return "#" + std::to_string(request_by_address_[reinterpret_cast<std::uintptr_t>(pointer)]);
  }
  [[nodiscard]] static std::string stream_text(cudaStream_t stream) {
    return " s" + std::to_string(reinterpret_cast<std::uintptr_t>(stream));
  }

  std::uint64_t request_count_ = 0;
  std::uint64_t next_address_ = kFirstAddress;
  std::map<std::uint64_t, std::uint64_t> request_by_address_;
};

}  // namespace allocmark

// Goal: the level whole of the checked pass finds what the level edges cannot see, and names block,
// place and bytes; good allocators pass it. Method: planted faults (an allocator whose blocks share
// memory, a stream-careless one, one that loses bytes) and the registry's own, on simcuda.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "harness/core/cell/cell.h"
#include "harness/core/check/verify.h"
#include "harness/core/replay/block_pattern.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/core/replay/trace_compiler.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

Event alloc(std::uint64_t id, std::uint64_t size_bytes, std::uint32_t stream = 0) {
  return {.id = id, .size_bytes = size_bytes, .stream = stream, .kind = EventKind::Alloc};
}
Event free_of(std::uint64_t id) { return {.id = id, .kind = EventKind::Free}; }
Event kernel(std::uint64_t duration_ns, std::uint32_t stream) {
  return {.size_bytes = duration_ns, .stream = stream, .kind = EventKind::Kernel};
}

// cudaMalloc for every request, with a hook that does the harm. Freed blocks go straight to the
// next request of their size where it is careless.
class HarmfulBackend final : public Backend {
 public:
  // Called with every block that is handed out, after it has its memory.
  std::function<void(void* pointer, std::uint64_t size_bytes)> harm = [](void*, std::uint64_t) {};
  bool is_careless = false;

  HarmfulBackend() = default;
  ~HarmfulBackend() override {
    for (void* pointer : all_) (void)cudaFree(pointer);
  }

  AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t /*stream*/) override {
    const auto kept = kept_.find(size_bytes);
    void* pointer = nullptr;
    if (kept != kept_.end()) {
      pointer = kept->second;
      kept_.erase(kept);
    } else {
      if (cudaMalloc(&pointer, size_bytes) != cudaSuccess) {
        return {.pointer = nullptr, .status = AllocateStatus::OutOfMemory};
      }
      all_.push_back(pointer);
    }
    harm(pointer, size_bytes);
    return {.pointer = pointer, .status = AllocateStatus::Ok};
  }
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t /*stream*/) override {
    if (is_careless) kept_.emplace(size_bytes, pointer);
  }
  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override { return {}; }

 private:
  std::vector<void*> all_;
  std::multimap<std::uint64_t, void*> kept_;
};

VerifyReport verify(Backend& backend, VerifyLevel level, const std::vector<Event>& events) {
  const SimcuApi simcu = SimcuApi::find();
  const std::unique_ptr<DeviceWork> work = make_device_work(simcu);
  const StreamSet streams(4, /*has_device=*/true);
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  compiler.compile(events, steps);
  Verifier verifier(VerifySetup{
      .replay = {.backend = &backend, .work = work.get(), .streams = streams.all()},
      .capabilities = {.stream_ordered = true, .real_memory = true, .alignment_bytes = 256},
      .simcu = simcu,
      .facts = compiler.facts(),
      .level = level,
      .capacity_bytes = std::uint64_t{1} << 40,
      .device_bytes_before = device_used_bytes(simcu)});
  verifier.run({.events = events, .steps = steps, .slot_count = compiler.slot_count()});
  verifier.finish();
  (void)cudaDeviceSynchronize();
  return verifier.report();
}

bool says(const VerifyReport& report, const std::string& part) {
  INFO(report.broken_rule.value_or("no broken rule"));
  return report.broken_rule && report.broken_rule->find(part) != std::string::npos;
}

bool on_simcuda() { return SimcuApi::find().present; }

}  // namespace

TEST_CASE("a byte lost in the middle of a block is found by whole, with its place") {
  if (!on_simcuda()) return;
  const std::vector<Event> events{alloc(7, 3 * kMiB + 5), alloc(8, 512), free_of(8), free_of(7)};
  for (const VerifyLevel level : {VerifyLevel::Edges, VerifyLevel::Whole}) {
    HarmfulBackend backend;
    char* first = nullptr;
    backend.harm = [&](void* pointer, std::uint64_t size_bytes) {
      if (size_bytes > kMiB) {
        first = static_cast<char*>(pointer);
      } else {
        (void)cudaMemset(first + 1234567, 0x5A, 1);
      }
    };
    const VerifyReport report = verify(backend, level, events);
    if (level == VerifyLevel::Edges) {
      CHECK(!report.broken_rule);
      continue;
    }
    CHECK(says(report, "contents survive"));
    CHECK(says(report, "block 7 (event 0, 3145733 bytes)"));
    CHECK(says(report, "at offset 1234560"));
    CHECK(says(report, "expected 0x"));
    CHECK(says(report, "5a"));
  }
}

TEST_CASE("a byte lost at the very end of a block is found at both levels") {
  if (!on_simcuda()) return;
  for (const VerifyLevel level : {VerifyLevel::Edges, VerifyLevel::Whole}) {
    HarmfulBackend backend;
    char* first = nullptr;
    backend.harm = [&](void* pointer, std::uint64_t size_bytes) {
      if (size_bytes == 1003) {
        first = static_cast<char*>(pointer);
      } else {
        (void)cudaMemset(first + 1002, 0x5A, 1);
      }
    };
    const VerifyReport report =
        verify(backend, level, {alloc(7, 1003), alloc(8, 512), free_of(8), free_of(7)});
    CHECK(says(report, "block 7 (event 0, 1003 bytes) has changed bytes at offset 1000"));
  }
}

TEST_CASE("who looks into a block in the middle finds the pattern, and may write it back") {
  if (!on_simcuda()) return;
  HarmfulBackend backend;
  char* first = nullptr;
  std::vector<std::uint64_t> words(1000);
  backend.harm = [&](void* pointer, std::uint64_t size_bytes) {
    if (size_bytes > kMiB) {
      first = static_cast<char*>(pointer);
      return;
    }
    // Over the end of a granule, at no multiple of its size.
    (void)cudaMemcpy(words.data(), first + kMiB - 800, 8000, cudaMemcpyDeviceToHost);
    (void)cudaMemset(first + kMiB - 800, 0, 8000);
    (void)cudaMemcpy(first + kMiB - 800, words.data(), 8000, cudaMemcpyHostToDevice);
  };
  const VerifyReport report = verify(backend, VerifyLevel::Whole,
                                     {alloc(7, 3 * kMiB), alloc(8, 512), free_of(8), free_of(7)});
  CHECK(!report.broken_rule);
  for (std::uint64_t i = 0; i < words.size(); ++i) {
    REQUIRE(words[i] == pattern_word({.event_index = 0, .offset_bytes = kMiB - 800 + 8 * i}));
  }
}

TEST_CASE("writes beside a block are no harm to it, and its last byte is its own") {
  if (!on_simcuda()) return;
  for (const std::uint64_t size_bytes : {std::uint64_t{600}, std::uint64_t{70'001}}) {
    for (const bool harms : {false, true}) {
      HarmfulBackend backend;
      char* first = nullptr;
      backend.harm = [&](void* pointer, std::uint64_t size) {
        if (size == size_bytes) {
          first = static_cast<char*>(pointer);
        } else {
          (void)cudaMemset(first + size_bytes - (harms ? 1 : 0), 0x5A, 8);
        }
      };
      const VerifyReport report =
          verify(backend, VerifyLevel::Whole,
                 {alloc(7, size_bytes), alloc(8, 64), free_of(8), free_of(7)});
      CHECK(report.broken_rule.has_value() == harms);
    }
  }
}

TEST_CASE("pages that were lost under a live block are found, wherever they lie in it") {
  if (!on_simcuda()) return;
  HarmfulBackend backend;
  char* first = nullptr;
  backend.harm = [&](void* pointer, std::uint64_t size_bytes) {
    if (size_bytes > kMiB) {
      first = static_cast<char*>(pointer);
      return;
    }
    // The block is given back and taken again behind the program's back: fresh pages lie under it.
    (void)cudaFree(first);
    void* again = nullptr;
    (void)cudaMalloc(&again, 8 * kMiB);
    CHECK(again == first);
    // Its first and last words are put back as they were.
    const std::uint64_t begin = pattern_word({.event_index = 0, .offset_bytes = 0});
    const std::uint64_t end = pattern_word({.event_index = 0, .offset_bytes = 8 * kMiB - 8});
    (void)cudaMemcpy(first, &begin, sizeof begin, cudaMemcpyHostToDevice);
    (void)cudaMemcpy(first + 8 * kMiB - 8, &end, sizeof end, cudaMemcpyHostToDevice);
  };
  const VerifyReport report =
      verify(backend, VerifyLevel::Whole, {alloc(7, 8 * kMiB), alloc(8, 512)});
  CHECK(says(report, "block 7 (event 0, 8388608 bytes) has changed bytes"));
}

TEST_CASE("a block that is never freed is looked at in the end") {
  if (!on_simcuda()) return;
  HarmfulBackend backend;
  char* first = nullptr;
  backend.harm = [&](void* pointer, std::uint64_t size_bytes) {
    if (size_bytes == 4096) {
      first = static_cast<char*>(pointer);
    } else {
      (void)cudaMemset(first + 2048, 0, 8);
    }
  };
  const VerifyReport report = verify(backend, VerifyLevel::Whole, {alloc(1, 4096), alloc(2, 64)});
  CHECK(says(report, "block 1 (event 0, 4096 bytes) has changed bytes at offset 2048"));
  CHECK(says(report, "found 0x0000000000000000"));
}

TEST_CASE("bytes of another block are said to be that block's") {
  if (!on_simcuda()) return;
  HarmfulBackend backend;
  char* first = nullptr;
  backend.harm = [&](void* pointer, std::uint64_t size_bytes) {
    if (size_bytes == 4096) {
      first = static_cast<char*>(pointer);
    } else if (size_bytes == 64) {
      // What two mappings of one page look like: another block's bytes in ours.
      (void)cudaMemcpy(first + 1024, first + 2048, 8, cudaMemcpyDeviceToDevice);
    }
  };
  const VerifyReport report =
      verify(backend, VerifyLevel::Whole, {alloc(1, 4096), alloc(2, 64), free_of(2), free_of(1)});
  CHECK(says(report, "at offset 1024"));
  CHECK(says(report, "which is offset 2048 of block 1 (event 0, 4096 bytes)"));
}

TEST_CASE("memory that goes to another stream before a kernel has ended is found at both levels") {
  if (!on_simcuda()) return;
  const std::vector<Event> events{alloc(1, 4096, 1), kernel(50'000'000, 1), free_of(1),
                                  alloc(2, 4096, 2), free_of(2)};
  for (const VerifyLevel level : {VerifyLevel::Edges, VerifyLevel::Whole}) {
    HarmfulBackend backend;
    backend.is_careless = true;
    const VerifyReport report = verify(backend, level, events);
    CHECK(says(report, "not handed to another stream"));
  }
  {
    HarmfulBackend same_stream;
    same_stream.is_careless = true;
    CHECK(!verify(same_stream, VerifyLevel::Whole,
                  {alloc(1, 4096, 1), kernel(50'000'000, 1), free_of(1), alloc(2, 4096, 1)})
               .broken_rule);
  }
  HarmfulBackend recorded;
  recorded.is_careless = true;
  CHECK(says(verify(recorded, VerifyLevel::Whole,
                    {alloc(1, 4096, 1),
                     kernel(50'000'000, 3),
                     {.id = 1, .stream = 3, .kind = EventKind::Record},
                     free_of(1),
                     alloc(2, 4096, 1)}),
             "stream 3"));
}

TEST_CASE(
    "memory whose work ended by itself may go to another stream while that stream has new work") {
  if (!on_simcuda()) return;
  // cudaFree waits for the first busy kernel; the second one has nothing to do with the block.
  const Event busy{.stream = 1, .kind = EventKind::Busy};
  const std::vector<Event> events{alloc(1, 4 * kMiB, 1), busy,      free_of(1), busy,
                                  alloc(2, 4 * kMiB, 2), free_of(2)};
  for (const VerifyLevel level : {VerifyLevel::Edges, VerifyLevel::Whole}) {
    const std::unique_ptr<Backend> backend = find_backend("native").make({});
    const VerifyReport report = verify(*backend, level, events);
    INFO(report.broken_rule.value_or("no broken rule"));
    CHECK(!report.broken_rule);
    CHECK(report.unordered_reuse_count.value_or(0) == 0);
  }
}

TEST_CASE("points in a stream are passed in its order, and only when its work has ended") {
  if (!on_simcuda()) return;
  const std::unique_ptr<DeviceWork> work = make_device_work(SimcuApi::find());
  const StreamSet streams(2, /*has_device=*/true);
  StreamPoints points(streams.all());
  const std::uint64_t before = points.make(1);
  CHECK(points.passed(1, before));
  work->launch_gated(streams.all()[1]);
  const std::uint64_t first = points.make(1);
  const std::uint64_t second = points.make(1);
  CHECK(first < second);
  CHECK(!points.passed(1, first));
  CHECK(points.passed(0, points.make(0)));
  CHECK(points.open_count() == 2);
  work->synchronize();
  CHECK(points.passed(1, second));
  CHECK(points.passed(1, first));
  CHECK(points.open_count() == 0);
}

TEST_CASE("good allocators pass the level whole with kernels on several streams") {
  if (!on_simcuda()) return;
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("allocmark_integrity_" + std::to_string(reinterpret_cast<std::uintptr_t>(&on_simcuda)) +
       ".csv");
  {
    std::ofstream file(path);
    file << "op,id,size,stream\n";
    for (int i = 1; i <= 400; ++i) {
      const int stream = i % 3;
      file << "alloc," << i << "," << (i * 7919 % 5000 + 1) * 997 << "," << stream << "\n";
      file << "kernel,0," << (i % 7) * 400'000 << "," << stream << "\n";
      if (i % 5 == 0) file << "record," << i << ",0," << (stream + 1) % 3 << "\n";
      if (i > 20) file << "free," << i - 20 << ",0,0\n";
    }
  }
  for (const char* allocator : {"native", "async", "caching", "cub", "vmm_stitch"}) {
    CellSpec spec;
    spec.key.workload = "file:" + path.string();
    spec.key.allocator = allocator;
    spec.key.capacity = "unlimited";
    spec.key.device = "sim:h200";
    spec.pass_count = 1;
    spec.verify = VerifyLevel::Whole;
    const CellResult result = run_cell(spec);
    INFO(allocator << ": " << result.reason);
    CHECK(result.status == CellStatus::Ok);
    CHECK(result.oom_count == 0);
    for (const std::string& warning : result.warnings) {
      INFO(warning);
      CHECK(warning.find("handed memory") == std::string::npos);
    }
  }
  std::filesystem::remove(path);
}

}  // namespace allocmark

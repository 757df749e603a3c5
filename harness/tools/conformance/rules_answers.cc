// Rules about answers: what is served, what fails, and what odd calls do.
#include <fmt/format.h>

#include <algorithm>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/tools/conformance/rule.h"

namespace allocmark::conformance::checks {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// Takes blocks until one fails; the device has at most so many of them. Broken where one of them is
// other memory than the device's, which an allocator may take so as not to fail.
std::vector<Block> take_all(Scene& scene, std::uint64_t size_bytes) {
  std::vector<Block> blocks;
  for (int i = 0; i < 4096; ++i) {
    const Block block = scene.try_get(size_bytes);
    if (block.pointer == nullptr) return blocks;
    (void)scene.bytes(block);
    blocks.push_back(block);
  }
  throw Broken{fmt::format("4096 requests of {} GiB were all served", size_bytes / kGiB)};
}

void count_on(Scene& scene, const char* after) {
  const Block block = scene.try_get(kMiB);
  expect(block.pointer != nullptr, fmt::format("after {}, 1 MiB was refused", after));
  scene.give(block);
}

}  // namespace

std::string serves(Scene& scene) {
  const auto calls_of = [](const Scene& each) {
    return each.simcu.present ? each.simcu.call_count(nullptr) : 0;
  };
  const std::uint64_t calls_before = calls_of(scene);
  const Block first = scene.try_get(kMiB);
  if (first.pointer == nullptr && calls_of(scene) == calls_before) {
    throw Broken{
        "the first request got NULL, and no CUDA function was called: link the library with the "
        "shared runtime (nvcc -cudart shared)"};
  }
  expect(first.pointer != nullptr, "the first request, of 1 MiB, got NULL");
  scene.give(first);
  for (int i = 0; i < 300; ++i) scene.give(scene.get(64 * (1 + static_cast<std::uint64_t>(i))));
  std::vector<Block> blocks;
  for (int i = 0; i < 96; ++i) blocks.push_back(scene.get(64 * kMiB));
  scene.give_all(blocks);
  return "301 blocks one by one, and 6 GiB live at once";
}

std::string size_zero(Scene& scene) {
  const Block block = scene.try_get(0);
  scene.give(block);
  const Block again = scene.try_get(0);
  scene.give(again);
  count_on(scene, "a request of 0 bytes");
  constexpr int kRepeatCount = 1000;
  scene.settle();
  const std::uint64_t before_bytes = scene.used_bytes();
  for (int i = 0; i < kRepeatCount; ++i) scene.give(scene.try_get(0));
  scene.settle();
  const std::uint64_t now_bytes = scene.used_bytes();
  expect(now_bytes <= before_bytes + 4 * kMiB + scene.used_bytes_tolerance(),
         fmt::format("{} requests of 0 bytes, each freed, took {} MiB of the device for good",
                     kRepeatCount, (now_bytes - before_bytes) / kMiB));
  return block.pointer == nullptr ? "the answer is NULL" : "the answer is a pointer";
}

std::string free_null(Scene& scene) {
  scene.give({});
  count_on(scene, "freeing NULL");
  return "nothing happens";
}

std::string foreign_free(Scene& scene) {
  void* foreign = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaMalloc(&foreign, kMiB));
  const Block on_device{.pointer = static_cast<char*>(foreign), .size_bytes = kMiB};
  scene.give(on_device);
  alignas(512) static char host[4096];
  const Block on_host{.pointer = host, .size_bytes = sizeof host};
  scene.give(on_host);
  (void)cudaGetLastError();
  count_on(scene, "freeing pointers that were not its own");
  LiveRanges others;
  others.add_apart(on_host);
  // It may have gone back to the driver, which can hand it out.
  if (scene.simcu.holds(0, foreign, kMiB)) others.add_apart(on_device);
  std::vector<Block> blocks;
  for (const std::uint64_t size_bytes : {on_device.size_bytes, on_host.size_bytes}) {
    for (int i = 0; i < 40; ++i) {
      blocks.push_back(scene.get(size_bytes));
      expect(!others.add(blocks.back()),
             fmt::format("{} got memory of a pointer that was not its own and had been freed",
                         text_of(blocks.back())));
      others.remove(blocks.back());
    }
  }
  scene.give_all(blocks);
  return "a pointer of cudaMalloc and one of the host";
}

std::string double_free(Scene& scene) {
  for (const std::uint64_t size_bytes : {kMiB, 8 * kMiB, 4 * kKiB}) {
    const Block first = scene.get(size_bytes);
    scene.give(first);
    scene.give(first);
    (void)cudaGetLastError();
    std::vector<Block> blocks;
    LiveRanges live;
    for (int i = 0; i < 40; ++i) {
      blocks.push_back(scene.get(size_bytes));
      if (const auto other = live.add(blocks.back())) {
        throw Broken{
            fmt::format("{} was freed twice, and its memory went to {} and {}, which both "
                        "live",
                        text_of(first), text_of(*other), text_of(blocks.back()))};
      }
    }
    scene.give_all(blocks);
  }
  return "blocks of three sizes";
}

std::string out_of_memory(Scene& scene) {
  const Block block = scene.try_get(kAbsurdBytes);
  expect(block.pointer == nullptr, "64 TiB were handed out");
  (void)cudaGetLastError();
  std::vector<Block> blocks = take_all(scene, 4 * kGiB);
  (void)cudaGetLastError();
  const std::size_t count = blocks.size();
  const std::uint64_t total_bytes = scene.total_bytes();
  const bool on_host = scene.claims.side == MemorySide::Host;
  expect(count >= std::min<std::size_t>(16, total_bytes / (8 * kGiB)),
         fmt::format("only {} GiB of a {} with {} GiB were served", 4 * count,
                     on_host ? "host" : "device", (total_bytes + kGiB / 2) / kGiB));
  scene.give_all(blocks);
  return fmt::format("64 TiB, and 4 GiB when {} GiB were in use", 4 * count);
}

std::string recovery(Scene& scene) {
  std::vector<Block> blocks = take_all(scene, 4 * kGiB);
  const std::size_t count = blocks.size();
  (void)cudaGetLastError();
  scene.give_all(blocks);
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  count_on(scene, "an out-of-memory failure, with everything freed");
  blocks = take_all(scene, 4 * kGiB);
  (void)cudaGetLastError();
  const std::size_t count_again = blocks.size();
  scene.give_all(blocks);
  expect(count_again + 1 >= count,
         fmt::format("{} GiB were served before the failure and {} GiB after it", 4 * count,
                     4 * count_again));
  return fmt::format("{} GiB before and {} GiB after", 4 * count, 4 * count_again);
}

std::string last_error(Scene& scene) {
  (void)cudaGetLastError();
  const Block block = scene.try_get(kAbsurdBytes);
  const cudaError_t error = cudaGetLastError();
  if (block.pointer != nullptr) throw NotApplicable{"64 TiB were handed out, so nothing failed"};
  expect(error == cudaSuccess,
         fmt::format("cudaGetLastError says {}, which PyTorch would take for an error of its next "
                     "kernel",
                     cudaGetErrorName(error)));
  return "cudaSuccess";
}

std::string init_twice(Scene& scene) {
  if (scene.plugin.init == nullptr)
    throw NotApplicable{"no init function is named (init:FUNCTION)"};
  scene.plugin.init(1);  // the second: the first comes before every rule
  count_on(scene, "the second init");
  return "served afterwards";
}

std::string device_argument(Scene& scene) {
  int count = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDeviceCount(&count));
  if (count < 2) throw NotApplicable{"there is one device"};
  for (const int device : {1, 0, 1}) {
    ALLOCMARK_CUDA_CHECK(cudaSetDevice(device));
    scene.device = device;
    const Block block = scene.get(kMiB);
    cudaPointerAttributes attributes{};
    ALLOCMARK_CUDA_CHECK(cudaPointerGetAttributes(&attributes, block.pointer));
    expect(attributes.device == device,
           fmt::format("with device {} current and asked for, the block lies on device {}", device,
                       attributes.device));
    int current = -1;
    ALLOCMARK_CUDA_CHECK(cudaGetDevice(&current));
    expect(current == device,
           fmt::format("the request left device {} current, not {}", current, device));
    scene.give(block);
  }
  return "devices 1, 0 and 1 in turn";
}

std::string device_restored(Scene& scene) {
  int count = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDeviceCount(&count));
  if (count < 2) throw NotApplicable{"there is one device"};
  const auto look = [](const char* call, int asked, int wanted) {
    int current = -1;
    ALLOCMARK_CUDA_CHECK(cudaGetDevice(&current));
    expect(current == wanted,
           fmt::format("a {} for device {} while device {} was the current one left device {} the "
                       "current one",
                       call, asked, wanted, current));
  };
  for (const int asked : {1, 0}) {
    const int current = 1 - asked;
    ALLOCMARK_CUDA_CHECK(cudaSetDevice(current));
    scene.device = asked;
    std::vector<Block> blocks;
    for (const std::uint64_t size_bytes : {kMiB, 64 * kMiB, 4 * kKiB}) {
      blocks.push_back(scene.get(size_bytes));
      look("request", asked, current);
    }
    for (const Block& block : blocks) {
      scene.give(block);
      look("free", asked, current);
    }
  }
  return "requests and frees for the other device";
}

}  // namespace allocmark::conformance::checks

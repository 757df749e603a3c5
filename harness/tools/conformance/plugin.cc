#include "harness/tools/conformance/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "allocators/cuda/cuda_check.h"

namespace allocmark::conformance {
namespace {

template <typename Result, typename... Arguments>
void find(void* library, const std::string& symbol, std::function<Result(Arguments...)>& function) {
  if (symbol.empty()) return;
  void* const found = dlsym(library, symbol.c_str());
  if (found == nullptr) throw Broken{"it has no function " + symbol};
  function = reinterpret_cast<Result (*)(Arguments...)>(found);
}

}  // namespace

Plugin load_plugin(const PluggableConf& conf) {
  const bool bare = conf.library.find('/') == std::string::npos;
  const std::string path = (bare ? "./" : "") + conf.library;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Broken{std::string("it does not load: ") + dlerror()};
  Plugin plugin;
  find(library, conf.malloc_symbol, plugin.malloc);
  find(library, conf.free_symbol, plugin.free);
  find(library, conf.record_stream_symbol, plugin.record_stream);
  find(library, conf.trim_symbol, plugin.trim);
  find(library, conf.init_symbol, plugin.init);
  return plugin;
}

void expect(bool holds, const std::string& otherwise) {
  if (!holds) throw Broken{otherwise};
}

std::string text_of(const Block& block) {
  return fmt::format("request {} ({} bytes)", block.number, block.size_bytes);
}

std::optional<Block> LiveRanges::add(const Block& block) {
  const auto behind = blocks_.lower_bound(block.pointer);
  if (behind != blocks_.end() && behind->first < block.pointer + block.size_bytes) {
    return behind->second;
  }
  if (behind != blocks_.begin()) {
    const Block& before = std::prev(behind)->second;
    if (before.pointer + before.size_bytes > block.pointer) return before;
  }
  blocks_.emplace_hint(behind, block.pointer, block);
  return std::nullopt;
}

void LiveRanges::add_apart(const Block& block) {
  if (const auto other = add(block)) {
    throw Broken{
        fmt::format("{} got memory of {}, which is live", text_of(block), text_of(*other))};
  }
}

template <typename Call>
auto Scene::called(Call&& call) {
  struct Under {
    explicit Under(Scene& of) : scene(of) { ++scene.begun_count_; }
    ~Under() { ++scene.ended_count_; }
    Under(const Under&) = delete;
    Under& operator=(const Under&) = delete;
    Scene& scene;
  };
  const Under under(*this);
  return call();
}

Block Scene::try_get(std::uint64_t size_bytes, cudaStream_t stream) {
  Block block{.size_bytes = size_bytes, .stream = stream, .number = ++request_count_};
  block.pointer = called([&] {
    return static_cast<char*>(plugin.malloc(static_cast<ssize_t>(size_bytes), device, stream));
  });
  return block;
}

Block Scene::get(std::uint64_t size_bytes, cudaStream_t stream) {
  Block block = try_get(size_bytes, stream);
  if (block.pointer == nullptr) {
    throw Broken{fmt::format("{} got NULL with {} MiB of the device in use", text_of(block),
                             used_bytes() >> 20)};
  }
  return block;
}

void Scene::give(const Block& block) {
  called([&] {
    plugin.free(block.pointer, static_cast<ssize_t>(block.size_bytes), device, block.stream);
  });
}

void Scene::record(const Block& block, cudaStream_t stream) {
  called([&] { plugin.record_stream(block.pointer, stream); });
}

void Scene::give_all(std::vector<Block>& blocks) {
  for (const Block& block : blocks) give(block);
  blocks.clear();
}

void Scene::settle() {
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  if (plugin.trim != nullptr) called([&] { plugin.trim(); });
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
}

cudaStream_t Scene::make_stream() const {
  cudaStream_t stream = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

std::uint64_t Scene::used_bytes() const {
  if (simcu.present) return simcu.used_bytes() + simcu.pinned_bytes();
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return total_bytes - free_bytes;
}

void Scene::fill(const Block& block, unsigned char byte) const {
  if (unsigned char* const view = bytes(block); view != nullptr) {
    std::memset(view, byte, block.size_bytes);
    return;
  }
  ALLOCMARK_CUDA_CHECK(cudaMemsetAsync(block.pointer, byte, block.size_bytes, block.stream));
  ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(block.stream));
}

std::optional<std::uint64_t> Scene::find_other(const Block& block, unsigned char byte) const {
  std::vector<unsigned char> copy;
  const unsigned char* begin = bytes(block);
  if (begin == nullptr) {
    copy.resize(block.size_bytes);
    ALLOCMARK_CUDA_CHECK(cudaMemcpyAsync(copy.data(), block.pointer, block.size_bytes,
                                         cudaMemcpyDeviceToHost, block.stream));
    ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(block.stream));
    begin = copy.data();
  }
  // Most blocks are as they should be: each byte is the one before it, and the first is right.
  const std::uint64_t size_bytes = block.size_bytes;
  if (size_bytes == 0) return std::nullopt;
  if (*begin == byte && std::memcmp(begin, begin + 1, size_bytes - 1) == 0) return std::nullopt;
  return std::find_if(begin, begin + size_bytes, [&](unsigned char each) { return each != byte; }) -
         begin;
}

std::uint64_t Scene::total_bytes() const {
  if (claims.side == MemorySide::Host) {
    return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
           static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return total_bytes;
}

unsigned char* Scene::bytes(const Block& block) const {
  if (!claims.real_memory) return nullptr;
  if (claims.side == MemorySide::Host) {
    if (!is_pinned(block)) {
      throw Broken{fmt::format("{} got {}, which is not so much pinned memory of the host",
                               text_of(block), static_cast<const void*>(block.pointer))};
    }
    return reinterpret_cast<unsigned char*>(block.pointer);
  }
  if (!simcu.present) return nullptr;
  void* const view = simcu.view(block.pointer, block.size_bytes);
  if (view == nullptr) {
    throw Broken{fmt::format("{} got {}, which is not so much device memory", text_of(block),
                             static_cast<const void*>(block.pointer))};
  }
  return static_cast<unsigned char*>(view);
}

bool Scene::is_pinned(const Block& block) const {
  if (simcu.present) return simcu.pins(block.pointer, block.size_bytes);
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, block.pointer);
  (void)cudaGetLastError();
  return error == cudaSuccess && attributes.type == cudaMemoryTypeHost;
}

}  // namespace allocmark::conformance

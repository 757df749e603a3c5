#include "harness/simcuda/shim/images.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/memory_bytes.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {
namespace {

struct Image {
  CodeFacts facts;
  std::map<std::string, LoadedKernel*, std::less<>> kernels;
  std::map<std::pair<int, std::string>, std::uint64_t> variables;  // by device and name: address
  bool live = true;
};
struct Images {
  std::mutex mutex;
  std::deque<Image> images;
  std::deque<LoadedKernel> kernels;
  std::unordered_map<const void*, Image*> image_of;
  std::unordered_map<const void*, LoadedKernel*> kernel_of;
};
Images& images() { return made_once<Images>(); }

// With the lock held, as all below.
Image* live_image(const void* handle) {
  const auto found = images().image_of.find(handle);
  return found != images().image_of.end() && found->second->live ? found->second : nullptr;
}

LoadedKernel* live_kernel(const void* handle) {
  const auto found = images().kernel_of.find(handle);
  if (found == images().kernel_of.end()) return nullptr;
  return live_image(found->second->image) == nullptr ? nullptr : found->second;
}

LoadedKernel* kernel_in(Image& image, const std::string& name) {
  LoadedKernel*& kernel = image.kernels[name];
  if (kernel != nullptr) return kernel;
  Images& all = images();
  const auto known = std::ranges::find(image.facts.kernels, name, &KernelFacts::name);
  kernel = &all.kernels.emplace_back();
  kernel->image = &image;
  if (known != image.facts.kernels.end()) kernel->facts = *known;
  kernel->facts.name = name;
  kernel->architecture = image.facts.architecture;
  kernel->constant_bytes = image.facts.constant_bytes;
  all.kernel_of.emplace(kernel, kernel);
  return kernel;
}

bool has_kernel(const Image& image, std::string_view name) {
  return image.facts.kind == CodeFacts::Kind::Unread ||
         std::ranges::find(image.facts.kernels, name, &KernelFacts::name) !=
             image.facts.kernels.end();
}

}  // namespace

std::uint64_t place_variable(SimulatedDevice& device, const VariableFacts& variable) {
  std::uint64_t address = 0;
  {
    const std::lock_guard lock(device.mutex);
    const AllocationOutcome outcome = device.core.allocate(variable.size_bytes);
    if (outcome.status != Status::Ok) return 0;
    address = outcome.address;
  }
  const Bytes bytes = locate(reinterpret_cast<const void*>(address), variable.size_bytes);
  set_bytes(bytes, byte_value(0), {.width_bytes = variable.size_bytes});
  const std::size_t first_count = std::min(variable.first_bytes.size(), variable.size_bytes);
  std::copy_n(variable.first_bytes.data(), first_count, bytes.data);
  return address;
}

CUresult load_image(void** result, const void* data) {
  if (result == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CodeFacts facts = read_code(data);
  if (facts.kind == CodeFacts::Kind::None) return CUDA_ERROR_INVALID_IMAGE;
  Images& all = images();
  const std::lock_guard lock(all.mutex);
  Image& image = all.images.emplace_back();
  image.facts = std::move(facts);
  all.image_of.emplace(&image, &image);
  *result = &image;
  return CUDA_SUCCESS;
}

CUresult load_image_file(void** result, const char* path) {
  if (result == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return load_image(result, bytes.c_str());
}

CUresult unload_image(ThreadState& thread, const void* handle) {
  const std::lock_guard lock(images().mutex);
  Image* const image = live_image(handle);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  image->live = false;
  for (const auto& [place, address] : image->variables) {
    SimulatedDevice& device = *device_at(place.first);
    std::unique_lock lock_of_device(device.mutex);
    // After a reset of the device there is nothing to free.
    if (device.live_range(address).lo != address) continue;
    const Outcome outcome = wait_for_gates(device, lock_of_device, [&, at = address] {
      return device.core.deallocate(at, thread.now_ns());
    });
    charge_work(thread, device, outcome.work);
  }
  return CUDA_SUCCESS;
}

bool is_live_image(const void* image) {
  const std::lock_guard lock(images().mutex);
  return live_image(image) != nullptr;
}

CUresult find_kernel(void** result, const void* handle, const char* name) {
  if (result == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(images().mutex);
  Image* const image = live_image(handle);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!has_kernel(*image, name)) return CUDA_ERROR_NOT_FOUND;
  *result = kernel_in(*image, name);
  return CUDA_SUCCESS;
}

CUresult find_registered_kernel(void** result, const char* name) {
  const std::lock_guard lock(images().mutex);
  static Image* const unread = [] {
    Image& image = images().images.emplace_back();
    image.facts.kind = CodeFacts::Kind::Unread;
    images().image_of.emplace(&image, &image);
    return &image;
  }();
  *result = kernel_in(*unread, name);
  return CUDA_SUCCESS;
}

CUresult list_kernels(std::vector<void*>& result, const void* handle) {
  const std::lock_guard lock(images().mutex);
  Image* const image = live_image(handle);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (image->facts.kind == CodeFacts::Kind::Unread) return CUDA_ERROR_NOT_SUPPORTED;
  for (const KernelFacts& facts : image->facts.kernels) {
    result.push_back(kernel_in(*image, facts.name));
  }
  return CUDA_SUCCESS;
}

CUresult find_variable(ThreadState& thread, CUdeviceptr* address, std::size_t* size_bytes,
                       const void* handle, const char* name) {
  SimulatedDevice* const device = current_device(thread);
  if (name == nullptr || device == nullptr || (address == nullptr && size_bytes == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(images().mutex);
  Image* const image = live_image(handle);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto variable = std::ranges::find(image->facts.variables, name, &VariableFacts::name);
  if (variable == image->facts.variables.end()) return CUDA_ERROR_NOT_FOUND;
  std::uint64_t& place = image->variables[{device->index, variable->name}];
  if (place == 0) place = place_variable(*device, *variable);
  if (place == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (address != nullptr) *address = place;
  if (size_bytes != nullptr) *size_bytes = variable->size_bytes;
  return CUDA_SUCCESS;
}

std::optional<LoadedKernel> kernel_of(const void* handle) {
  const std::lock_guard lock(images().mutex);
  const LoadedKernel* const kernel = live_kernel(handle);
  return kernel == nullptr ? std::nullopt : std::optional(*kernel);
}

const char* kernel_name(const void* handle) {
  const std::lock_guard lock(images().mutex);
  const LoadedKernel* const kernel = live_kernel(handle);
  return kernel == nullptr ? nullptr : kernel->facts.name.c_str();
}

CUresult set_kernel(const void* handle, int attribute, int value) {
  const std::lock_guard lock(images().mutex);
  LoadedKernel* const kernel = live_kernel(handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  kernel->settings[attribute] = value;
  return CUDA_SUCCESS;
}

}  // namespace simcuda

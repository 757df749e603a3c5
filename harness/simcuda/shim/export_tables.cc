// Tables of functions that NVIDIA does not document, of runtime and driver. In: a table's id. Out:
// a table with the entries that cuBLAS and cuFFT use to keep their own data by context and stream.
// Every other entry says "not supported", and they go on without it.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <vector>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/images.h"

namespace simcuda {
namespace {

int refuse_entry() { return CUDA_ERROR_NOT_SUPPORTED; }

// The first word is the table's size in bytes. Entries that nobody sets refuse.
constexpr std::size_t kEntryCount = 63;
struct Table {
  std::size_t size_bytes = sizeof(Table);
  std::array<void*, kEntryCount> entries{};

  Table() { entries.fill(reinterpret_cast<void*>(&refuse_entry)); }
  // `index` counts the first word.
  template <class Function>
  Table& set(std::size_t index, Function* entry) {
    entries[index - 1] = reinterpret_cast<void*>(entry);
    return *this;
  }
};

// Which handle stands for the stream: every one stands for itself here.
CUresult stream_of_entry(CUcontext /*context*/, CUstream stream, CUstream* found,
                         int is_per_thread) {
  *found = stream == nullptr && is_per_thread != 0 ? CU_STREAM_PER_THREAD : stream;
  return CUDA_SUCCESS;
}

CUresult number_stream(CUcontext /*context*/, CUstream stream, unsigned long long* number) {
  return cuStreamGetId(stream, number);
}

// Tells `tell` each kernel of the module. Returns how many it has. An image that is not
// read (fat_binary.h) is taken to have one, as cuFFT's images do.
int each_kernel(void* /*context*/, const void* module, void (*tell)(void* data, void* kernel),
                void* data) {
  std::vector<void*> kernels;
  if (list_kernels(kernels, module) == CUDA_ERROR_NOT_SUPPORTED) {
    void* kernel = nullptr;
    if (find_kernel(&kernel, module, "of_a_compressed_image") == CUDA_SUCCESS)
      kernels.push_back(kernel);
  }
  for (void* const kernel : kernels) tell(data, kernel);
  return static_cast<int>(kernels.size());
}

constexpr std::array<unsigned char, sizeof(cudaUUID_t)> kCurrentContext = {
    0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc};
constexpr std::array<unsigned char, sizeof(cudaUUID_t)> kNumbers = {
    0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2};
constexpr std::array<unsigned char, sizeof(cudaUUID_t)> kModules = {
    0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e};

bool is(const cudaUUID_t& id, const std::array<unsigned char, sizeof(cudaUUID_t)>& known) {
  return std::memcmp(&id, known.data(), sizeof id) == 0;
}

const Table& find_table(const cudaUUID_t& id) {
  static const Table refusing;
  static const Table current = Table().set(2, &cuCtxGetCurrent);
  static const Table numbers =
      Table().set(4, &cuCtxGetId).set(39, &number_stream).set(51, &stream_of_entry);
  static const Table modules = Table().set(7, &each_kernel);
  if (is(id, kCurrentContext)) return current;
  if (is(id, kNumbers)) return numbers;
  return is(id, kModules) ? modules : refusing;
}

}  // namespace

// cuBLAS does not expect to get no table.
SIMCUDA_EXPORT cudaError_t cudaGetExportTable(const void** table, const cudaUUID_t* id) {
  return runtime_call<"cudaGetExportTable">({number(id)}, [&](ThreadState&) {
    if (table == nullptr || id == nullptr) return cudaErrorInvalidValue;
    *table = &find_table(*id);
    return cudaSuccess;
  });
}

// cuFFT asks the driver itself. Whoever asks for another table does without, as libnvrtc does, or
// gives up with an error, as a static runtime does.
SIMCUDA_EXPORT CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  return driver_call<"cuGetExportTable">({number(id)}, [&](ThreadState&) {
    if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const bool is_known = is(*id, kNumbers) || is(*id, kModules);
    *table = is_known ? &find_table(*id) : nullptr;
    return is_known ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
}

}  // namespace simcuda

// cudaGetExportTable: tables of functions that NVIDIA does not document. In: a table's id. Out: a
// table with the entries that cuBLAS uses to keep its own data by context and stream. Every other
// entry of every table says "not supported": cuBLAS goes on without it, but does not expect to get
// no table.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstring>

#include "harness/simcuda/shim/call.h"

namespace simcuda {
namespace {

int refuse_entry() { return CUDA_ERROR_NOT_SUPPORTED; }

// The first word is the table's size in bytes.
constexpr std::size_t kEntryCount = 63;
struct Table {
  std::size_t size_bytes = sizeof(Table);
  std::array<void*, kEntryCount> entries{};
};

Table refusing_table() {
  Table table;
  table.entries.fill(reinterpret_cast<void*>(&refuse_entry));
  return table;
}

// Which handle stands for the stream: every one stands for itself here.
CUresult stream_of_entry(CUcontext /*context*/, CUstream stream, CUstream* found,
                         int is_per_thread) {
  *found = stream == nullptr && is_per_thread != 0 ? CU_STREAM_PER_THREAD : stream;
  return CUDA_SUCCESS;
}

CUresult number_stream(CUcontext /*context*/, CUstream stream, unsigned long long* number) {
  return cuStreamGetId(stream, number);
}

// `index` counts the first word.
template <class Function>
void set_entry(Table& table, std::size_t index, Function* entry) {
  table.entries[index - 1] = reinterpret_cast<void*>(entry);
}

Table current_table() {
  Table table = refusing_table();
  set_entry(table, 2, &cuCtxGetCurrent);
  return table;
}

Table numbers_table() {
  Table table = refusing_table();
  set_entry(table, 4, &cuCtxGetId);
  set_entry(table, 39, &number_stream);
  set_entry(table, 51, &stream_of_entry);
  return table;
}

constexpr std::array<unsigned char, sizeof(cudaUUID_t)> kCurrentContext = {
    0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc};
constexpr std::array<unsigned char, sizeof(cudaUUID_t)> kNumbers = {
    0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2};

const Table& find_table(const cudaUUID_t& id) {
  static const Table current = current_table();
  static const Table numbers = numbers_table();
  static const Table refusing = refusing_table();
  if (std::memcmp(&id, kCurrentContext.data(), sizeof id) == 0) return current;
  return std::memcmp(&id, kNumbers.data(), sizeof id) == 0 ? numbers : refusing;
}

}  // namespace

SIMCUDA_EXPORT cudaError_t cudaGetExportTable(const void** table, const cudaUUID_t* id) {
  return runtime_call<"cudaGetExportTable">({number(id)}, [&](ThreadState&) {
    if (table == nullptr || id == nullptr) return cudaErrorInvalidValue;
    *table = &find_table(*id);
    return cudaSuccess;
  });
}

}  // namespace simcuda

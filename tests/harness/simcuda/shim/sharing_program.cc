// What a GPU answers about handles for other processes, a line each: on a GPU the lines made
// tests/golden/simcuda/sharing_*.txt (an H200, driver 580.159.04, 2026-11-27), and on simcuda
// sharing_test.py compares them with these.
//
// usage: sharing_program memory|pools|handles
// Processes are forked before the first call of CUDA. Nothing is said of bytes in use: on simcuda
// each process has a device of its own.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/harness/simcuda/shim/say.h"

namespace {

// Two pipes between parent and child: each tells the other how far it is.
class Link {
 public:
  Link() {
    if (pipe(up_) != 0 || pipe(down_) != 0) std::abort();
    std::fflush(stdout);
    child_ = fork();
    close(is_child() ? up_[0] : up_[1]);
    close(is_child() ? down_[1] : down_[0]);
  }
  [[nodiscard]] bool is_child() const { return child_ == 0; }
  void send(const void* data, std::size_t size_bytes) const {
    std::fflush(stdout);
    if (write(is_child() ? up_[1] : down_[1], data, size_bytes) < 0) _exit(3);
  }
  void receive(void* data, std::size_t size_bytes) const {
    if (read(is_child() ? down_[0] : up_[0], data, size_bytes) !=
        static_cast<ssize_t>(size_bytes)) {
      _exit(4);
    }
  }
  void tell() const { send("x", 1); }
  void wait() const {
    char got = 0;
    receive(&got, 1);
  }
  // The child ends; the parent says how.
  void end() const {
    std::fflush(stdout);
    if (is_child()) _exit(0);
    int status = -1;
    waitpid(child_, &status, 0);
    std::printf("child: %d\n", status);
  }

 private:
  int up_[2] = {};
  int down_[2] = {};
  pid_t child_ = 0;
};

std::string text_at(const void* pointer) {
  char text[16] = {};
  SAY(cudaMemcpy(text, pointer, sizeof text, cudaMemcpyDeviceToHost));
  text[sizeof text - 1] = 0;
  return text;
}

// A process's file, as a socket would have sent it.
int file_of(pid_t process, int file) {
  const long at = syscall(SYS_pidfd_open, process, 0);
  return static_cast<int>(syscall(SYS_pidfd_getfd, at, file, 0));
}

struct MemoryMessage {
  cudaIpcMemHandle_t memory{};
  cudaIpcEventHandle_t event{};
};

void open_in_child(const MemoryMessage& message, void** pointer) {
  void* again = nullptr;
  void* wrong = nullptr;
  SAY(cudaIpcOpenMemHandle(pointer, message.memory, cudaIpcMemLazyEnablePeerAccess));
  SAY(cudaIpcOpenMemHandle(&again, message.memory, cudaIpcMemLazyEnablePeerAccess));
  std::printf("same pointer: %d\n", *pointer == again);
  SAY(cudaIpcOpenMemHandle(&wrong, message.memory, 0));
  CUdeviceptr base = 0;
  std::size_t size_bytes = 0;
  SAY(cuMemGetAddressRange(&base, &size_bytes, reinterpret_cast<CUdeviceptr>(*pointer)));
  std::printf("offset %zu of %zu\n",
              static_cast<std::size_t>(reinterpret_cast<CUdeviceptr>(*pointer) - base), size_bytes);
  cudaPointerAttributes attributes{};
  SAY(cudaPointerGetAttributes(&attributes, *pointer));
  std::printf("type %d, device %d\n", attributes.type, attributes.device);
  std::printf("bytes: %s\n", text_at(*pointer).c_str());
  std::printf("farther: %s\n", text_at(static_cast<char*>(*pointer) + (1 << 20)).c_str());
  SAY(cudaMemset(static_cast<char*>(*pointer) + (2 << 20), 'C', 4 << 20));
  SAY(cudaMemcpy(*pointer, "from the child", 15, cudaMemcpyHostToDevice));
  cudaIpcMemHandle_t onwards{};
  SAY(cudaFree(*pointer));
  SAY(cudaIpcGetMemHandle(&onwards, *pointer));
  cudaEvent_t event = nullptr;
  SAY(cudaIpcOpenEventHandle(&event, message.event));
  SAY(cudaEventQuery(event));
  SAY(cudaEventDestroy(event));
}

void close_in_child(const MemoryMessage& message, void* pointer) {
  void* again = nullptr;
  std::printf("bytes after the free: %s\n", text_at(pointer).c_str());
  SAY(cudaIpcOpenMemHandle(&again, message.memory, cudaIpcMemLazyEnablePeerAccess));
  for (int i = 0; i < 4; ++i) SAY(cudaIpcCloseMemHandle(pointer));
  SAY(cudaIpcCloseMemHandle(reinterpret_cast<void*>(0x1234)));
  SAY(cudaIpcOpenMemHandle(&again, message.memory, cudaIpcMemLazyEnablePeerAccess));
  cudaIpcMemHandle_t junk{};
  SAY(cudaIpcOpenMemHandle(&again, junk, cudaIpcMemLazyEnablePeerAccess));
  std::memset(&junk, 0x5a, sizeof junk);
  SAY(cudaIpcOpenMemHandle(&again, junk, cudaIpcMemLazyEnablePeerAccess));
}

void say_refusals(char* block) {
  cudaIpcMemHandle_t handle{};
  void* host = nullptr;
  void* pooled = nullptr;
  void* managed = nullptr;
  SAY(cudaMallocHost(&host, 4096));
  SAY(cudaMallocAsync(&pooled, 1 << 20, nullptr));
  SAY(cudaDeviceSynchronize());
  SAY(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal));
  SAY(cudaIpcGetMemHandle(&handle, host));
  SAY(cudaIpcGetMemHandle(&handle, pooled));
  SAY(cudaIpcGetMemHandle(&handle, managed));
  SAY(cudaIpcGetMemHandle(&handle, nullptr));
  SAY(cudaIpcGetMemHandle(&handle, reinterpret_cast<void*>(0x777)));
  void* own = nullptr;
  SAY(cudaIpcGetMemHandle(&handle, block));
  SAY(cudaIpcOpenMemHandle(&own, handle, cudaIpcMemLazyEnablePeerAccess));
  SAY(cudaIpcCloseMemHandle(block));
}

cudaEvent_t say_events(MemoryMessage* message) {
  cudaEvent_t plain = nullptr;
  cudaEvent_t timed = nullptr;
  cudaEvent_t event = nullptr;
  SAY(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
  SAY(cudaIpcGetEventHandle(&message->event, plain));
  SAY(cudaEventCreateWithFlags(&timed, cudaEventInterprocess));
  SAY(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  SAY(cudaIpcGetEventHandle(&message->event, event));
  SAY(cudaEventRecord(event, nullptr));
  SAY(cudaDeviceSynchronize());
  return event;
}

void share_memory() {
  const Link link;
  MemoryMessage message;
  if (link.is_child()) {
    link.receive(&message, sizeof message);
    void* pointer = nullptr;
    open_in_child(message, &pointer);
    link.tell();
    link.wait();
    close_in_child(message, pointer);
    link.tell();
    link.end();
  }
  char* block = nullptr;
  char* small = nullptr;
  SAY(cudaMalloc(reinterpret_cast<void**>(&block), 40 << 20));
  SAY(cudaMalloc(reinterpret_cast<void**>(&small), 5000));
  SAY(cudaMemcpy(block, "from the parent", 16, cudaMemcpyHostToDevice));
  cudaIpcMemHandle_t inner{};
  SAY(cudaIpcGetMemHandle(&message.memory, block));
  SAY(cudaIpcGetMemHandle(&inner, block + 512));
  SAY(cudaMemset(block + (1 << 20), 'P', 16 << 20));
  std::printf("the same from within: %d\n",
              std::memcmp(&message.memory, &inner, sizeof inner) == 0);
  say_refusals(block);
  say_events(&message);
  link.send(&message, sizeof message);
  link.wait();
  std::printf("the parent's bytes: %s\n", text_at(block).c_str());
  std::printf("farther: %s\n", text_at(block + (3 << 20)).c_str());
  SAY(cudaFree(block));
  void* next = nullptr;
  SAY(cudaMalloc(&next, 40 << 20));
  SAY(cudaMemset(next, 0, 40 << 20));
  link.tell();
  link.wait();
  link.end();
}

struct PoolMessage {
  pid_t process = 0;
  int file = -1;
  cudaMemPoolPtrExportData block{};
};

void use_pool_in_child(const PoolMessage& message) {
  const int file = file_of(message.process, message.file);
  cudaMemPool_t pool = nullptr;
  SAY(cudaMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(std::size_t(file)),
                                           cudaMemHandleTypePosixFileDescriptor, 0));
  void* pointer = nullptr;
  void* again = nullptr;
  cudaMemPoolPtrExportData block = message.block;
  SAY(cudaMemPoolImportPointer(&pointer, pool, &block));
  SAY(cudaMemPoolImportPointer(&again, pool, &block));
  std::printf("same pointer: %d\n", pointer == again);
  cudaMemAccessDesc access{};
  access.location = {cudaMemLocationTypeDevice, 0};
  access.flags = cudaMemAccessFlagsProtReadWrite;
  SAY(cudaMemPoolSetAccess(pool, &access, 1));
  std::printf("bytes: %s\n", text_at(pointer).c_str());
  void* more = nullptr;
  int onwards = -1;
  SAY(cudaMallocFromPoolAsync(&more, 1 << 20, pool, nullptr));
  SAY(cudaMemPoolExportToShareableHandle(&onwards, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  SAY(cudaMemPoolExportPointer(&block, pointer));
  std::size_t value = 0;
  SAY(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &value));
  SAY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
  SAY(cudaMemPoolTrimTo(pool, 0));
  SAY(cudaFreeAsync(pointer, nullptr));
  SAY(cudaDeviceSynchronize());
  SAY(cudaFree(pointer));
  SAY(cudaMemPoolDestroy(pool));
}

void say_pool_refusals(cudaMemPool_t pool, char* block) {
  int file = -1;
  cudaMemPool_t other = nullptr;
  cudaMemPoolPtrExportData data{};
  void* others_block = nullptr;
  void* malloced = nullptr;
  SAY(cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypePosixFileDescriptor, 1));
  SAY(cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypeFabric, 0));
  SAY(cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypeNone, 0));
  SAY(cudaDeviceGetDefaultMemPool(&other, 0));
  SAY(cudaMemPoolExportToShareableHandle(&file, other, cudaMemHandleTypePosixFileDescriptor, 0));
  SAY(cudaMallocAsync(&others_block, 1 << 20, nullptr));
  SAY(cudaMalloc(&malloced, 4096));
  SAY(cudaMemPoolExportPointer(&data, block + 512));
  SAY(cudaMemPoolExportPointer(&data, others_block));
  SAY(cudaMemPoolExportPointer(&data, malloced));
  SAY(cudaMemPoolExportPointer(nullptr, block));
  SAY(cudaMemPoolImportFromShareableHandle(&other, nullptr, cudaMemHandleTypePosixFileDescriptor,
                                           0));
  SAY(cudaMemPoolImportFromShareableHandle(&other, reinterpret_cast<void*>(std::size_t(9999)),
                                           cudaMemHandleTypePosixFileDescriptor, 0));
}

void share_pool() {
  const Link link;
  PoolMessage message;
  if (link.is_child()) {
    link.receive(&message, sizeof message);
    use_pool_in_child(message);
    link.tell();
    link.end();
  }
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  cudaMemPool_t pool = nullptr;
  char* block = nullptr;
  SAY(cudaMemPoolCreate(&pool, &properties));
  SAY(cudaMallocFromPoolAsync(reinterpret_cast<void**>(&block), 5 << 20, pool, nullptr));
  SAY(cudaMemcpy(block, "from a pool", 12, cudaMemcpyHostToDevice));
  SAY(cudaMemPoolExportToShareableHandle(&message.file, pool, cudaMemHandleTypePosixFileDescriptor,
                                         0));
  SAY(cudaMemPoolExportPointer(&message.block, block));
  say_pool_refusals(pool, block);
  cudaMemPool_t own = nullptr;
  void* alias = nullptr;
  SAY(cudaMemPoolImportFromShareableHandle(&own, reinterpret_cast<void*>(std::size_t(message.file)),
                                           cudaMemHandleTypePosixFileDescriptor, 0));
  SAY(cudaMemPoolImportPointer(&alias, own, &message.block));
  std::printf("own pool: %d, own pointer: %d\n", own == pool, alias == block);
  message.process = getpid();
  link.send(&message, sizeof message);
  link.wait();
  SAY(cudaFreeAsync(block, nullptr));
  SAY(cudaDeviceSynchronize());
  SAY(cudaMemPoolDestroy(pool));
  link.end();
}

void map_and_say(CUmemGenericAllocationHandle handle) {
  CUdeviceptr address = 0;
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  SAY(cuMemAddressReserve(&address, 2 << 20, 0, 0, 0));
  SAY(cuMemMap(address, 2 << 20, 0, handle, 0));
  SAY(cuMemSetAccess(address, 2 << 20, &access, 1));
  std::printf("bytes: %s\n", text_at(reinterpret_cast<void*>(address)).c_str());
  SAY(cudaMemcpy(reinterpret_cast<void*>(address), "through a map", 14, cudaMemcpyHostToDevice));
}

void share_handle() {
  const Link link;
  PoolMessage message;
  if (link.is_child()) {
    link.receive(&message, sizeof message);
    SAY(cudaFree(nullptr));
    CUmemGenericAllocationHandle handle = 0;
    SAY(cuMemImportFromShareableHandle(
        &handle, reinterpret_cast<void*>(std::size_t(file_of(message.process, message.file))),
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    map_and_say(handle);
    link.tell();
    link.end();
  }
  SAY(cudaFree(nullptr));
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle plain = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUmemGenericAllocationHandle other = 0;
  int file = -1;
  SAY(cuMemCreate(&plain, 2 << 20, &properties, 0));
  SAY(cuMemExportToShareableHandle(&file, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  SAY(cuMemCreate(&handle, 2 << 20, &properties, 0));
  map_and_say(handle);
  SAY(cuMemExportToShareableHandle(&message.file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                   0));
  SAY(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
  SAY(cuMemImportFromShareableHandle(&other, reinterpret_cast<void*>(std::size_t(message.file)),
                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CUmemAllocationProp got{};
  SAY(cuMemGetAllocationPropertiesFromHandle(&got, other));
  std::printf("same handle: %d, its types: %d\n", other == handle,
              static_cast<int>(got.requestedHandleTypes));
  SAY(cuMemRelease(other));
  SAY(cuMemImportFromShareableHandle(&other, nullptr, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  SAY(cuMemImportFromShareableHandle(&other, reinterpret_cast<void*>(std::size_t(9999)),
                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  message.process = getpid();
  link.send(&message, sizeof message);
  link.wait();
  SAY(cuMemRelease(handle));
  SAY(cuMemExportToShareableHandle(&file, plain, CU_MEM_HANDLE_TYPE_FABRIC, 0));
  link.end();
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count == 2 ? arguments[1] : "";
  if (what == "memory") {
    share_memory();
  } else if (what == "pools") {
    share_pool();
  } else if (what == "handles") {
    share_handle();
  } else {
    std::fprintf(stderr, "usage: sharing_program memory|pools|handles\n");
    return 2;
  }
  return 0;
}

// Logs the duration of every memory call of a program: LD_PRELOAD=calls.so CALLS_LOG=FILE program.
// One binary record per call; written when the process ends.
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

struct Record {
  uint64_t begin_ticks;
  uint32_t duration_ticks;
  uint16_t api;
  uint16_t error;
  uint64_t argument;  // size or address
  uint64_t result;    // address
};
enum { kMax = 400000 };
static struct Record* records;
static uint64_t count;
enum { Malloc, Free, MallocAsync, FreeAsync, DeviceSync, StreamSync, Reserve, AddressFree, Create, Release, Map, Unmap, Access, MemInfo, Trim, EventRecord, EventQuery, LastError, IsCapturing };

// The log is a shared mapping of a sparse file, so that nothing is lost where a process ends without destructors.
__attribute__((constructor)) static void begin(void) {
  const char* folder = getenv("CALLS_LOG");
  if (!folder) return;
  char name[500];
  snprintf(name, sizeof name, "%s.%d", folder, (int)getpid());
  int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ftruncate(file, (off_t)kMax * (off_t)sizeof *records)) return;
  records = mmap(NULL, (size_t)kMax * sizeof *records, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  if (records == MAP_FAILED) records = NULL;
}
static void add(int api, uint64_t begin_ticks, int error, uint64_t argument, uint64_t result) {
  uint64_t now = __rdtsc();
  if (!records || count >= kMax) return;
  records[count++] = (struct Record){begin_ticks, (uint32_t)(now - begin_ticks), (uint16_t)api, (uint16_t)error, argument, result};
}
#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, #name)

cudaError_t cudaMalloc(void** p, size_t n) { REAL(cudaMalloc); uint64_t t = __rdtsc(); cudaError_t e = real(p, n); add(Malloc, t, e, n, (uint64_t)*p); return e; }
cudaError_t cudaFree(void* p) { REAL(cudaFree); uint64_t t = __rdtsc(); cudaError_t e = real(p); add(Free, t, e, (uint64_t)p, 0); return e; }
cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t s) { REAL(cudaMallocAsync); uint64_t t = __rdtsc(); cudaError_t e = real(p, n, s); add(MallocAsync, t, e, n, (uint64_t)*p); return e; }
cudaError_t cudaMallocFromPoolAsync(void** p, size_t n, cudaMemPool_t pool, cudaStream_t s) { REAL(cudaMallocFromPoolAsync); uint64_t t = __rdtsc(); cudaError_t e = real(p, n, pool, s); add(MallocAsync, t, e, n, (uint64_t)*p); return e; }
cudaError_t cudaFreeAsync(void* p, cudaStream_t s) { REAL(cudaFreeAsync); uint64_t t = __rdtsc(); cudaError_t e = real(p, s); add(FreeAsync, t, e, (uint64_t)p, 0); return e; }
cudaError_t cudaDeviceSynchronize(void) { REAL(cudaDeviceSynchronize); uint64_t t = __rdtsc(); cudaError_t e = real(); add(DeviceSync, t, e, 0, 0); return e; }
cudaError_t cudaStreamSynchronize(cudaStream_t s) { REAL(cudaStreamSynchronize); uint64_t t = __rdtsc(); cudaError_t e = real(s); add(StreamSync, t, e, 0, 0); return e; }
cudaError_t cudaMemGetInfo(size_t* a, size_t* b) { REAL(cudaMemGetInfo); uint64_t t = __rdtsc(); cudaError_t e = real(a, b); add(MemInfo, t, e, *a, 0); return e; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t q, size_t n) { REAL(cudaMemPoolTrimTo); uint64_t t = __rdtsc(); cudaError_t e = real(q, n); add(Trim, t, e, n, 0); return e; }
cudaError_t cudaEventRecord(cudaEvent_t q, cudaStream_t s) { REAL(cudaEventRecord); uint64_t t = __rdtsc(); cudaError_t e = real(q, s); add(EventRecord, t, e, 0, 0); return e; }
cudaError_t cudaEventQuery(cudaEvent_t q) { REAL(cudaEventQuery); uint64_t t = __rdtsc(); cudaError_t e = real(q); add(EventQuery, t, e, 0, 0); return e; }

static __typeof__(&cuMemAddressReserve) real_reserve;
static __typeof__(&cuMemAddressFree) real_address_free;
static __typeof__(&cuMemCreate) real_create;
static __typeof__(&cuMemRelease) real_release;
static __typeof__(&cuMemMap) real_map;
static __typeof__(&cuMemUnmap) real_unmap;
static __typeof__(&cuMemSetAccess) real_access;
static CUresult w_reserve(CUdeviceptr* p, size_t n, size_t a, CUdeviceptr x, unsigned long long f) { uint64_t t = __rdtsc(); CUresult e = real_reserve(p, n, a, x, f); add(Reserve, t, e, n, *p); return e; }
static CUresult w_address_free(CUdeviceptr p, size_t n) { uint64_t t = __rdtsc(); CUresult e = real_address_free(p, n); add(AddressFree, t, e, n, p); return e; }
static CUresult w_create(CUmemGenericAllocationHandle* h, size_t n, const CUmemAllocationProp* q, unsigned long long f) { uint64_t t = __rdtsc(); CUresult e = real_create(h, n, q, f); add(Create, t, e, n, *h); return e; }
static CUresult w_release(CUmemGenericAllocationHandle h) { uint64_t t = __rdtsc(); CUresult e = real_release(h); add(Release, t, e, h, 0); return e; }
static CUresult w_map(CUdeviceptr p, size_t n, size_t o, CUmemGenericAllocationHandle h, unsigned long long f) { uint64_t t = __rdtsc(); CUresult e = real_map(p, n, o, h, f); add(Map, t, e, n, p); return e; }
static CUresult w_unmap(CUdeviceptr p, size_t n) { uint64_t t = __rdtsc(); CUresult e = real_unmap(p, n); add(Unmap, t, e, n, p); return e; }
static CUresult w_access(CUdeviceptr p, size_t n, const CUmemAccessDesc* d, size_t k) { uint64_t t = __rdtsc(); CUresult e = real_access(p, n, d, k); add(Access, t, e, n, p); return e; }

static void wrap(const char* name, void** f) {
#define WRAP(text, wrapper, original) if (!strcmp(name, text) && *f && *f != (void*)wrapper) { original = (__typeof__(original))*f; *f = (void*)wrapper; }
  WRAP("cuMemAddressReserve", w_reserve, real_reserve)
  WRAP("cuMemAddressFree", w_address_free, real_address_free)
  WRAP("cuMemCreate", w_create, real_create)
  WRAP("cuMemRelease", w_release, real_release)
  WRAP("cuMemMap", w_map, real_map)
  WRAP("cuMemUnmap", w_unmap, real_unmap)
  WRAP("cuMemSetAccess", w_access, real_access)
}
#if CUDART_VERSION < 13000
cudaError_t cudaGetDriverEntryPoint(const char* name, void** f, unsigned long long flags, enum cudaDriverEntryPointQueryResult* q) { REAL(cudaGetDriverEntryPoint); cudaError_t e = real(name, f, flags, q); wrap(name, f); return e; }
#endif
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** f, unsigned int v, unsigned long long flags, enum cudaDriverEntryPointQueryResult* q) { REAL(cudaGetDriverEntryPointByVersion); cudaError_t e = real(name, f, v, flags, q); wrap(name, f); return e; }

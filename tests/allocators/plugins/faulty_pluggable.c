// Allocators with PyTorch's pluggable interface that do one thing wrong each, for the tests of what
// catches them. Every fault is a pair of functions; while the library is loaded it can also crash
// or hang. One thread only.
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

// As a daemon does: gone from our group and our terminal, with all else that we had open.
static void leave_daemon(void) {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  for (int fd = 0; fd < 3; ++fd) close(fd);
  sleep(6);
  _exit(0);
}

__attribute__((constructor)) static void misbehave_while_loaded(void) {
  const char* const how = getenv("FAULTY_PLUGGABLE_LOAD");
  if (how != NULL && strncmp(how, "daemon", 6) == 0) leave_daemon();
  if (how != NULL && strstr(how, "crash") != NULL) abort();
  if (how != NULL && strcmp(how, "hang") == 0) sleep(3600);
}

static void* device_malloc(ssize_t size) {
  void* pointer = NULL;
  if (cudaMalloc(&pointer, (size_t)size) != cudaSuccess) {
    return NULL;
  }
  return pointer;
}

void good_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  (void)size, (void)device, (void)stream;
  (void)cudaFree(pointer);
}

// One call of thirty takes 200 ms: what a thread shows that was preempted meanwhile.
void* stall_malloc(ssize_t size, int device, cudaStream_t stream) {
  enum { kPeriod = 30, kStalledCall = 25, kStallMs = 200 };
  static int count = 0;
  (void)device, (void)stream;
  if (++count % kPeriod == kStalledCall) {
    struct timespec begin, now;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
      (void)clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 <
             kStallMs);
  }
  return device_malloc(size);
}

// Every tenth block begins inside the one before it.
void* overlap_malloc(ssize_t size, int device, cudaStream_t stream) {
  static int count = 0;
  static char* last = NULL;
  (void)device, (void)stream;
  if (++count % 10 != 0 || last == NULL)
    last = (char*)device_malloc(size);
  else
    last += 256;
  return last;
}

// Addresses that are no multiple of 16.
void* misaligned_malloc(ssize_t size, int device, cudaStream_t stream) {
  (void)device, (void)stream;
  char* const pointer = (char*)device_malloc(size + 8);
  return pointer == NULL ? NULL : pointer + 8;
}
void misaligned_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  good_free((char*)pointer - 8, size, device, stream);
}

// Host memory.
void* host_malloc(ssize_t size, int device, cudaStream_t stream) {
  (void)device, (void)stream;
  return aligned_alloc(256, ((size_t)size + 255) / 256 * 256);
}
void host_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  (void)size, (void)device, (void)stream;
  free(pointer);
}

// Nothing, ever, and without asking the runtime: what a library that brings its own static runtime
// looks like on a simulated device.
void* null_malloc(ssize_t size, int device, cudaStream_t stream) {
  (void)size, (void)device, (void)stream;
  return NULL;
}

void* crash_malloc(ssize_t size, int device, cudaStream_t stream) {
  static int count = 0;
  (void)device, (void)stream;
  if (++count == 5) abort();
  return device_malloc(size);
}

void* good_malloc(ssize_t size, int device, cudaStream_t stream) {
  (void)device, (void)stream;
  return device_malloc(size);
}
void never_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  (void)pointer, (void)size, (void)device, (void)stream;
}

// One freed block is kept and goes to the next request of its size, whatever stream that is on and
// whatever still runs.
static void* kept_pointer = NULL;
static ssize_t kept_size = 0;
void* careless_malloc(ssize_t size, int device, cudaStream_t stream) {
  (void)device, (void)stream;
  if (kept_pointer == NULL || kept_size != size) return device_malloc(size);
  void* const pointer = kept_pointer;
  kept_pointer = NULL;
  return pointer;
}
void careless_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  if (kept_pointer != NULL) good_free(kept_pointer, kept_size, device, stream);
  kept_pointer = pointer;
  kept_size = size;
}

// As careless, but a block that somebody wrote into goes back to the device: what allocators are
// like that see their users' work. With the last block everything goes back.
static int watched_count = 0;
void* watching_malloc(ssize_t size, int device, cudaStream_t stream) {
  void* const pointer = careless_malloc(size, device, stream);
  if (pointer == NULL) return NULL;
  ++watched_count;
  (void)cudaMemset(pointer, 0, (size_t)size < 8 ? (size_t)size : 8);
  return pointer;
}
void watching_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  unsigned long long word = 0;
  const size_t bytes = (size_t)size < sizeof word ? (size_t)size : sizeof word;
  const int read = cudaMemcpy(&word, pointer, bytes, cudaMemcpyDeviceToHost) == cudaSuccess;
  if (read && word == 0)
    careless_free(pointer, size, device, stream);
  else
    good_free(pointer, size, device, stream);
  if (--watched_count != 0 || kept_pointer == NULL) return;
  good_free(kept_pointer, kept_size, device, stream);
  kept_pointer = NULL;
}

// Writes one byte into the middle of the block handed out before, as an allocator does whose
// bookkeeping lies in the wrong place.
void* scribble_malloc(ssize_t size, int device, cudaStream_t stream) {
  static char* before = NULL;
  static ssize_t before_size = 0;
  (void)device;
  if (before != NULL) (void)cudaMemsetAsync(before + before_size / 2, 0x5A, 1, stream);
  before = (char*)device_malloc(size);
  before_size = size;
  return before;
}

// Works, and asks for something that the simulated runtime lacks.
void* unimplemented_malloc(ssize_t size, int device, cudaStream_t stream) {
  void* pointer = NULL;
  (void)device;
  (void)cudaDestroyTextureObject(0);
  (void)cudaGetLastError();
  return cudaMallocAsync(&pointer, (size_t)size, stream) == cudaSuccess ? pointer : NULL;
}
void unimplemented_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  (void)size;
  (void)device;
  (void)cudaFreeAsync(pointer, stream);
}

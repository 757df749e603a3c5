// Allocators with PyTorch's pluggable interface that are alike but for one known thing: some are
// slower by a known amount of work, one places a single block elsewhere. For the tests and
// experiments that ask whether comparisons find what was put in. One thread only; not for use.
//
// Blocks come from slabs, are rounded up to a power of two and go back to a list of their size, so
// that almost no request asks the device and host time is nearly all there is. Every request does a
// fixed chain of dependent steps, every 50th a 20 times longer one: the P99 lies among those.
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

enum { kClassCount = 48, kMinShift = 9, kListMax = 1 << 16, kSlowEvery = 50 };
static const size_t kSlabBytes = (size_t)8 << 30;

// Steps of a request, of the slow ones, and how many more of each the slowed variants do. One step
// takes about a nanosecond.
enum { kSteps = 150, kSlowSteps = 4000 };

enum { kSlabMax = 64 };
static void* slabs[kSlabMax];
static int slab_count = 0;
static char* slab = NULL;
static size_t slab_left = 0;
static void* lists[kClassCount][kListMax];
static int list_counts[kClassCount];
static unsigned request_count = 0;
static volatile uint64_t sink = 1;

// Called at the end of every pass, which finds the library as the one before did.
void paced_trim(void) {
  while (slab_count > 0) (void)cudaFree(slabs[--slab_count]);
  slab_left = 0;
  request_count = 0;
  for (int i = 0; i < kClassCount; ++i) list_counts[i] = 0;
}

static void work(int step_count) {
  uint64_t x = sink;
  for (int i = 0; i < step_count; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  sink = x | 1;
}

static int class_of(size_t size) {
  int class_index = 0;
  while (class_index + 1 < kClassCount && ((size_t)1 << (class_index + kMinShift)) < size)
    ++class_index;
  return class_index;
}

static void* take(size_t size, size_t skip) {
  const int class_index = class_of(size);
  if (list_counts[class_index] > 0) return lists[class_index][--list_counts[class_index]];
  const size_t bytes = ((size_t)1 << (class_index + kMinShift));
  if (bytes + skip > slab_left) {
    const size_t want = bytes + skip > kSlabBytes ? bytes + skip : kSlabBytes;
    void* pointer = NULL;
    if (slab_count == kSlabMax || cudaMalloc(&pointer, want) != cudaSuccess) return NULL;
    slabs[slab_count++] = pointer;
    slab = (char*)pointer;
    slab_left = want;
  }
  void* const block = slab + skip;
  slab += bytes + skip;
  slab_left -= bytes + skip;
  return block;
}

static void* paced(ssize_t size, int step_count, int slow_step_count) {
  work(++request_count % kSlowEvery == 0 ? slow_step_count : step_count);
  return take((size_t)size, 0);
}

void* base_malloc(ssize_t size, int device, cudaStream_t stream) {
  (void)device, (void)stream;
  return paced(size, kSteps, kSlowSteps);
}

// Steps that PACED_EXTRA_STEPS and PACED_EXTRA_SLOW_STEPS name, read once.
static int extra(const char* name) {
  const char* const text = getenv(name);
  return text == NULL ? 0 : atoi(text);
}
void* slowed_malloc(ssize_t size, int device, cudaStream_t stream) {
  static int steps = -1, slow_steps = 0;
  (void)device, (void)stream;
  if (steps < 0) {
    steps = kSteps + extra("PACED_EXTRA_STEPS");
    slow_steps = kSlowSteps + extra("PACED_EXTRA_SLOW_STEPS");
  }
  return paced(size, steps, slow_steps);
}

// The third request's block begins 512 bytes further.
void* moved_malloc(ssize_t size, int device, cudaStream_t stream) {
  (void)device, (void)stream;
  work(++request_count % kSlowEvery == 0 ? kSlowSteps : kSteps);
  return take((size_t)size, request_count == 3 ? 512 : 0);
}

void base_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  (void)device, (void)stream;
  const int class_index = class_of((size_t)size);
  if (list_counts[class_index] < kListMax) lists[class_index][list_counts[class_index]++] = pointer;
}

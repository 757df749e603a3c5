// The example plugin with one fault planted into it, chosen by FAULT: what a gate must find. 1: every
// request spins; 2: every request takes more memory than was asked for; 3: every request waits for
// the device; 4: every hundredth request fails, in other places in every pass; 5: it crashes.
#define my_malloc example_malloc
#include "allocators/examples/pluggable_example.c"
#undef my_malloc

#include <stdlib.h>
#include <time.h>

static void spin(long wanted_ns) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < wanted_ns);
}

void* my_malloc(ssize_t size, int device, cudaStream_t stream) {
  static long count = 0;
  ++count;
  if (FAULT == 1) {
    spin(2000);
  }
  if (FAULT == 2) {
    size += size / 4 + (1 << 20);
  }
  if (FAULT == 3) {
    (void)cudaStreamSynchronize(stream);
  }
  if (FAULT == 4 && count % 100 == 0) {
    return NULL;
  }
  if (FAULT == 5 && count == 1000) {
    abort();
  }
  return example_malloc(size, device, stream);
}

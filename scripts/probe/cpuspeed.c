// Speed of each CPU over time: rounds over all CPUs, each pinned, timing fixed work: a dependent chain of multiplications
// (clock frequency), independent additions (a busy sibling shows), atomics, and a pointer chase in 1 MiB (L2).
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <x86intrin.h>
static uint64_t chase[131072];
static volatile uint64_t sink;
int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 20;
  int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
  for (int i = 0; i < 131072; i++) chase[i] = (uint64_t)((i + 8 * 5077) % 131072);
  for (int r = 0; r < rounds; r++) {
    for (int c = 0; c < cpus; c++) {
      cpu_set_t s; CPU_ZERO(&s); CPU_SET(c, &s);
      if (sched_setaffinity(0, sizeof s, &s)) continue;
      uint64_t t[5];
      uint64_t x = 3; t[0] = __rdtsc();
      for (int i = 0; i < 200000; i++) { x = x * x + 1; __asm__ volatile("" : "+r"(x)); }
      t[1] = __rdtsc();
      uint64_t a = 1, b = 2, d = 3, e = 4;
      for (int i = 0; i < 200000; i++) { a += i; b ^= a; d += i; e ^= d; __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(d), "+r"(e)); }
      t[2] = __rdtsc();
      static int lock;
      for (int i = 0; i < 20000; i++) __atomic_fetch_add(&lock, 1, __ATOMIC_SEQ_CST);
      t[3] = __rdtsc();
      uint64_t p = 0; for (int i = 0; i < 50000; i++) p = chase[p];
      t[4] = __rdtsc();
      sink = x + a + b + d + e + p;
      printf("%d %d %.3f %.3f %.2f %.2f\n", r, c, (t[1] - t[0]) / 200000.0, (t[2] - t[1]) / 200000.0, (t[3] - t[2]) / 20000.0, (t[4] - t[3]) / 50000.0);
    }
  }
}

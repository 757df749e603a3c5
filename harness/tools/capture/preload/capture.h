/* What the capture library offers to the program that it is loaded into, and to the plugin that
   listens to PyTorch's allocator. Plain C: both find it at run time. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Records from here on into files of `folder`, which exists. 0, or -1 where recording is on already
   or the folder cannot be used. LD_PRELOAD with ALLOCMARK_CAPTURE=FOLDER does the same from the
   program's start. */
int allocmark_capture_begin(const char* folder);

/* A step boundary in every trace that this process writes. Nothing where nobody records. */
void allocmark_capture_mark(const char* label);

/* How PyTorch's allocator calls what it does; other numbers are ignored. */
enum AllocmarkCaptureAction {
  kAllocmarkCaptureAlloc = 0,
  kAllocmarkCaptureFreeRequested = 1,
  kAllocmarkCaptureFreeCompleted = 2,
  kAllocmarkCaptureOutOfMemory = 3,
  kAllocmarkCaptureOther = 4,
};

typedef struct AllocmarkCaptureEntry {
  int action; /* AllocmarkCaptureAction */
  int device;
  uint64_t address;    /* not of OutOfMemory */
  uint64_t size_bytes; /* as the program asked */
  uint64_t stream;     /* the raw cudaStream_t */
  uint64_t pool[2];    /* the private pool's id; 0 and 0: none */
  int knows_pool;      /* 0: this PyTorch does not say the pool of a request */
} AllocmarkCaptureEntry;

/* What a program does with a private pool of PyTorch, a graph's or its own. */
enum AllocmarkCapturePoolAction {
  kAllocmarkCapturePoolCreate = 0,
  kAllocmarkCapturePoolBegin = 1, /* requests go to it */
  kAllocmarkCapturePoolEnd = 2,   /* no more */
  kAllocmarkCapturePoolRelease = 3,
  kAllocmarkCapturePoolUseOnOom = 4,
  kAllocmarkCapturePoolNoSplit = 5,
  kAllocmarkCapturePoolEmpty = 6, /* empty_cache; pool 0 and 0: of everything */
};

typedef struct AllocmarkCapturePoolCall {
  int action;       /* AllocmarkCapturePoolAction */
  int device;       /* -1: of all */
  uint64_t pool[2]; /* the pool's id */
  int is_on;        /* of UseOnOom */
} AllocmarkCapturePoolCall;

/* Where the plugin hands over what it hears. */
typedef struct AllocmarkCaptureSink {
  void (*entry)(const AllocmarkCaptureEntry* entry);
  /* A block that was live when listening began, as its alloc entry would have been. */
  void (*live)(const AllocmarkCaptureEntry* entry);
  void (*pool)(const AllocmarkCapturePoolCall* call);
} AllocmarkCaptureSink;

enum AllocmarkCaptureAttach {
  kAllocmarkCaptureAttached = 0,
  kAllocmarkCaptureNotReady = 1,     /* PyTorch's allocator is not initialised yet: ask again */
  kAllocmarkCaptureOtherBackend = 2, /* cudaMallocAsync or a pluggable allocator: no history */
  kAllocmarkCaptureWithoutPools = 3, /* attached, and calls of pools and of empty_cache not heard */
};

/* The one symbol of the plugin: begins to listen, then tells all live blocks. Its number changes
   with what is above. */
int allocmark_torch_capture_attach_2(const AllocmarkCaptureSink* sink);

#ifdef __cplusplus
}
#endif

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
  kAllocmarkCaptureSegmentReturned = 3, /* to the device: freed or unmapped */
  kAllocmarkCaptureOutOfMemory = 4,
  kAllocmarkCaptureOther = 5,
};

typedef struct AllocmarkCaptureEntry {
  int action; /* AllocmarkCaptureAction */
  int device;
  uint64_t address;    /* not of OutOfMemory */
  uint64_t size_bytes; /* as the program asked */
  uint64_t stream;     /* the raw cudaStream_t */
  int in_pool;         /* 1: of a graph's or user's private pool */
  int in_empty_cache;  /* of SegmentReturned, 1: the program asked for it */
} AllocmarkCaptureEntry;

/* Where the plugin hands over what it hears. */
typedef struct AllocmarkCaptureSink {
  void (*entry)(const AllocmarkCaptureEntry* entry);
  /* A block that was live when listening began, as its alloc entry would have been. */
  void (*live)(const AllocmarkCaptureEntry* entry);
} AllocmarkCaptureSink;

enum AllocmarkCaptureAttach {
  kAllocmarkCaptureAttached = 0,
  kAllocmarkCaptureNotReady = 1,     /* PyTorch's allocator is not initialised yet: ask again */
  kAllocmarkCaptureOtherBackend = 2, /* cudaMallocAsync or a pluggable allocator: no history */
};

/* The one symbol of the plugin: begins to listen, then tells all live blocks. */
int allocmark_torch_capture_attach(const AllocmarkCaptureSink* sink);

#ifdef __cplusplus
}
#endif

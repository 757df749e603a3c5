#include "allocators/cuda/host_room.h"

#include <malloc.h>
#include <sys/mman.h>

namespace allocmark {

HostRoom::HostRoom() {
  mallopt(M_MMAP_MAX, 0);
  void* const begin =
      mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin != MAP_FAILED) begin_ = begin;
}

HostRoom::~HostRoom() {
  if (begin_ != nullptr) munmap(begin_, kBytes);
}

}  // namespace allocmark

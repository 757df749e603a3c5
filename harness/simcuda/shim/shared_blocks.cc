#include "harness/simcuda/shim/shared_blocks.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace simcuda {
namespace {

constexpr std::uint64_t kMagic = 0x61647563'6d697331;  // "1simcuda"
constexpr std::uint32_t kLives = 1;

// FNV-1a of all but the sum.
std::uint64_t sum_of(const ShareRecord& record) {
  constexpr std::size_t kSummedBytes = offsetof(ShareRecord, sum);
  unsigned char bytes[kSummedBytes];
  std::memcpy(bytes, &record, kSummedBytes);
  std::uint64_t sum = 0xcbf29ce484222325;
  for (const unsigned char byte : bytes) sum = (sum ^ byte) * 0x100000001b3;
  return sum;
}

// The giver's file, or negative where that process is gone or another user's.
int open_file_of(const ShareRecord& record) {
  const std::string path =
      "/proc/" + std::to_string(record.process) + "/fd/" + std::to_string(record.file);
  char name[64] = {};
  if (readlink(path.c_str(), name, sizeof name - 1) <= 0 ||
      std::strncmp(name, "/memfd:simcuda", std::strlen("/memfd:simcuda")) != 0) {
    return -1;
  }
  return ::open(path.c_str(), O_RDWR | O_CLOEXEC);
}

bool lives(int file, const ShareRecord& record) {
  std::uint32_t state = 0;
  return pread(file, &state, sizeof state, static_cast<off_t>(record.state_offset_bytes)) ==
             static_cast<ssize_t>(sizeof state) &&
         state == kLives;
}

bool set_state(int file, const ShareRecord& record, std::uint32_t state) {
  return pwrite(file, &state, sizeof state, static_cast<off_t>(record.state_offset_bytes)) ==
         static_cast<ssize_t>(sizeof state);
}

}  // namespace

ShareRecord sealed(ShareRecord record) {
  record.magic = kMagic;
  record.process = getpid();
  record.sum = sum_of(record);
  return record;
}

bool is_sealed(const ShareRecord& record, SharedKind kind) {
  return record.magic == kMagic && record.kind == kind && record.sum == sum_of(record);
}

SharedBlocks::SharedBlocks(int device, MemoryContents& contents, Device& core)
    : device_(device), contents_(contents), core_(core) {}

ShareRecord SharedBlocks::give(Range block, std::uint64_t asked_bytes, SharedKind kind) {
  if (const auto found = given_.find(block.lo); found != given_.end()) return found->second;
  const Range pages = {round_down(block.lo, kPageBytes), round_up(block.hi, kPageBytes)};
  const MemoryContents::FilePlace place = contents_.share(pages);
  const MemoryContents::FilePlace state = contents_.share_page();
  if (place.file < 0 || state.file < 0) return {};
  const ShareRecord record = sealed({.kind = kind,
                                     .file = place.file,
                                     .device = device_,
                                     .pages_offset_bytes = place.offset_bytes,
                                     .inner_offset_bytes = block.lo - pages.lo,
                                     .size_bytes = asked_bytes,
                                     .state_offset_bytes = state.offset_bytes});
  if (!set_state(record.file, record, kLives)) return {};
  given_.emplace(block.lo, record);
  return record;
}

void SharedBlocks::end(std::uint64_t address) {
  const auto found = given_.find(address);
  if (found == given_.end()) return;
  static_cast<void>(set_state(found->second.file, found->second, 0));
  given_.erase(found);
}

void SharedBlocks::end_all() {
  while (!given_.empty()) end(given_.begin()->first);
  while (!imports_.empty()) static_cast<void>(close(imports_.begin()->first, true));
}

SharedBlocks::Opened SharedBlocks::open(const ShareRecord& record) {
  const Key key{record.process, record.device, record.state_offset_bytes};
  if (const auto found = opened_.find(key); found != opened_.end()) {
    ++imports_.at(found->second).count;
    return {.address = found->second};
  }
  const int file = open_file_of(record);
  if (file < 0) return {.error = cudaErrorNotPermitted};
  if (!lives(file, record)) {
    ::close(file);
    return {.error = cudaErrorNotPermitted};
  }
  return import(record, file);
}

SharedBlocks::Opened SharedBlocks::import(const ShareRecord& record, int file) {
  VirtualMemory& memory = core_.virtual_memory();
  const std::uint64_t size_bytes =
      round_up(record.inner_offset_bytes + record.size_bytes, kPageBytes);
  const AllocationOutcome room = memory.reserve(size_bytes, 0);
  const HandleOutcome made = memory.adopt(size_bytes);
  if (room.status != Status::Ok || made.status != Status::Ok) {
    ::close(file);
    return {.error = cudaErrorMemoryAllocation};
  }
  contents_.put_into_file(made.handle, {.file = file, .offset_bytes = record.pages_offset_bytes});
  static_cast<void>(memory.map(room.address, size_bytes, 0, made.handle));
  static_cast<void>(memory.set_access(room.address, size_bytes, Access::ReadWrite));
  const std::uint64_t address = room.address + record.inner_offset_bytes;
  const Key key{record.process, record.device, record.state_offset_bytes};
  opened_.emplace(key, address);
  imports_.emplace(address, Import{.key = key,
                                   .pages = {room.address, room.address + size_bytes},
                                   .block = {address, address + record.size_bytes},
                                   .handle = made.handle,
                                   .count = 1});
  return {.address = address};
}

cudaError_t SharedBlocks::close(std::uint64_t address, bool all) {
  const auto found = imports_.find(address);
  if (found == imports_.end()) return cudaErrorInvalidValue;
  Import& import = found->second;
  if (!all && --import.count > 0) return cudaSuccess;
  VirtualMemory& memory = core_.virtual_memory();
  const std::uint64_t size_bytes = import.pages.size_bytes();
  static_cast<void>(memory.unmap(import.pages.lo, size_bytes));
  contents_.detach(import.pages);
  static_cast<void>(memory.release(import.handle));
  contents_.drop_handle(import.handle, size_bytes);
  static_cast<void>(memory.free_reservation(import.pages.lo, size_bytes));
  opened_.erase(import.key);
  imports_.erase(found);
  return cudaSuccess;
}

Range SharedBlocks::opened_at(std::uint64_t address) const {
  const auto found = last_up_to(imports_, address);
  if (found == imports_.end() || address >= found->second.block.hi) return {};
  return found->second.block;
}

}  // namespace simcuda

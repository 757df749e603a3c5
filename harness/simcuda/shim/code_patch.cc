#include "harness/simcuda/shim/code_patch.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

extern "C" int simcuda_unimplemented(const char* name);

namespace simcuda {
namespace {

// jmp *0(%rip), and then the address that it reads.
constexpr std::array<unsigned char, 6> kJump = {0xff, 0x25, 0, 0, 0, 0};
constexpr std::uint64_t kJumpBytes = kJump.size() + sizeof(void*);

// movabs $name, %rdi
constexpr std::array<unsigned char, 2> kLoadName = {0x48, 0xbf};
constexpr std::uint64_t kLackBytes = kLoadName.size() + sizeof(void*) + kJumpBytes;

}  // namespace

CodePatch::CodePatch(const std::vector<RuntimeFunction>& functions) {
  const auto by_address = [](const RuntimeFunction& one, const RuntimeFunction& other) {
    return one.address < other.address;
  };
  if (functions.empty()) return;
  const auto [first, last] = std::minmax_element(functions.begin(), functions.end(), by_address);
  const std::uint64_t page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = first->address & ~(page_bytes - 1);
  pages_ = reinterpret_cast<void*>(begin);
  size_bytes_ = last->address + std::min(last->room_bytes, kLackBytes) - begin;
  can_write_ = mprotect(pages_, size_bytes_, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
}

CodePatch::~CodePatch() {
  if (can_write_) mprotect(pages_, size_bytes_, PROT_READ | PROT_EXEC);
}

bool CodePatch::write_jump(const RuntimeFunction& from, const void* to) const {
  if (!can_write_ || from.room_bytes < kJumpBytes) return false;
  auto* const code = reinterpret_cast<unsigned char*>(from.address);
  std::copy(kJump.begin(), kJump.end(), code);
  std::memcpy(code + kJump.size(), &to, sizeof to);
  return true;
}

bool CodePatch::write_lack(const RuntimeFunction& from, const char* name) const {
  if (!can_write_ || from.room_bytes < kLackBytes) return false;
  auto* const code = reinterpret_cast<unsigned char*>(from.address);
  std::copy(kLoadName.begin(), kLoadName.end(), code);
  std::memcpy(code + kLoadName.size(), &name, sizeof name);
  constexpr std::uint64_t kLoadBytes = kLoadName.size() + sizeof name;
  return write_jump({.address = from.address + kLoadBytes,
                     .room_bytes = from.room_bytes - kLoadBytes,
                     .name = {},
                     .is_known_by_code = from.is_known_by_code},
                    reinterpret_cast<const void*>(&simcuda_unimplemented));
}

}  // namespace simcuda

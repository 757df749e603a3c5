// What a block says where a request finds no memory, though all of the block's requests together
// fit the device: how much is neither free nor held by the block. See blocks.h.
#include <fmt/format.h>
#include "base/bytes.h"
#include "base/error.h"
#include "harness/core/profile/blocks.h"
#include "harness/core/replay/ballast.h"

namespace allocmark {

void throw_no_memory(const BlockSetup& setup, const FailedRequest& request) {
  const std::uint64_t free_bytes = device_free_bytes();
  const std::uint64_t known_bytes = free_bytes + request.held_bytes;
  const std::uint64_t missing_bytes =
      setup.device_bytes > known_bytes ? setup.device_bytes - known_bytes : 0;
  throw EnvironmentError(
      {.what = fmt::format("the GPU ran out of memory: {} of {} are neither free nor in use here",
                           format_bytes(missing_bytes), format_bytes(setup.device_bytes)),
       .where = fmt::format("{} of {}", request.call, format_bytes(request.size_bytes)),
       .wanted = "what was freed to be there again",
       .got = fmt::format("{} free, {} in use", format_bytes(free_bytes),
                          format_bytes(request.held_bytes)),
       .next = "see that no other program uses this GPU, and what the tests recovery and leaks of "
               "'allocmark qualify' say"});
}

}  // namespace allocmark

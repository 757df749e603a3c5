// See pass_turns.h.
#include "harness/job/pass_turns.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>

#include "harness/core/measure/quiet_cpu.h"

namespace allocmark {

bool PassTurns::connected() const {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(fd_, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

bool PassTurns::wait() {
  const auto begin = std::chrono::steady_clock::now();
  const bool goes_on = wait_for_message();
  waited_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return goes_on;
}

bool PassTurns::wait_for_message() {
  const char waits = 'w';
  if (write(fd_, &waits, 1) != 1) return false;
  TurnMessage message;
  auto* bytes = reinterpret_cast<char*>(&message);
  std::size_t have = 0;
  while (have < sizeof message) {
    const ssize_t count = read(fd_, bytes + have, sizeof message - have);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    have += static_cast<std::size_t>(count);
  }
  if (message.last != 0) return false;
  if (message.cpu >= 0) (void)QuietCpu::move_to(message.cpu);
  return true;
}

}  // namespace allocmark

// See child_process.h. Not timed: what happens here is outside every measured region.
#include "harness/job/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include "base/own_process.h"
#include "base/process_memory.h"
#include "harness/job/interrupt.h"
#include "results/utf8.h"

namespace allocmark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kStderrTailBytes = 2048;
// A result is a few KiB; a child that writes without end must not fill our memory.
constexpr std::size_t kResultBytesMax = std::size_t{64} << 20;

[[noreturn]] void throw_errno(const std::string& what, int error) {
  throw EnvironmentError(
      {.what = what,
       .got = std::strerror(error),
       .next = "check the limits on processes and open files (ulimit -a), or use fewer --jobs"});
}

// A file descriptor that closes itself. Numbers below 10 are avoided, so that none of them is one
// of the numbers (0 .. 5) that the child's ends are moved to.
class Fd {
 public:
  explicit Fd(int low_fd) {
    if (low_fd >= 0) {
      fd_ = fcntl(low_fd, F_DUPFD_CLOEXEC, 10);
      close(low_fd);
    }
    if (fd_ < 0) throw_errno("cannot open a pipe to a child process", errno);
  }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&&) = delete;
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read_end;
  Fd write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw_errno("cannot open a pipe to a child process", errno);
  }
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// Both ends read and write.
Pipe make_turn_socket() {
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_errno("cannot open a socket to a child process", errno);
  }
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// A file rather than a pipe: of any length, and nobody has to feed it. A short one is in memory.
Fd make_input(const StoredText& input) {
  const bool is_short = input.size_bytes() <= kSpoolMemoryBytes;
  Fd file(is_short ? memfd_create("input", MFD_CLOEXEC) : open_unnamed_file());
  input.each_piece([&](std::string_view rest) {
    while (!rest.empty()) {
      const ssize_t written = write(file.get(), rest.data(), rest.size());
      if (written < 0) throw_errno("cannot pass input to a child process", errno);
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  });
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

struct ChildFds {
  int input, result, output;
  int turns = -1;
  int handed = -1;
};

int spawn(const ChildCommand& command, const ChildFds& fds, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, fds.input, 0);
  posix_spawn_file_actions_adddup2(&actions, fds.output, 1);
  posix_spawn_file_actions_adddup2(&actions, fds.output, 2);
  posix_spawn_file_actions_adddup2(&actions, fds.result, kResultFd);
  if (fds.turns >= 0) posix_spawn_file_actions_adddup2(&actions, fds.turns, kTurnFd);
  if (fds.handed >= 0) posix_spawn_file_actions_adddup2(&actions, fds.handed, kHandedFd);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) sigaddset(&defaults, number);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  const int error =
      posix_spawn(pid, command.argv.at(0).c_str(), &actions, &attributes,
                  pointers(command.argv).data(), pointers(command.environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Appends what is there; false at the end of the stream.
bool read_available(int fd, std::string* text) {
  std::array<char, 16384> buffer;
  while (true) {
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count > 0) {
      text->append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else {
      return count < 0 && errno == EAGAIN;
    }
    if (text->size() > kResultBytesMax) {
      return true;  // the caller looks at the length before it reads on
    }
  }
}

void drain(int* fd, std::string* text) {
  if (*fd >= 0 && !read_available(*fd, text)) {
    close(*fd);
    *fd = -1;
  }
}

// Whether it ended by itself, with an error of ours.
bool has_own_error(const ChildOutcome& outcome) {
  return !outcome.timed_out && outcome.signal_number == 0 &&
         outcome.exit_code >= static_cast<int>(ExitCode::Usage) &&
         outcome.exit_code <= static_cast<int>(ExitCode::FileAccess);
}

}  // namespace

ChildProcess::ChildProcess(const ChildCommand& command) : started_(Clock::now()) {
  deadline_ = command.timeout_s > 0
                  ? started_ + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(command.timeout_s))
                  : Clock::time_point::max();
  Fd input = make_input(command.input);
  Pipe result = make_pipe();
  Pipe output = make_pipe();
  std::optional<Pipe> turns;
  if (command.takes_turns) turns.emplace(make_turn_socket());
  const int error = spawn(command,
                          {.input = input.get(),
                           .result = result.write_end.get(),
                           .output = output.write_end.get(),
                           .turns = turns ? turns->write_end.get() : -1,
                           .handed = command.handed_fd},
                          &pid_);
  if (error != 0) {
    pid_ = -1;
    throw_errno(fmt::format("cannot start '{}'", command.argv.at(0)), error);
  }
  result_fd_ = result.read_end.release();
  stderr_fd_ = output.read_end.release();
  if (turns) turn_fd_ = turns->read_end.release();
  fcntl(result_fd_, F_SETFL, O_NONBLOCK);
  fcntl(stderr_fd_, F_SETFL, O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    end();
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {result_fd_, stderr_fd_, turn_fd_}) {
    if (fd >= 0) close(fd);
  }
}

void ChildProcess::read_pipes() {
  drain(&result_fd_, &outcome_.result);
  drain(&stderr_fd_, &outcome_.stderr_tail);
  if (outcome_.stderr_tail.size() > kStderrTailBytes) {
    outcome_.stderr_tail.erase(0, outcome_.stderr_tail.size() - kStderrTailBytes);
  }
  if (outcome_.result.size() > kResultBytesMax) {
    outcome_.wrote_too_much = true;
    kill_group();
  }
}

std::optional<ChildOutcome> ChildProcess::advance() {
  read_pipes();
  if (!waits_since_ && Clock::now() >= deadline_ && !outcome_.ended_by_us) {
    outcome_.timed_out = true;
    end();
  }
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  // What it left running in its group must not outlive it. Before waitpid: the number is still ours
  // then.
  kill(-pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  read_pipes();
  outcome_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome_.signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  // A clock that is set back under a program is no clock; a time is never below 0.
  outcome_.wall_s = std::max(0.0, std::chrono::duration<double>(Clock::now() - started_).count());
  return outcome_;
}

std::string ChildProcess::take_result() {
  read_pipes();
  return std::exchange(outcome_.result, {});
}

std::uint64_t ChildProcess::own_bytes() const {
  const ProcessMemory memory = process_memory(pid_);
  return memory.resident_bytes - std::min(memory.shared_bytes, memory.resident_bytes);
}

void ChildProcess::end() {
  outcome_.ended_by_us = true;
  kill_group();
}

void ChildProcess::kill_group() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
  }
}

bool ChildProcess::waits_for_turn() {
  if (waits_since_) return true;
  if (turn_fd_ < 0) return false;
  char waits = 0;
  const ssize_t count = recv(turn_fd_, &waits, 1, MSG_DONTWAIT);
  if (count == 1) {
    waits_since_ = Clock::now();
    return true;
  }
  // Its end is closed: it takes no turns, and there is nothing to poll.
  if (count == 0) close(std::exchange(turn_fd_, -1));
  return false;
}

void ChildProcess::give_turn(const TurnMessage& message) {
  if (waits_since_ && deadline_ != Clock::time_point::max()) {
    deadline_ += Clock::now() - *waits_since_;
  }
  waits_since_.reset();
  (void)send(turn_fd_, &message, sizeof message, MSG_NOSIGNAL);
}

void wait_for_news(std::span<const ChildProcess* const> children, const InterruptGuard* interrupt) {
  // A child whose pipes are at their end exits within microseconds; one whose pipes a process that
  // it left behind holds open, and one whose time is up, are found at the latest after the other
  // time.
  constexpr int kPollMsClosing = 1, kPollMsMax = 50;
  int timeout_ms = kPollMsMax;
  std::vector<pollfd> fds;
  const auto add = [&fds](int fd) {
    if (fd >= 0) fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  };
  for (const ChildProcess* const child : children) {
    for (const int fd : {child->result_fd_, child->stderr_fd_, child->turn_fd_}) add(fd);
    if (child->result_fd_ < 0 && child->stderr_fd_ < 0) timeout_ms = kPollMsClosing;
  }
  if (interrupt != nullptr) add(interrupt->wake_fd());
  poll(fds.data(), fds.size(), timeout_ms);
}

ChildOutcome run_child(const ChildCommand& command,
                       const std::function<void(std::string_view)>& on_result,
                       const InterruptGuard* interrupt) {
  ChildProcess child(command);
  while (true) {
    std::optional<ChildOutcome> outcome = child.advance();
    on_result(outcome ? outcome->result : child.result_so_far());
    if (outcome) return std::move(*outcome);
    if (interrupt != nullptr && interrupt->requested()) child.end();
    wait_for_news(std::array{static_cast<const ChildProcess*>(&child)}, interrupt);
  }
}

std::string quoted_output(const ChildOutcome& outcome) {
  const std::string text = last_output(outcome);
  return text.empty() ? "" : "; its last output: " + text;
}

std::string end_words(const ChildOutcome& outcome) {
  if (outcome.timed_out) return "ended by the limit on its time";
  if (outcome.signal_number != 0) return "ended by " + signal_name(outcome.signal_number);
  return fmt::format("ended with exit code {}", outcome.exit_code);
}

ErrorText error_of(const ChildOutcome& outcome, std::string_view what) {
  constexpr std::string_view kOwnPrefix = "allocmark: ";
  std::string text = outcome.stderr_tail;
  if (text.starts_with(kOwnPrefix)) text.erase(0, kOwnPrefix.size());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (has_own_error(outcome)) return {.what = text};
  return {.what =
              fmt::format("{} {}{}{}", what, end_words(outcome), text.empty() ? "" : ": ", text)};
}

void rethrow(const ChildOutcome& outcome, std::string_view what) {
  const ErrorText error = error_of(outcome, what);
  constexpr int kNotLoaded = 127;  // what the system's loader ends with
  if (outcome.exit_code == kNotLoaded) throw EnvironmentError(error);
  if (!has_own_error(outcome)) throw CellsError(error);
  switch (static_cast<ExitCode>(outcome.exit_code)) {
    case ExitCode::Usage:
      throw UsageError(error);
    case ExitCode::CellsIncomplete:
      throw CellsError(error);
    case ExitCode::Internal:
      throw InternalError(error);
    case ExitCode::FileAccess:
      throw FileError(error);
    default:
      throw EnvironmentError(error);
  }
}

void end_with_parent(pid_t parent_pid) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent_pid) _exit(static_cast<int>(ExitCode::Internal));
}

std::string last_output(const ChildOutcome& outcome) {
  std::string text = valid_utf8(outcome.stderr_tail);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.pop_back();
  return text;
}

}  // namespace allocmark

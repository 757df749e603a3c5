#include "harness/tools/capture/captured_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace allocmark {
namespace {

std::atomic<pid_t> child = 0;

void hand_on(int signal_number) {
  if (const pid_t pid = child.load(); pid > 0) kill(pid, signal_number);
}

// What this process does with some signals while the program runs.
class SignalsMeanwhile {
 public:
  SignalsMeanwhile() {
    set(0, SIGINT, SIG_IGN);
    set(1, SIGQUIT, SIG_IGN);
    set(2, SIGTERM, hand_on);
    set(3, SIGHUP, hand_on);
  }
  ~SignalsMeanwhile() {
    for (const Saved& saved : saved_) sigaction(saved.number, &saved.before, nullptr);
  }
  SignalsMeanwhile(const SignalsMeanwhile&) = delete;
  SignalsMeanwhile& operator=(const SignalsMeanwhile&) = delete;
  // As they were for us, for the child.
  void give_back() const {
    for (const Saved& saved : saved_) sigaction(saved.number, &saved.before, nullptr);
  }

 private:
  struct Saved {
    int number = 0;
    struct sigaction before {};
  };
  void set(std::size_t place, int number, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    saved_[place].number = number;
    sigaction(number, &action, &saved_[place].before);
  }
  Saved saved_[4];
};

void put_first(const char* variable, const std::string& value) {
  const char* const old = std::getenv(variable);
  setenv(variable, (old == nullptr || *old == '\0' ? value : value + ":" + old).c_str(), 1);
}

// In the child. Returns only where the program cannot be started, with the reason.
int start(const CapturedProgram& program) {
  signal(SIGPIPE, SIG_DFL);  // allocmark's own output takes these as errors
  signal(SIGXFSZ, SIG_DFL);
  put_first("LD_PRELOAD", program.library);
  setenv("ALLOCMARK_CAPTURE", std::filesystem::absolute(program.folder).c_str(), 1);
  setenv("ALLOCMARK_CAPTURE_QUIET", "1", 1);
  if (!program.torch_plugin.empty()) {
    setenv("ALLOCMARK_CAPTURE_TORCH", std::filesystem::absolute(program.torch_plugin).c_str(), 1);
  }
  std::vector<char*> words;
  for (const std::string& word : program.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  return errno;
}

[[noreturn]] void cannot_start(const std::string& name, int reason) {
  throw FileError({.what = std::string("the program cannot be started: ") + std::strerror(reason),
                   .where = name});
}

}  // namespace

ProgramEnd run_captured(const CapturedProgram& program) {
  int reason_pipe[2];
  if (pipe2(reason_pipe, O_CLOEXEC) != 0) cannot_start(program.words[0], errno);
  const SignalsMeanwhile signals;
  const pid_t pid = fork();
  if (pid < 0) cannot_start(program.words[0], errno);
  if (pid == 0) {
    signals.give_back();
    const int reason = start(program);
    (void)!write(reason_pipe[1], &reason, sizeof reason);
    _exit(127);
  }
  child = pid;
  close(reason_pipe[1]);
  int reason = 0;
  const bool failed = read(reason_pipe[0], &reason, sizeof reason) == sizeof reason;
  close(reason_pipe[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  if (failed) cannot_start(program.words[0], reason);
  return WIFSIGNALED(status) ? ProgramEnd{.signal_number = WTERMSIG(status)}
                             : ProgramEnd{.exit_code = WEXITSTATUS(status)};
}

}  // namespace allocmark

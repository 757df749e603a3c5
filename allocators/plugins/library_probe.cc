// The child process and what it says; see library_probe.h.
#include "allocators/plugins/library_probe.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/input_file.h"

namespace allocmark {
namespace {

using Clock = std::chrono::steady_clock;

void say(int fd, const char* text) {
  if (text == nullptr) return;
  // What does not fit into the pipe is lost, and a message is a line.
  if (write(fd, text, std::strlen(text)) < 0) return;
}

// Runs in the child, which has nothing but this to do.
[[noreturn]] void probe_in_child(const LibraryProbe& probe, const std::string& path, int fd) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    say(fd, "it does not load: ");
    say(fd, dlerror());
    _exit(1);
  }
  for (const std::string& symbol : probe.symbols) {
    if (dlsym(library, symbol.c_str()) != nullptr) continue;
    say(fd, "it has no function ");
    say(fd, symbol.c_str());
    _exit(1);
  }
  say(fd, "+");
  _exit(0);
}

struct ChildAnswer {
  std::string text;
  bool timed_out = false;
};

// How often the child itself is looked at: what it left running may keep the pipe open.
constexpr int kLookMs = 20;

bool has_ended(pid_t child) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

// What the child says until the pipe ends, or the child does.
ChildAnswer read_answer(int fd, pid_t child, int timeout_ms) {
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  ChildAnswer answer;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
    // Before the look into the pipe, so that all that it said is read.
    const bool ended = has_ended(child);
    const int wait_ms = ended || left <= 0 ? 0 : static_cast<int>(std::min<long>(left, kLookMs));
    const int ready = poll(&polled, 1, wait_ms);
    if (ready == 0) {
      answer.timed_out = !ended && left <= 0;
      if (ended || answer.timed_out) return answer;
      continue;
    }
    if (ready < 0) {
      if (errno == EINTR) continue;
      return answer;
    }
    char bytes[512];
    const ssize_t count = read(fd, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return answer;
    answer.text.append(bytes, static_cast<std::size_t>(count));
  }
}

std::string system_problem(const char* call) {
  return fmt::format("it could not be looked into: {}: {}", call,
                     std::error_code(errno, std::generic_category()).message());
}

// What a child says that does only this, and how it ended.
struct ChildEnd {
  ChildAnswer answer;
  int status = 0;
  std::string problem;  // why there was none
};

template <typename Work>
ChildEnd ask_child(int timeout_ms, const Work& work) {
  int fds[2];
  if (pipe(fds) != 0) return {.answer = {}, .problem = system_problem("pipe")};
  const pid_t child = fork();
  if (child == 0) {
    close(fds[0]);
    for (const int number : {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE}) signal(number, SIG_DFL);
    work(fds[1]);
    _exit(0);
  }
  close(fds[1]);
  ChildEnd end;
  if (child < 0) {
    end.problem = system_problem("fork");
  } else {
    end.answer = read_answer(fds[0], child, timeout_ms);
  }
  close(fds[0]);
  if (child < 0) return end;
  // A library may have left threads or children with the pipe; the child itself ends now.
  if (end.answer.timed_out) kill(child, SIGKILL);
  while (waitpid(child, &end.status, 0) < 0 && errno == EINTR) {
  }
  return end;
}

std::set<std::string> loaded_modules() {
  std::set<std::string> modules;
  dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t /*size*/, void* names) {
        static_cast<std::set<std::string>*>(names)->insert(module->dlpi_name);
        return 0;
      },
      &modules);
  return modules;
}

}  // namespace

std::string loadable_path(const std::string& path) {
  return path.find('/') == std::string::npos ? "./" + path : path;
}

bool carries_cuda_runtime(const std::string& path) {
  // The name of the runtime's shared memory, which is left where symbols are stripped.
  constexpr std::string_view kMark = "/cudart.shm.";
  try {
    return read_file(path, kProgramInput).find(kMark) != std::string::npos;
  } catch (const FileError&) {
    return false;
  }
}

std::string loaded_runtime_carrier() {
  // A module is read once, since a plugin may ask at every request that fails.
  static std::mutex mutex;
  static std::map<std::string, bool> carries;
  const std::scoped_lock lock(mutex);
  for (const std::string& module : loaded_modules()) {
    const auto [known, is_new] = carries.try_emplace(module, false);
    if (is_new) {
      // The shared runtime is one that can be replaced.
      const std::string name = std::filesystem::path(module).filename();
      known->second = !name.starts_with("libcuda") && carries_cuda_runtime(module);
    }
    if (known->second) return module;
  }
  return {};
}

std::string runtime_carrier_of(const std::string& path) {
  const auto look = [&](int fd) {
    if (dlopen(loadable_path(path).c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) return;
    say(fd, loaded_runtime_carrier().c_str());
  };
  return ask_child(LibraryProbe{}.timeout_ms, look).answer.text;
}

std::string library_problem(const LibraryProbe& probe) {
  std::error_code error;
  if (!std::filesystem::exists(probe.path, error)) return "no such file";
  if (!std::filesystem::is_regular_file(probe.path, error)) return "it is not a file";
  const std::string path = loadable_path(probe.path);
  const auto [answer, status, problem] =
      ask_child(probe.timeout_ms, [&](int fd) { probe_in_child(probe, path, fd); });
  if (!problem.empty()) return problem;
  if (answer.timed_out) {
    return fmt::format("it is not loaded after {} s", probe.timeout_ms / 1000);
  }
  if (answer.text == "+") return {};
  if (WIFSIGNALED(status)) {
    return fmt::format("loading it ends with signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  }
  return answer.text.empty() ? "loading it ends the process" : answer.text;
}

}  // namespace allocmark

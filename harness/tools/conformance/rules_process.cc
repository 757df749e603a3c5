// Rules about the process that a plugin is loaded into: it starts no other one, and leaves the
// settings alone that all of the process shares.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/tools/conformance/rule.h"

namespace allocmark::conformance {
namespace {

constexpr std::pair<int, const char*> kLimits[] = {{RLIMIT_NOFILE, "open files"},
                                                   {RLIMIT_AS, "address space"},
                                                   {RLIMIT_STACK, "stack"},
                                                   {RLIMIT_CORE, "core files"},
                                                   {RLIMIT_MEMLOCK, "locked memory"}};

void add_signals(ProcessSettings& settings) {
  sigset_t blocked{};
  (void)pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0) continue;
    const std::string name = sigabbrev_np(number) == nullptr
                                 ? std::to_string(number)
                                 : fmt::format("SIG{}", sigabbrev_np(number));
    settings["what " + name + " does"] =
        fmt::format("{}", reinterpret_cast<std::uintptr_t>(action.sa_handler));
    settings["whether " + name + " is blocked"] = std::to_string(sigismember(&blocked, number));
  }
}

// Of the calling thread, and of those that it starts.
void add_arithmetic(ProcessSettings& settings) {
  volatile double smallest = std::numeric_limits<double>::min();
  settings["whether denormal numbers count as 0"] = std::to_string(smallest / 2 == 0);
  settings["how numbers are rounded"] = std::to_string(std::fegetround());
}

void add_files(ProcessSettings& settings) {
  std::error_code error;
  settings["the working folder"] = std::filesystem::current_path(error).string();
  const mode_t mask = umask(0);
  (void)umask(mask);
  settings["the umask"] = std::to_string(mask);
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    struct stat facts {};
    const bool is_open = fstat(file, &facts) == 0;
    settings[fmt::format("file descriptor {}", file)] =
        is_open ? fmt::format("{}:{}", facts.st_dev, facts.st_ino) : "closed";
  }
}

void add_scheduling(ProcessSettings& settings) {
  cpu_set_t processors{};
  (void)sched_getaffinity(0, sizeof processors, &processors);
  settings["the processors that it may run on"] = std::to_string(CPU_COUNT(&processors));
  settings["its priority"] =
      fmt::format("{}, {}", sched_getscheduler(0), getpriority(PRIO_PROCESS, 0));
}

// Names of what is otherwise after.
std::vector<std::string> changed(const ProcessSettings& before, const ProcessSettings& after) {
  std::vector<std::string> names;
  for (const auto& [name, value] : before) {
    const auto found = after.find(name);
    if (found == after.end() || found->second != value) names.push_back(name);
  }
  for (const auto& [name, value] : after)
    if (!before.contains(name)) names.push_back(name);
  return names;
}

}  // namespace

ProcessSettings process_settings() {
  ProcessSettings settings;
  add_signals(settings);
  add_arithmetic(settings);
  add_files(settings);
  add_scheduling(settings);
  for (const auto& [resource, name] : kLimits) {
    rlimit limit{};
    (void)getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
    settings[fmt::format("the limit of {}", name)] = std::to_string(limit.rlim_cur);
  }
  settings["the locale"] = std::setlocale(LC_ALL, nullptr);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::size_t end = text.find('=');
    settings["the environment's " + text.substr(0, end)] = text.substr(end + 1);
  }
  return settings;
}

namespace checks {

std::string processes(Scene& scene) {
  for (std::uint64_t i = 0; i < 100; ++i) scene.give(scene.get(4096 * (1 + i % 7)));
  errno = 0;
  const pid_t child = waitpid(-1, nullptr, WNOHANG);
  expect(child == -1 && errno == ECHILD, "a call forked: this process has a child");
  return "100 requests and frees";
}

std::string settings(Scene& scene) {
  constexpr std::size_t kNamedMax = 3;
  for (std::uint64_t i = 0; i < 100; ++i) scene.give(scene.get(std::uint64_t{4096} << (i % 12)));
  (void)scene.try_get(kAbsurdBytes);
  (void)cudaGetLastError();
  scene.settle();
  std::vector<std::string> names = changed(scene.settings_before, process_settings());
  const std::size_t count = names.size();
  if (count > kNamedMax) names.resize(kNamedMax);
  expect(names.empty(),
         fmt::format("since before it was loaded these changed: {}{}", fmt::join(names, ", "),
                     count > kNamedMax ? fmt::format(" and {} more", count - kNamedMax) : ""));
  return "signals, arithmetic, files, limits, locale, environment";
}

}  // namespace checks

}  // namespace allocmark::conformance

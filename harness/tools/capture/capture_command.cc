// 'allocmark capture -- PROGRAM...': what a program asks of the CUDA runtime, as traces.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "base/bytes.h"
#include "base/error.h"
#include "base/own_process.h"
#include "base/shell_text.h"
#include "harness/shell/options.h"
#include "harness/shell/output_path.h"
#include "harness/shell/registry.h"
#include "harness/tools/capture/captured_files.h"

namespace allocmark {
namespace {

// A program with the capture library in front. It has our terminal, input and output.
struct CapturedProgram {
  std::vector<std::string> words;  // the program and its arguments
  std::string folder;              // where its traces go; exists
  std::string library;             // the capture library
  std::string torch_plugin;        // built against the program's PyTorch; empty: none
};

struct ProgramEnd {
  int exit_code = 0;
  int signal_number = 0;  // 0 where it exited by itself
};

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

// Starts it and waits for its end. SIGTERM and SIGHUP are handed on; Ctrl-C reaches it anyway.
// Throws FileError where it cannot be started.
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

constexpr int kSignalCode = 128;  // plus the signal's number, as shells have it

struct CaptureCommand {
  std::vector<std::string> program;
  std::string out = "captured";
  std::string torch_plugin;
  bool finish = false;
  std::vector<std::string> argv;  // the whole command line
};

void add_capture(CLI::App* app, CaptureCommand* command) {
  add_value(app, "program", command->program, "PROGRAM",
            "The program and its arguments, after '--'. It must load the CUDA runtime as a shared "
            "library")
      ->expected(0, -1);
  add_default(app, "-o,--out", command->out, "DIR",
              "DIR for the traces, one for each process and GPU; must be empty");
  add_value(app, "--torch", command->torch_plugin, "FILE",
            "For PyTorch: the plugin that build_torch_capture.sh makes. Without it a trace has "
            "only the segments of PyTorch's allocator");
  app->add_flag("--finish", command->finish,
                "Start no program; mend the traces that a killed program left in --out");
}

std::string capture_library() {
  const std::filesystem::path library = std::filesystem::path(own_program_path()).parent_path() /
                                        "../lib/allocmark/liballocmark_capture.so";
  std::error_code ignored;
  if (!std::filesystem::exists(library, ignored)) {
    throw FileError({.what = "the capture library is missing",
                     .where = library.lexically_normal().string(),
                     .wanted = "the library that is built and installed with allocmark",
                     .next = "build the target allocmark_capture, or install allocmark again"});
  }
  return std::filesystem::canonical(library).string();
}

// Named without '--', it can have no options of its own.
std::vector<std::string> program_of(const CaptureCommand& command) {
  std::vector<std::string> words = command.program;
  const auto mark = std::ranges::find(command.argv, "--");
  if (mark != command.argv.end()) words.insert(words.end(), mark + 1, command.argv.end());
  return words;
}

void check(const CaptureCommand& command, const std::vector<std::string>& program) {
  if (program.empty() != command.finish) {
    throw UsageError({.what = command.finish ? "a program and --finish" : "no program",
                      .where = "allocmark capture",
                      .wanted = "allocmark capture -- PROGRAM ARGUMENTS, or --finish alone"});
  }
  std::error_code ignored;
  if (!command.torch_plugin.empty() && !std::filesystem::exists(command.torch_plugin, ignored)) {
    throw FileError({.what = "no such plugin",
                     .where = "--torch " + command.torch_plugin,
                     .wanted = "a library that build_torch_capture.sh made",
                     .next = "build_torch_capture.sh python3 " + command.torch_plugin});
  }
}

void make_empty_folder(const std::string& folder) {
  make_output_folder(folder, "--out");
  if (std::filesystem::is_empty(folder)) return;
  throw UsageError({.what = "the folder is not empty",
                    .where = "--out " + folder,
                    .wanted = "an empty or new folder",
                    .next = "name another one with --out"});
}

void tell(const CapturedFile& file) {
  if (file.in_use) {
    fmt::print(stderr,
               "allocmark capture: {}: its process still runs. When it has ended: allocmark "
               "capture --finish --out {}\n",
               file.path, std::filesystem::path(file.path).parent_path().string());
    return;
  }
  const TraceSummary& summary = file.summary;
  fmt::print(stderr, "allocmark capture: {}: {} requests on {} stream{}, {} at peak{}\n", file.path,
             summary.kind_counts[static_cast<std::size_t>(EventKind::Alloc)], summary.stream_count,
             summary.stream_count == 1 ? "" : "s", format_bytes(summary.requested_bytes_peak),
             file.was_cut ? "; its process was killed, and all its whole rows are kept" : "");
}

void tell_all(const std::vector<CapturedFile>& files, bool with_torch) {
  for (const CapturedFile& file : files) tell(file);
  if (files.empty()) {
    fmt::print(stderr,
               "allocmark capture: nothing was recorded: the program asked {} for no memory{}\n",
               with_torch ? "PyTorch" : "a shared CUDA runtime",
               with_torch ? ""
                          : ". Does it carry the static runtime, or open libcudart by itself? "
                            "(ldd PROGRAM | grep cudart)");
    return;
  }
  fmt::print(stderr, "next: allocmark trace summary {}\n", shell_word(files.front().path));
}

ExitCode run_capture(const CaptureCommand& command) {
  const std::vector<std::string> program = program_of(command);
  check(command, program);
  if (command.finish) {
    tell_all(finish_captured_files(command.out), false);
    return ExitCode::Pass;
  }
  const std::string library = capture_library();
  make_empty_folder(command.out);
  const ProgramEnd end = run_captured({.words = program,
                                       .folder = command.out,
                                       .library = library,
                                       .torch_plugin = command.torch_plugin});
  if (end.signal_number != 0) {
    fmt::print(stderr, "allocmark capture: {} was ended by {}\n", program.front(),
               signal_name(end.signal_number));
  }
  tell_all(finish_captured_files(command.out), !command.torch_plugin.empty());
  return static_cast<ExitCode>(end.signal_number != 0 ? kSignalCode + end.signal_number
                                                      : end.exit_code);
}

}  // namespace

extern const CommandEntry kCaptureCommand;
constinit const CommandEntry kCaptureCommand{
    .name = "capture",
    .summary = "Record what a program asks of the CUDA runtime",
    .add = [](CLI::App* app) { return bind_command(app, add_capture, run_capture); },
    .runs_program = true};

}  // namespace allocmark

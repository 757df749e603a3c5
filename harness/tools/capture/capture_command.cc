// 'allocmark capture -- PROGRAM...': what a program asks of the CUDA runtime, as traces.
#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/own_process.h"
#include "base/shell_text.h"
#include "harness/shell/output_path.h"
#include "harness/shell/registry.h"
#include "harness/tools/capture/captured_files.h"
#include "harness/tools/capture/captured_program.h"

namespace allocmark {
namespace {

constexpr int kSignalCode = 128;  // plus the signal's number, as shells have it

struct CaptureCommand {
  std::vector<std::string> program;
  std::string out = "captured";
  std::string torch_plugin;
  bool finish = false;
  std::vector<std::string> argv;  // the whole command line
};

void add_capture(CLI::App* app, CaptureCommand* command) {
  app->add_option("program", command->program,
                  "The program and its arguments, after '--'. It must load the CUDA runtime as a "
                  "shared library")
      ->type_name("PROGRAM")
      ->expected(0, -1);
  app->add_option("-o,--out", command->out,
                  "DIR for the traces, one for each process and GPU; must be empty")
      ->capture_default_str()
      ->type_name("DIR");
  app->add_option("--torch", command->torch_plugin,
                  "For PyTorch: the plugin that build_torch_capture.sh makes. Without it a trace "
                  "has only the segments of PyTorch's allocator")
      ->type_name("FILE");
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

// 'allocmark why FILE': why a job ran out of memory, from its memory snapshot or from the message
// that it left.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include "allocators/caching/release.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/output_file.h"
#include "base/own_process.h"
#include "base/shell_text.h"
#include "harness/core/run/run.h"
#include "harness/shell/html_report.h"
#include "harness/shell/options.h"
#include "harness/shell/output_path.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/why/message/message_text.h"
#include "harness/tools/why/simulated.h"
#include "harness/tools/why/why.h"
#include "workloads/import/recording.h"

namespace allocmark {
namespace {

// What 'why' says of a text: the part of it that reads pasted messages instead of snapshots.
constexpr const char* kStandardInput = "/dev/stdin";

[[noreturn]] void refuse_text(const std::string& name, bool is_file,
                              const message::FoundMessages& found) {
  if (is_file && found.head.starts_with('{') && found.size_bytes > 0) {
    throw UsageError(
        {.what = "a file of JSON is no memory snapshot, and has no out-of-memory message",
         .where = name,
         .wanted = "the pickle that torch.cuda.memory._dump_snapshot() writes",
         .got = "JSON",
         .next = fmt::format("a snapshot in JSON becomes one by: python3 -c \"import json, pickle; "
                             "pickle.dump(json.load(open('{0}')), "
                             "open('{0}.pickle', 'wb'))\"",
                             name)});
  }
  throw UsageError(
      {.what = "neither a memory snapshot of PyTorch nor a text with an out-of-memory message",
       .where = name,
       .wanted = "the file that torch.cuda.memory._dump_snapshot() writes, or a text with words "
                 "such as \"CUDA out of memory. Tried to allocate 2.00 GiB\", of PyTorch, "
                 "TensorFlow, JAX, llama.cpp, RMM, CuPy, ONNX Runtime or vLLM",
       .got = found.size_bytes == 0
                  ? "an empty text"
                  : fmt::format("{} without such words", format_bytes(found.size_bytes)),
       .next = is_file ? "paste the whole error; for a trace or a log: allocmark run --workload "
                         "file:" +
                             name
                       : "paste the whole error"});
}

// What a person pastes at a terminal, however long that takes.
message::FoundMessages pasted_messages() {
  fmt::print(stderr, "paste the error, then Enter and Ctrl-D\n");
  message::MessageReader reader;
  std::array<char, 4096> line{};
  while (true) {
    const ssize_t count = ::read(STDIN_FILENO, line.data(), line.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return reader.finish();
    reader.add(std::string_view(line.data(), static_cast<std::size_t>(count)));
  }
}

// Who forgot that the text comes from elsewhere would see nothing happen.
void say_that_it_waits() {
  constexpr int kSilentMs = 2000;
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (isatty(STDERR_FILENO) == 1 && poll(&input, 1, kSilentMs) == 0) {
    fmt::print(stderr, "waiting for a text on standard input\n");
  }
}

message::FoundMessages messages_of_input() {
  if (isatty(STDIN_FILENO) == 1) return pasted_messages();
  say_that_it_waits();
  return message::read_messages(kStandardInput);
}

// What was pasted where a file's name goes; nothing where it may be the name of a file.
std::optional<message::FoundMessages> messages_of_argument(const std::string& given) {
  std::error_code error;
  if (std::filesystem::exists(given, error)) return std::nullopt;
  message::MessageReader reader;
  reader.add(given);
  message::FoundMessages found = reader.finish();
  constexpr std::size_t kPathBytesMax = 4096;
  const bool may_be_name = given.size() < kPathBytesMax && given.find('\n') == std::string::npos;
  if (found.messages.empty() && may_be_name) return std::nullopt;
  return found;
}

// Answers on stdout where the file is a text with a message, and false where it is a snapshot.
// "-" is standard input; a text that has a message and names no file is the message itself. Throws
// UsageError where it is neither, and where `snapshot_option`, an option that was given and that a
// message cannot answer, is not empty.
bool answer_message(const std::string& given, const std::string& format,
                    const std::string& snapshot_option) {
  const std::optional<message::FoundMessages> pasted = messages_of_argument(given);
  const bool is_file = !pasted && given != "-" && given != kStandardInput;
  const std::string name = pasted ? "the message" : is_file ? given : "standard input";
  const message::FoundMessages found = pasted    ? *pasted
                                       : is_file ? message::read_messages(given)
                                                 : messages_of_input();
  if (message::is_binary_head(found.head)) {
    if (!is_file) {
      throw UsageError({.what = "a snapshot cannot be read from standard input",
                        .where = name,
                        .wanted = "a text with an out-of-memory message",
                        .got = "a binary file",
                        .next = "name the snapshot's file: allocmark why oom.pickle"});
    }
    if (recording_kind(given) == RecordingKind::PytorchSnapshot) return false;
    refuse_text(name, is_file, found);
  }
  if (found.messages.empty()) {
    // A recording of another kind may have an error of its own.
    if (is_file && recording_kind(given) == RecordingKind::PytorchSnapshot) return false;
    refuse_text(name, is_file, found);
  }
  if (!snapshot_option.empty()) {
    throw UsageError({.what = "this option needs a memory snapshot",
                      .where = snapshot_option,
                      .wanted = "a snapshot, which can be replayed",
                      .got = name + ", a text with an out-of-memory message",
                      .next = "leave the option away: allocmark why " + shell_word(given)});
  }
  if (format == "json") {
    fmt::print("{}", message::to_json(found, name));
  } else if (format == "markdown") {
    fmt::print("{}", message::to_markdown(found, name));
  } else {
    print_fitted(stdout, message::to_text(found, name));
  }
  return true;
}

struct WhyCommand {
  std::string file;
  std::string memory;
  std::vector<std::string> confs;
  std::string pytorch;  // its release; empty: found out
  std::string format = "table";
  std::string page;
  bool force = false;
};

void add_why(CLI::App* app, WhyCommand* command) {
  add_value(app, "file", command->file, "FILE",
            "A memory snapshot with history, as torch.cuda.memory._dump_snapshot() writes it; or a "
            "text with an out-of-memory message, - for standard input; or the message itself")
      ->required();
  add_value(app, "--memory", command->memory, "SIZE",
            "Memory that PyTorch may have [what it had when a request failed]");
  add_value(app, "-c,--conf", command->confs, "CONF",
            "A config string to try, or 'unset'; may be repeated [ten common ones]")
      ->allow_extra_args(false);
  add_value(app, "--pytorch", command->pytorch, "V",
            "The release of PyTorch that wrote it, such as 2.10 [one that puts blocks in the same "
            "places]");
  add_format(app, &command->format, "table, markdown (for an issue) or json (one document)",
             {"table", "markdown", "json"});
  add_value(app, "-o,--out", command->page, "FILE",
            "FILE for a page with maps of the segments, which a browser shows; needs python3");
  add_force(app, &command->force);
}

// Of the options that only a snapshot can answer, the first that is given.
std::string snapshot_option(const WhyCommand& command) {
  if (!command.memory.empty()) return "--memory";
  if (!command.confs.empty()) return "--conf";
  if (!command.pytorch.empty()) return "--pytorch";
  return command.page.empty() ? "" : "--out";
}

ExitCode run_why(const WhyCommand& command) {
  const std::string path =
      command.file.starts_with("file:") ? command.file.substr(5) : command.file;
  if (answer_message(path, command.format, snapshot_option(command))) return ExitCode::Pass;
  WhyOptions options;
  if (!command.memory.empty()) {
    options.memory_bytes = parse_bytes(command.memory);
    if (!options.memory_bytes) {
      throw UsageError({.what = "not a size",
                        .where = "--memory",
                        .wanted = "a number with its unit, such as 24GiB",
                        .got = explain_bytes(command.memory)});
    }
  }
  if (!command.pytorch.empty())
    options.release = &caching::require_rules(command.pytorch, "--pytorch");
  const BackendEntry& allocator =
      find_backend(options.release == nullptr ? "caching" : options.release->allocator());
  for (const std::string& conf : command.confs) options.confs.push_back(read_conf(allocator, conf));
  if (!command.page.empty()) check_output_file(command.page, command.force, "--out");
  Why why = explain_snapshot(path, options);
  simulate_settings(&why, own_program_path(), default_job_count("sim:h200"));
  if (!command.page.empty()) {
    write_file(command.page, make_page("why_page.py", to_page_json(why)));
    fmt::print(stderr, "page: {}\n", command.page);
  }
  if (command.format == "json") {
    fmt::print("{}", to_json(why));
  } else if (command.format == "markdown") {
    fmt::print("{}", to_markdown(why));
  } else {
    print_fitted(stdout, to_text(why));
  }
  return ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kWhyCommand;
constinit const CommandEntry kWhyCommand{
    "why", "Say why a job ran out of memory, from its snapshot or message",
    [](CLI::App* app) { return bind_command(app, add_why, run_why); }};

}  // namespace allocmark

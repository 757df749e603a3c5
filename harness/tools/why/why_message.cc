#include "harness/tools/why/why_message.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "base/shell_text.h"
#include "harness/shell/terminal.h"
#include "harness/tools/why/message/message_text.h"
#include "workloads/import/recording.h"

namespace allocmark {
namespace {

constexpr const char* kStandardInput = "/dev/stdin";

[[noreturn]] void refuse_text(const std::string& name, bool is_file,
                              const message::FoundMessages& found) {
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

}  // namespace

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

}  // namespace allocmark

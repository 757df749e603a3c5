// The one way to write a file under a name that a person gave, and the files of a run. Bytes flow
// in. A regular file is replaced whole or not at all: its bytes go to a file beside it, to the
// disk, and then take its name. A link stays, and the file that it leads to is replaced. A device,
// a pipe and an open descriptor (/dev/null, /dev/stdout) are written straight through.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace allocmark {

// A pipe that nobody reads is given up after so long.
inline constexpr int kReaderWaitMs = 15'000;

// Throws WriteError that names the path and the reason: the disk is full, the folder is read-only.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  // Without finish() nothing has changed, but for what went straight through.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  // Everything is on the disk, under its name.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The whole text, or nothing.
void write_file(const std::string& path, std::string_view text);

// A file of lines that grows while a run goes on. A line is with the system before append returns,
// and one that does not fit leaves no half line behind.
class LineFile {
 public:
  // A new file, or an empty one. Throws WriteError where it holds something already.
  [[nodiscard]] static LineFile create(const std::string& path);
  // A new file, or an old one without its lines.
  [[nodiscard]] static LineFile replace(const std::string& path);
  // An old one, cut to its first `size_bytes`.
  [[nodiscard]] static LineFile resume(const std::string& path, std::uint64_t size_bytes);

  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&&) = delete;
  ~LineFile();

  // Adds the line and its newline. Throws WriteError where it cannot be written whole.
  void append(std::string_view line);

 private:
  LineFile(int fd, std::string path, std::uint64_t size_bytes);

  int fd_ = -1;
  std::string path_;
  std::uint64_t size_bytes_ = 0;  // of the whole lines
};

}  // namespace allocmark

// The one way to open a file that came from outside. A path flows in; bytes flow out, never more
// than its kind may have. Folders, devices and sockets are refused. A pipe is read only where the
// kind says so, and one that nobody opens to write to is given up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"

namespace allocmark {

struct InputKind {
  const char* name;              // "a plan", as messages call it
  std::uint64_t size_bytes_max;  // on disk, or through a pipe; what holes a file has count as well
  bool takes_pipes = false;
};

// What the commands read. A larger file is refused before its first byte is read.
inline constexpr InputKind kTraceInput{
    .name = "a trace", .size_bytes_max = kTiB, .takes_pipes = true};
inline constexpr InputKind kResultsInput{.name = "a results file", .size_bytes_max = kGiB};
inline constexpr InputKind kArchiveInput{.name = "an archive", .size_bytes_max = kGiB};
// Any file of a bundle that was unpacked.
inline constexpr InputKind kBundleInput{.name = "a file of a bundle", .size_bytes_max = kGiB};
inline constexpr InputKind kPlanInput{.name = "a plan", .size_bytes_max = 64 * kMiB};
inline constexpr InputKind kPageInput{.name = "a page", .size_bytes_max = 128 * kMiB};
inline constexpr InputKind kTimelineInput{.name = "a timeline", .size_bytes_max = 64 * kMiB};
inline constexpr InputKind kCalibrationInput{.name = "a calibration", .size_bytes_max = 16 * kMiB};
inline constexpr InputKind kGoldenInput{.name = "a golden", .size_bytes_max = 256 * kMiB};
// Policies, thresholds, scenarios, conditions, profiles of devices.
inline constexpr InputKind kSettingsInput{.name = "a settings file", .size_bytes_max = kMiB};
// Programs and libraries, which are only hashed.
inline constexpr InputKind kProgramInput{.name = "a program", .size_bytes_max = 16 * kGiB};
// Of the system: /proc and /sys say no size.
inline constexpr InputKind kSystemInput{.name = "a file of the system", .size_bytes_max = kMiB};

// A pipe that nobody opens to write to for so long is given up.
inline constexpr int kPipeWaitMs = 15'000;
// What comes through a pipe is kept in a file without a name, so that it can be read twice.
inline constexpr std::uint64_t kPipeBytesMax = 4 * kGiB;

// Throws FileError that names the path and the reason, in the constructor and in read.
class InputFile {
 public:
  InputFile(const std::string& path, const InputKind& kind);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Bytes put into `into`; fewer than asked for only at the end, 0 after it.
  [[nodiscard]] std::size_t read(std::span<char> into);
  // Starts again from the first byte.
  void rewind();
  // Goes to another byte of a file that is no pipe.
  void seek(std::uint64_t at_bytes);
  [[nodiscard]] bool is_pipe() const;
  // As it was opened; 0 of a pipe.
  [[nodiscard]] std::uint64_t size_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What stands in no list above.
inline constexpr InputKind kOtherInput{.name = "a file", .size_bytes_max = kGiB};

// The whole file.
[[nodiscard]] std::string read_file(const std::string& path, const InputKind& kind = kOtherInput);

}  // namespace allocmark

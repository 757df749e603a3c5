// What a run is measured on: the Environment at the head of every results file. Facts flow in from
// the build, the host and - through a child process that has the right CUDA runtime loaded - the
// device. No host name and no device serial is stored in clear text. Times nothing but the clock
// itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "results/schema.h"

namespace allocmark {

// "0.2.0 (git 1a2b3c4, dirty, RelWithDebInfo, g++ 12.2.0)".
[[nodiscard]] std::string version_text();

// An unoptimised or instrumented build, whose figures mean nothing; empty where the build is fit to
// measure.
[[nodiscard]] std::string unfit_build_reason();

// What this program was built from and how.
void fill_build(Environment* environment);
// This machine's name in its network.
[[nodiscard]] std::string host_name();

// 16 hex digits that tell this machine from others, and that cannot be guessed from its name: they
// hang on a random number that the machine keeps.
[[nodiscard]] std::string host_hash();

// Everything but the device.
[[nodiscard]] Environment host_environment(const std::vector<std::string>& argv);

// What a child process found on `device`.
struct DeviceAnswer {
  std::string failure;  // empty where the device works, else what is wrong with it
  // The device's fields, and the build of the program that answered (empty where it is older).
  Environment facts;
};

// Asks a child process ("cell --describe-device") with a time limit, so that a driver that hangs
// cannot hang us.
[[nodiscard]] DeviceAnswer describe_device(std::string_view device,
                                           const std::string& program_path);

// Copies the device's fields into `environment`.
void merge_device(const Environment& facts, Environment* environment);
// Copies what fill_build fills.
void merge_build(const Environment& facts, Environment* environment);

struct DeviceChoice {
  std::string device;
  std::string note;  // why, where it was not asked for by name
  Environment facts;
};

// "auto" becomes cuda:0 where it works, else sim:h200; another device is described as it is. Throws
// EnvironmentError where it does not work.
[[nodiscard]] DeviceChoice choose_device(const std::string& device,
                                         const std::string& program_path);

// 16 hex digits; not for security, only so that a name need not be stored.
[[nodiscard]] std::string text_hash(std::string_view text);

}  // namespace allocmark

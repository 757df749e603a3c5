// libFuzzer's way into the importers: bytes become a file, which is opened by its content. A
// refusal is an answer; a crash, a leak or memory without bound is not.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "workloads/import/recording.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = "/tmp/allocmark_import_fuzzer." + std::to_string(::getpid());
  if (std::FILE* file = std::fopen(path.c_str(), "wb")) {
    std::fwrite(data, 1, size, file);
    std::fclose(file);
  }
  try {
    const allocmark::Recording recording = allocmark::open_recording(path);
    while (!recording.events->next().empty()) {
    }
  } catch (const allocmark::Error&) {
  }
  std::remove(path.c_str());
  return 0;
}

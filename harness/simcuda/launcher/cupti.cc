// In the place of libcupti, the profilers' library. NVIDIA's needs tables of the driver that are
// not documented, and asks for them until the stack ends. In: calls of profilers. Out: the error
// "not supported", so that they go on without a GPU's events, and a line on stderr that says so.
// Preloaded by simcuda-run.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#define SIMCUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kInvalidParameter = 1;
constexpr int kNotSupported = 27;
constexpr std::uint32_t kVersion = SIMCUDA_CUPTI_VERSION;

int answer(const void* result) { return result == nullptr ? kInvalidParameter : 0; }

}  // namespace

extern "C" int simcuda_unsupported_cupti() {
  static std::once_flag told;
  std::call_once(told, [] {
    if (std::getenv("SIMCUDA_REPORT") == nullptr) return;
    std::fputs("simcuda: no CUPTI: profilers see what the host does, and nothing of the GPU\n",
               stderr);
  });
  return kNotSupported;
}

SIMCUDA_EXPORT int cuptiGetResultString(int result, const char** text) {
  if (text != nullptr) {
    *text = result == 0               ? "CUPTI_SUCCESS"
            : result == kNotSupported ? "CUPTI_ERROR_NOT_SUPPORTED"
                                      : "CUPTI_ERROR_UNKNOWN";
  }
  return answer(text);
}

SIMCUDA_EXPORT int cuptiGetErrorMessage(int result, const char** text) {
  return cuptiGetResultString(result, text);
}

SIMCUDA_EXPORT int cuptiGetVersion(std::uint32_t* version) {
  if (version != nullptr) *version = kVersion;
  return answer(version);
}

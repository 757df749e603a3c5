// See race_detector.h. The runtime calls __tsan_on_report, which this program exports to it, for
// each thing that it finds; what was found is asked by the runtime's own functions.
#include "harness/tools/conformance/race_detector.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/personality.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/own_process.h"

namespace allocmark::conformance {
namespace {

constexpr const char* kStartedVariable = "ALLOCMARK_RACE_DETECTOR";
// GCC's, where the library does not say; that of clang is linked into programs alone.
constexpr std::string_view kUsualRuntime = "libtsan.so.2";
constexpr std::size_t kFrameCountMax = 16;
using Trace = std::array<void*, kFrameCountMax>;

template <typename Function>
Function runtime_function(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// "libtsan.so.2" where the file is compiled for it; else empty.
std::string runtime_of(const std::string& library) {
  const std::string bytes = read_file(library, {.name = "a plugin", .size_bytes_max = 1ULL << 30});
  if (bytes.find("__tsan_init") == std::string::npos) return {};
  constexpr std::string_view kStem = "libtsan.so.";
  const std::size_t begin = bytes.find(kStem);
  if (begin == std::string::npos) return std::string(kUsualRuntime);
  const std::size_t end = bytes.find_first_not_of("0123456789", begin + kStem.size());
  return bytes.substr(begin, end - begin);
}

// The rule, and not the end of the process, says what was found; crashes stay what they are.
std::string options() {
  const char* const own = std::getenv("TSAN_OPTIONS");
  return fmt::format(
      "detect_deadlocks=1:report_thread_leaks=0:report_signal_unsafe=0:"
      "die_after_fork=0:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe="
      "0:{}:halt_on_error=0:exitcode=0",
      own == nullptr ? "" : own);
}

// Where the library begins that an address lies in; null where it lies in none.
const void* base_of(const void* address) {
  Dl_info info{};
  return address == nullptr || dladdr(address, &info) == 0 ? nullptr : info.dli_fbase;
}
const void* runtime_base() { return base_of(dlsym(RTLD_DEFAULT, "__tsan_init")); }

struct Place {
  std::string function;
  std::string where{};  // "plugin.c:12", empty where the plugin has no debug information
};

std::string text_of(const Place& place) {
  return place.where.empty() ? place.function : fmt::format("{} ({})", place.function, place.where);
}

// The innermost frame that is neither the detector nor a header of the system.
Place place_of(const Trace& trace) {
  const auto symbolize = runtime_function<void (*)(void*, const char*, char*, std::size_t)>(
      "__sanitizer_symbolize_pc");
  const void* const runtime = runtime_base();
  Place innermost;
  const void* before = nullptr;
  for (void* const pc : trace) {
    if (pc == nullptr) break;
    if (pc == std::exchange(before, pc) || base_of(pc) == runtime) continue;
    // Inlined frames of one place follow each other, with a 0 behind each and another at the end.
    std::array<char, 4096> text{};
    symbolize(pc, "%f\x1f%s\x1f%l", text.data(), text.size() - 2);
    for (const char* at = text.data(); *at != '\0'; at += std::strlen(at) + 1) {
      const std::string_view frame = at;
      const std::size_t first = std::min(frame.find('\x1f'), frame.size());
      const std::size_t second = std::min(frame.find('\x1f', first + 1), frame.size());
      Place place{.function = std::string(frame.substr(0, first))};
      const std::string_view file =
          second > first ? frame.substr(first + 1, second - first - 1) : std::string_view();
      if (file.starts_with('/') || file.find('.') != std::string_view::npos) {
        place.where = fmt::format("{}:{}", std::filesystem::path(file).filename().string(),
                                  frame.substr(std::min(second + 1, frame.size())));
      }
      if (innermost.function.empty()) innermost = place;
      if (!place.where.empty() && !file.starts_with("/usr/")) return place;
    }
  }
  return innermost;
}

// Whether it is this program or the simulated device that comes to the memory, and not the plugin.
// Neither is compiled with the detector, so what orders their threads can be unknown to it.
bool is_ours(const Trace& trace) {
  const void* const runtime = runtime_base();
  const auto innermost = std::ranges::find_if(
      trace, [&](const void* pc) { return pc == nullptr || base_of(pc) != runtime; });
  if (innermost == trace.end() || *innermost == nullptr) return true;
  const void* const base = base_of(*innermost);
  return base == base_of(reinterpret_cast<const void*>(&is_ours)) ||
         base == base_of(dlsym(RTLD_DEFAULT, "simcu_present"));
}

// "'count'" of a global variable, else "memory".
std::string name_of(void* address) {
  const auto symbolize = runtime_function<void (*)(void*, const char*, char*, std::size_t)>(
      "__sanitizer_symbolize_global");
  std::array<char, 512> text{};
  symbolize(address, "%g", text.data(), text.size() - 1);
  const std::string_view name = text.data();
  return name.empty() || name.starts_with('<') ? "memory" : fmt::format("'{}'", name);
}

// As the runtime told it. Nothing may be allocated or freed there: it can be in the middle of
// either.
struct Access {
  Trace trace{};
  void* address = nullptr;
  int is_write = 0;
};
struct RawReport {
  const char* kind = "";  // "data-race"
  std::array<Access, 2> accesses;
  std::array<Trace, 2> stacks;  // of other kinds
  int access_count = 0;
  int stack_count = 0;
};

RawReport raw_report(void* report) {
  const auto ask = runtime_function<int (*)(void*, const char**, int*, int*, int*, int*, int*, int*,
                                            int*, void**, std::uint64_t)>("__tsan_get_report_data");
  const auto ask_access =
      runtime_function<int (*)(void*, std::uint64_t, int*, void**, int*, int*, int*, void**,
                               std::uint64_t)>("__tsan_get_report_mop");
  const auto ask_stack = runtime_function<int (*)(void*, std::uint64_t, void**, std::uint64_t)>(
      "__tsan_get_report_stack");
  RawReport raw;
  int count = 0, location_count = 0, mutex_count = 0, thread_count = 0, id_count = 0;
  Trace sleep{};
  ask(report, &raw.kind, &count, &raw.stack_count, &raw.access_count, &location_count, &mutex_count,
      &thread_count, &id_count, sleep.data(), sleep.size());
  raw.access_count = std::min(raw.access_count, 2);
  raw.stack_count = std::min(raw.stack_count, 2);
  for (std::size_t i = 0; i < static_cast<std::size_t>(raw.access_count); ++i) {
    Access& access = raw.accesses[i];
    int thread = 0, size_bytes = 0, is_atomic = 0;
    ask_access(report, i, &thread, &access.address, &size_bytes, &access.is_write, &is_atomic,
               access.trace.data(), access.trace.size());
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(raw.stack_count); ++i) {
    ask_stack(report, i, raw.stacks[i].data(), raw.stacks[i].size());
  }
  return raw;
}

// Empty where the plugin has no part in it.
std::string text_of(const RawReport& raw) {
  if (raw.access_count == 2) {
    const auto& [now, before] = raw.accesses;
    if (is_ours(now.trace) || is_ours(before.trace)) return {};
    const bool is_freed = std::string_view(raw.kind) == "heap-use-after-free";
    const char* const did = is_freed ? "frees it" : before.is_write != 0 ? "writes it" : "reads it";
    return fmt::format("{} {} {}, {} {}: nothing orders the two", text_of(place_of(now.trace)),
                       now.is_write != 0 ? "writes" : "reads", name_of(now.address),
                       text_of(place_of(before.trace)), did);
  }
  std::string text = raw.kind;
  for (std::size_t i = 0; i < static_cast<std::size_t>(raw.stack_count); ++i) {
    if (is_ours(raw.stacks[i])) return {};
    text += (i == 0 ? ": " : ", ") + text_of(place_of(raw.stacks[i]));
  }
  return text;
}

// The runtime's function knows nothing of us but its name, so this cannot be handed in.
struct Reports {
  std::array<RawReport, 64> raw;
  std::atomic<std::size_t> begun_count = 0;
  std::atomic<std::size_t> count = 0;
};
Reports& reports() {
  static Reports all;
  return all;
}

}  // namespace

bool race_detector_runs() { return runtime_function<void*>("__tsan_init") != nullptr; }

std::vector<std::string> race_reports() {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < race_report_count(); ++i) {
    std::string text = text_of(reports().raw[i]);
    const bool is_new = std::ranges::find(texts, text) == texts.end();
    if (is_new && !text.empty()) texts.push_back(std::move(text));
  }
  return texts;
}

std::string race_text() {
  constexpr std::size_t kNamedCount = 3;
  const std::vector<std::string> seen = race_reports();
  const std::size_t named_count = std::min(seen.size(), kNamedCount);
  std::string text = fmt::format(
      "{}", fmt::join(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(named_count), "; "));
  if (seen.size() > named_count) text += fmt::format("; and {} more", seen.size() - named_count);
  return text;
}

std::size_t race_report_count() { return reports().count; }

void ensure_race_detector(const std::string& library, std::vector<std::string> argv) {
  if (race_detector_runs()) return;
  const std::string runtime = runtime_of(library);
  if (runtime.empty()) return;
  const auto fail = [&](std::string got) {
    throw EnvironmentError({.what = "cannot start ThreadSanitizer, with which this plugin is built",
                            .where = library,
                            .wanted = "its runtime " + runtime,
                            .got = std::move(got),
                            .next = "install it (Debian and Ubuntu: package libtsan2), or build "
                                    "the plugin without -fsanitize=thread"});
  };
  if (std::getenv(kStartedVariable) != nullptr) fail("a program that was started without it");
  const char* const more = std::getenv("LD_PRELOAD");
  std::vector<std::string> environment = environment_with(
      {{"LD_PRELOAD", runtime + (more == nullptr || *more == '\0' ? "" : std::string(":") + more)},
       {"TSAN_OPTIONS", options()},
       {kStartedVariable, "1"}});
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  };
  // Where the kernel spreads addresses over 32 bits, GCC's runtime up to 13 does not start.
  const int now = personality(0xffffffff);
  if (now >= 0) (void)personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE);
  (void)execve(own_program_path().c_str(), pointers(argv).data(), pointers(environment).data());
  fail(std::strerror(errno));
}

}  // namespace allocmark::conformance

// Called by the runtime, in the thread that ran into the race.
extern "C" __attribute__((visibility("default"))) void __tsan_on_report(void* report);
extern "C" void __tsan_on_report(void* report) {
  using namespace allocmark::conformance;
  Reports& all = reports();
  // The runtime reports one thing at a time.
  const std::size_t at = all.begun_count++;
  if (at >= all.raw.size()) return;
  all.raw[at] = raw_report(report);
  all.count = at + 1;
}

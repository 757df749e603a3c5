#include "harness/simcuda/shim/gaps.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

struct KnownGaps {
  std::mutex mutex;
  Gaps gaps;
};
KnownGaps& known() { return made_once<KnownGaps>(); }

// Where the program called this library; empty where the stack does not tell.
std::string place_of_call() {
  Dl_info own{};
  dladdr(reinterpret_cast<void*>(&place_of_call), &own);
  std::array<void*, 32> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < count; ++i) {
    Dl_info caller{};
    if (dladdr(frames[static_cast<std::size_t>(i)], &caller) == 0 || caller.dli_fname == nullptr ||
        caller.dli_fbase == own.dli_fbase) {
      continue;
    }
    // The call is before the address to which it returns.
    const std::uint64_t offset =
        number(frames[static_cast<std::size_t>(i)]) - 1 - number(caller.dli_fbase);
    std::array<char, 24> text{};
    std::snprintf(text.data(), text.size(), "+0x%llx", static_cast<unsigned long long>(offset));
    std::string place = std::string(caller.dli_fname) + text.data();
    return caller.dli_sname == nullptr ? place : place + " in " + caller.dli_sname;
  }
  return {};
}

// At the end, also for simcuda-run: a program that met gaps saw errors that a GPU has not.
__attribute__((destructor)) void report_gaps() {
  const Gaps gaps = all_gaps();
  if (std::getenv("SIMCUDA_REPORT") == nullptr || gaps.empty()) return;
  std::fprintf(stderr,
               "simcuda: %llu calls failed that a GPU would have served; simcuda lacks: %s\n",
               static_cast<unsigned long long>(call_count_of(gaps)), names_of(gaps).c_str());
  bool has_kernels = false;
  for (const auto& [name, gap] : gaps) {
    has_kernels |= name.starts_with(kKernelGap);
    std::fprintf(stderr, "simcuda: %s: %llu times, first from %s\n", name.c_str(),
                 static_cast<unsigned long long>(gap.call_count),
                 gap.first_place.empty() ? "an unknown place" : gap.first_place.c_str());
  }
  if (has_kernels) {
    std::fprintf(
        stderr,
        "simcuda: add --kernels nothing (simcuda-run --kernels nothing PROGRAM ...) to let "
        "kernels do nothing: their results stay as the memory was\n");
  }
}

}  // namespace

std::uint64_t call_count_of(const Gaps& gaps) {
  std::uint64_t count = 0;
  for (const auto& [name, gap] : gaps) count += gap.call_count;
  return count;
}

std::string names_of(const Gaps& gaps) {
  std::string names;
  for (const auto& [name, gap] : gaps) names += (names.empty() ? "" : ",") + name;
  return names;
}

void note_gap(const std::string& name) {
  KnownGaps& all = known();
  const std::lock_guard lock(all.mutex);
  Gap& gap = all.gaps[name];
  if (gap.call_count++ == 0) gap.first_place = place_of_call();
}

Gaps all_gaps() {
  KnownGaps& all = known();
  const std::lock_guard lock(all.mutex);
  return all.gaps;
}

cudaError_t lack(ThreadState& thread, const std::string& name, std::string message) {
  note_gap(name);
  return explain(thread, cudaErrorNotSupported, std::move(message));
}

extern "C" int simcuda_unimplemented_driver(const char* name) {
  return lack(this_thread(), name, std::string(name) + " is not implemented by simcuda");
}

extern "C" int simcuda_unimplemented(const char* name) {
  this_thread().last_error = cudaErrorNotSupported;
  return simcuda_unimplemented_driver(name);
}

}  // namespace simcuda

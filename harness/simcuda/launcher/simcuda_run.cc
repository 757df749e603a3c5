// simcuda-run [--kernels WHICH] PROGRAM [ARGUMENT...]: starts a program on the simulated CUDA
// runtime. In: the program's file, which says how it gets its runtime. Out: the program in our
// place, with the environment that it needs; or what stands in the way, with exit code 125, 126
// (cannot be started) or 127 (no such program).
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>

#include "harness/simcuda/launcher/elf_facts.h"

namespace {

namespace fs = std::filesystem;

constexpr int kCannotRun = 125;
constexpr int kCannotStart = 126;
constexpr int kNoSuchProgram = 127;
constexpr const char* kOurRuntime = "libcudart.so." SIMCUDA_MAJOR;

// As the shell finds it; empty where there is none.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return fs::exists(name) ? name : "";
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (fs::is_regular_file(candidate) && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

// Why the program cannot run on simcuda; empty where it can.
std::string obstacle(const simcuda::ElfFacts& facts) {
  for (const std::string& library : facts.needed) {
    if (library.starts_with("libcudart.so.") && library != kOurRuntime) {
      return "needs " + library + ", and this simcuda is " + kOurRuntime +
             ". Build both with the same major version of the CUDA toolkit.";
    }
  }
  return "";
}

bool needs(const simcuda::ElfFacts& facts, std::string_view part) {
  return std::any_of(facts.needed.begin(), facts.needed.end(), [&](const std::string& library) {
    return library.find(part) != std::string::npos;
  });
}

// LD_LIBRARY_PATH is enough for a program that asks for libcudart by name. Others get simcuda
// before all libraries.
bool wants_preload(const simcuda::ElfFacts& facts) {
  return !needs(facts, "libcudart.so.") || facts.has_rpath;
}

enum class Place { First, Last };
// Last is behind what the caller preloads: a library that stands in front of the runtime stays
// there.
void put(Place place, const char* variable, const std::string& value) {
  const char* const old = std::getenv(variable);
  const std::string others = old == nullptr ? "" : old;
  const std::string joined = others.empty()          ? value
                             : place == Place::First ? value + ":" + others
                                                     : others + ":" + value;
  setenv(variable, joined.c_str(), 1);
}

int run(char** arguments) {
  const std::string program = find_program(arguments[0]);
  if (program.empty()) {
    std::fprintf(stderr, "simcuda-run: there is no program '%s'\n", arguments[0]);
    return kNoSuchProgram;
  }
  const simcuda::ElfFacts facts = simcuda::read_elf_facts(program);
  if (const std::string reason = obstacle(facts); !reason.empty()) {
    std::fprintf(stderr, "simcuda-run: %s %s\n", program.c_str(), reason.c_str());
    return kCannotRun;
  }
  const fs::path folder =
      fs::weakly_canonical(fs::read_symlink("/proc/self/exe").parent_path() / "../lib/simcuda");
  const std::string runtime = (folder / kOurRuntime).string();
  if (!fs::exists(runtime)) {
    std::fprintf(stderr,
                 "simcuda-run: %s is missing; install or build simcuda beside this program\n",
                 runtime.c_str());
    return kCannotRun;
  }
  put(Place::First, "LD_LIBRARY_PATH", folder.string());
  if (!needs(facts, "libasan.so")) {  // which wants to be first itself
    if (wants_preload(facts)) put(Place::Last, "LD_PRELOAD", runtime);
    put(Place::Last, "LD_PRELOAD", (folder / "libsimcuda_preload.so").string());
    const fs::path cupti = folder / "libcupti.so." SIMCUDA_MAJOR;
    if (fs::exists(cupti)) put(Place::Last, "LD_PRELOAD", cupti.string());
  }
  setenv("SIMCUDA_REPORT", "1", 1);
  setenv("SIMCUDA_REDIRECT_STATIC", "1", 1);
  execv(program.c_str(), arguments);
  std::fprintf(stderr, "simcuda-run: cannot start %s: %s\n", program.c_str(), std::strerror(errno));
  return kCannotStart;
}

}  // namespace

int main(int /*argument_count*/, char** arguments) {
  ++arguments;
  if (*arguments != nullptr && std::string_view(*arguments) == "--kernels") {
    if (arguments[1] == nullptr) {
      std::fputs("simcuda-run: --kernels: wanted nothing, nothing:NS, NAME_PART:NS or @FILE\n",
                 stderr);
      return kCannotRun;
    }
    setenv("SIMCUDA_KERNELS", arguments[1], 1);
    arguments += 2;
  }
  const std::string_view first = *arguments == nullptr ? "" : *arguments;
  if (first.empty() || first == "--help" || first == "-h") {
    std::fprintf(
        first.empty() ? stderr : stdout,
        "usage: simcuda-run [--kernels WHICH] PROGRAM [ARGUMENT...]\n"
        "Runs a CUDA program without a GPU, on the simulated CUDA runtime. The SIMCUDA_... "
        "variables choose the GPU, its memory and faults: see TESTING.md.\n"
        "--kernels lets kernels do nothing but take time, instead of failing: nothing (each takes "
        "2000 ns), nothing:NS, NAME_PART:NS, @FILE with rows 'NAME_PART NS'; several with commas "
        "between.\n");
    return first.empty() ? kCannotRun : 0;
  }
  try {
    return run(arguments);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "simcuda-run: %s\n", failure.what());
    return kCannotRun;
  }
}

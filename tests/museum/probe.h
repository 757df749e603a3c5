// What the probes of other libraries' bugs share: a list of named bugs, one of which a process
// shows or not. A probe is one file that is compiled against the headers of a release, outside this
// build too, and runs on simcuda.
#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "harness/simcuda/simcu_threads.h"

namespace museum {

struct Bug {
  const char* name;
  // What was seen where the bug is there, empty where it is not.
  std::string (*seen)();
};

// What was tried where nothing was seen.
inline std::string& tried() {
  static std::string text;
  return text;
}

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error));
}
#define MUSEUM_CHECK(call) ::museum::check((call), #call)

[[noreturn]] inline void say(const std::string& seen) {
  const std::string& words = seen.empty() ? tried() : seen;
  std::printf("%s%s%s\n", seen.empty() ? "absent" : "present", words.empty() ? "" : ": ",
              words.c_str());
  std::fflush(stdout);
  _exit(0);  // threads may hang, and what a bug broke is not torn down
}

inline cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  MUSEUM_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// Work on a stream that does not end before the gate is opened.
class Kernel {
 public:
  explicit Kernel(cudaStream_t stream) : gate_(++gate_count()), stream_(stream) {
    simcu::require(SIMCU(simcu_launch_gated)(stream, gate_) == 0);
  }
  ~Kernel() {
    SIMCU(simcu_open_gate)(gate_);
    (void)cudaStreamSynchronize(stream_);
  }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

 private:
  static std::uint64_t& gate_count() {
    static std::uint64_t count = 0;
    return count;
  }
  std::uint64_t gate_;
  cudaStream_t stream_;
};

// Every order of two threads: `make` begins a try and returns its two parts and what to look at
// when both have ended, which gives what was seen. The first that sees something ends the search.
struct Try {
  std::function<void()> first;
  std::function<void()> second;
  std::function<std::string(const std::string& place)> look;
};
inline std::string search(const std::function<Try()>& make) {
  std::uint64_t waited_count = 0;
  for (std::uint64_t nth = 0;; ++nth) {
    const Try parts = make();
    const simcu::Interleaving run = simcu::interleave(parts.first, parts.second, nth);
    if (!run.stopped) {
      tried() = std::to_string(nth) + " places, the other thread had to wait at " +
                std::to_string(waited_count);
      return {};
    }
    waited_count += run.second_waited ? 1 : 0;
    if (std::string seen = parts.look(run.place); !seen.empty()) return seen;
  }
}

// Whether a call comes back; where it does not, its thread is left behind.
inline bool comes_back(const std::function<void()>& call) {
  auto* const thread = new simcu::detail::WatchedThread(call);
  return simcu::detail::ends(*thread);
}

// main of a probe: PROBE --list, PROBE NAME.
template <std::size_t kCount>
int main_of(const Bug (&bugs)[kCount], int argc, char** argv) {
  const std::string name = argc == 2 ? argv[1] : "";
  for (const Bug& bug : bugs) {
    if (name == "--list") std::printf("%s\n", bug.name);
    if (name != bug.name) continue;
    try {
      say(bug.seen());
    } catch (const std::exception& thrown) {
      std::fprintf(stderr, "%s: %s\n", bug.name, thrown.what());
      return 1;
    }
  }
  if (name == "--list") return 0;
  std::fprintf(stderr, "usage: %s --list | NAME\n", argv[0]);
  return 2;
}

}  // namespace museum

// A stand-in for 'allocmark cell' in the tests of those who start cells: the workload's name says
// how it behaves.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>

#include "harness/core/run/cell_process.h"  // IWYU pragma: keep (its Packed)
#include "harness/job/child_process.h"
#include "harness/job/pass_turns.h"
#include "results/json.h"

namespace {

void send(const std::string& text) {
  if (write(allocmark::kResultFd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    std::abort();
  }
}

void crash() {
  signal(SIGSEGV, SIG_DFL);  // Sanitizers catch it otherwise.
  raise(SIGSEGV);
}

void sleep_long() { std::this_thread::sleep_for(std::chrono::hours(1)); }

void hang_unreachable() {
  signal(SIGTERM, SIG_IGN);
  close(allocmark::kResultFd);
  close(2);
  close(1);
  sleep_long();
}

// Leaves a process that holds the pipes open, as a driver's helper might.
void leave_child() {
  if (fork() == 0) {
    sleep_long();
  }
}

// Takes turns as a cell does, and writes to placements_path what it does when; the allocator is its
// name. A pass takes seed milliseconds; the third one crashes where that is wanted.
void take_turns(const allocmark::CellSpec& spec, bool crashes, allocmark::CellResult& result) {
  const auto log = [&](const std::string& text) {
    std::ofstream(spec.placements_path, std::ios::app) << spec.key.allocator << text << std::endl;
  };
  allocmark::PassTurns turns(allocmark::kTurnFd);
  log(" starts");
  if (!turns.wait()) return;
  log(" checks");
  while (turns.wait()) {
    if (crashes && result.pass_count == 2) {
      crash();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(spec.key.seed));
    log(" passes");
    ++result.pass_count;
  }
  log(" ends");
}

// Makes its passes in rounds as a cell does, and writes down when; crashes in its second one where
// that is wanted.
void pass_in_rounds(const allocmark::CellSpec& spec, bool crashes, allocmark::CellResult& result) {
  allocmark::PassTurns turns(allocmark::kTurnFd);
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(spec.key.seed));
    if (crashes && result.pass_count == 1) crash();
    std::ofstream(spec.placements_path, std::ios::app)
        << spec.key.allocator << " " << ++result.pass_count << std::endl;
    result.passes_to_come = spec.pass_count - result.pass_count;
    if (result.passes_to_come == 0) return;
    send(allocmark::to_json_line(result) + "\n");
    if (!turns.wait()) return;
  }
}

// One more than what it is told.
void pack(const allocmark::CellSpec& spec, allocmark::CellResult& result) {
  result.packed_bytes = spec.packed_bytes > 0 ? spec.packed_bytes + 1 : 4096;
}

// Says which GPU it sees, and for how long in placements_path.
void see_gpu(const allocmark::CellSpec& spec, allocmark::CellResult& result) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  result.trace_name = visible == nullptr ? "all" : visible;
  std::ofstream(spec.placements_path, std::ios::app) << "begin " << result.trace_name << std::endl;
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::ofstream(spec.placements_path, std::ios::app) << "end " << result.trace_name << std::endl;
}

void write_pid(const std::string& path) { std::ofstream(path) << getpid() << std::endl; }

// Says who it is where a test asks for it, and stays.
[[noreturn]] void hold_open(const std::string& device) {
  if (const char* path = std::getenv("OPEN_DRIVER_LOG")) {
    std::ofstream(path, std::ios::app) << getpid() << " " << device << std::endl;
  }
  while (true) sleep_long();
}

// Crashes, hangs or talks too much; returns where that is not wanted.
void end_badly(const std::string& kind, const allocmark::CellResult& result) {
  if (kind == "crash") {
    std::fputs("about to crash\n", stderr);
    crash();
  } else if (kind == "crash_late") {
    send(allocmark::to_json_line(result) + "\n");
    std::abort();
  } else if (kind == "hang") {
    sleep_long();
  } else if (kind == "hang_with_child") {
    leave_child();
    sleep_long();
  } else if (kind == "hang_ignoring_signals") {
    hang_unreachable();
  } else if (kind == "chatter") {
    for (int i = 0; i < 100'000; ++i) {
      std::fputs("chatter chatter chatter\n", stderr);
    }
    std::fputs("last words\n", stderr);
    _exit(9);
  } else if (kind == "flood") {
    const std::string megabyte(1 << 20, 'x');
    while (write(allocmark::kResultFd, megabyte.data(), megabyte.size()) > 0) {
    }
    _exit(0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || std::string_view(argv[1]) != "cell") {
    return 2;
  }
  allocmark::end_with_parent(std::atoi(argv[2]));
  if (argc == 5 && std::string_view(argv[3]) == "--open") hold_open(argv[4]);
  const std::string input((std::istreambuf_iterator<char>(std::cin)),
                          std::istreambuf_iterator<char>());
  const allocmark::CellSpec spec = allocmark::job::from_text<allocmark::CellSpec>(input, "a cell");
  const std::string& kind = spec.key.workload;
  allocmark::CellResult result;
  result.key = spec.key;
  result.event_count = 42;
  std::fputs("noise on stdout\n", stdout);
  std::fflush(stdout);
  end_badly(kind, result);
  if (kind == "pid") {
    write_pid(spec.placements_path);
    sleep_long();
  } else if (kind == "garbage") {
    send("{\"kind\":\"cell\",\x80\n");
    return 0;
  } else if (kind == "half") {
    const std::string line = allocmark::to_json_line(result);
    send(line.substr(0, line.size() / 2));
    return 0;
  } else if (kind == "silent") {
    return 0;
  } else if (kind == "exit3") {
    std::fputs("gave up\n", stderr);
    return 3;
  } else if (kind == "other_key") {
    result.key.seed += 1;
  } else if (kind == "leave_child") {
    leave_child();
  } else if (kind == "packs") {
    pack(spec, result);
  } else if (kind == "closes_turns") {
    close(allocmark::kTurnFd);
    std::this_thread::sleep_for(std::chrono::milliseconds(spec.key.seed));
  } else if (kind == "turns" || kind == "turns_crash") {
    take_turns(spec, kind == "turns_crash", result);
  } else if (kind == "rounds" || kind == "rounds_crash" || kind == "rounds_packs") {
    if (kind == "rounds_packs") pack(spec, result);
    pass_in_rounds(spec, kind == "rounds_crash", result);
  } else if (kind == "environment") {
    const char* path = std::getenv("SIMCUDA_PROFILE");
    result.trace_name = path == nullptr ? "none" : path;
  } else if (kind == "visible") {
    see_gpu(spec, result);
  }
  send(allocmark::to_json_line(result) + "\n");
  return 0;
}

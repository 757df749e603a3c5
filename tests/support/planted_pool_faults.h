// The faults that planted_pool.cc can be given, which of them a copy of it has (the one that the
// file is named after), and what they do beside its calls.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cfenv>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <thread>
#include <utility>

namespace {

enum class Fault {
  None,
  // Order of streams.
  RetryUnfinished,   // after out of memory, blocks whose recorded streams still work are used again
  RetryOtherStream,  // after out of memory, takes a free block of another stream
  SplitRest,         // the rest of a split block goes to another stream
  LastRecordOnly,    // waits for the last recorded stream alone
  ForgetsThird,      // waits for two recorded streams at most
  StreamHandle,      // takes a new stream for the destroyed one that had its handle
  RecordDefault,     // takes the default stream, which is NULL, for none
  FewEvents,         // while more than 200 events are waited for, waits for no others
  // Sizes, and how many.
  RoundsDown,        // 513, 1025, ... bytes get one unit too few
  MibTooSmall,       // 1 MiB + 1 to 512 bytes get 1 MiB
  LiveAfter35k,      // hands out live blocks again after 35,000 requests
  LiveAfterMillion,  // the same after a million
  LiveAfterTrims,    // the same after three trims
  DoubleAbove65536,  // the same while more than 65,536 blocks live
  NullAbove16384,    // refuses while more than 16,384 blocks live
  // Odd calls, and the process.
  DoubleFree,    // a second free puts the block into the pool once more
  ForeignFree,   // a pointer of somebody else's goes into the pool
  Truncates,     // keeps 32 bits of a size
  Spills,        // when the device is full, hands out managed memory
  ThreadCache,   // keeps what a thread frees for that thread, also when it has ended
  Denormals,     // when loaded, makes denormal numbers count as 0, as -ffast-math does
  Signal,        // when loaded, lets SIGTERM do nothing
  Folder,        // with its first request, goes to another folder
  Environment,   // the same, hides the second device
  SizeZeroLeak,  // a request of 0 bytes loses 2 MiB
  DeviceLeft,    // leaves the device current that was asked for
  ExitCrash,     // crashes when the process ends
  ExitHang,      // does not let the process end
  ExitAtOnce,    // ends it with code 0 before the program has done what it does at its end
  EventsLeak,    // destroys no event, and uses none again
  ErrorLeft,     // leaves the error of a call behind when it polls
  // Time and the host.
  BlocksOnEvent,   // waits for events instead of polling
  LockHold,        // a thread of its own holds the lock for 5 ms of each 100
  BurnsCore,       // a thread of its own spins
  HostTable,       // a table of 1 GiB
  HostPerRequest,  // keeps 8 bytes of each request
  OpenFiles,       // leaves a file open every 1,000 requests
  Uptime,          // takes longer the more requests there were
  Stall3ms,        // takes 3 ms in one request of 20,000
  ZeroesBlocks,    // fills every block with zeros
};

constexpr std::pair<const char*, Fault> kFaults[] = {
    {"none", Fault::None},
    {"retry_unfinished", Fault::RetryUnfinished},
    {"retry_other_stream", Fault::RetryOtherStream},
    {"split_rest", Fault::SplitRest},
    {"last_record_only", Fault::LastRecordOnly},
    {"forgets_third", Fault::ForgetsThird},
    {"stream_handle", Fault::StreamHandle},
    {"record_default", Fault::RecordDefault},
    {"few_events", Fault::FewEvents},
    {"rounds_down", Fault::RoundsDown},
    {"mib_too_small", Fault::MibTooSmall},
    {"live_after_many", Fault::LiveAfter35k},
    {"live_after_million", Fault::LiveAfterMillion},
    {"live_after_trims", Fault::LiveAfterTrims},
    {"double_when_deep", Fault::DoubleAbove65536},
    {"null_when_deep", Fault::NullAbove16384},
    {"double_free", Fault::DoubleFree},
    {"foreign_free", Fault::ForeignFree},
    {"truncates", Fault::Truncates},
    {"spills", Fault::Spills},
    {"thread_cache", Fault::ThreadCache},
    {"denormals", Fault::Denormals},
    {"signal", Fault::Signal},
    {"folder", Fault::Folder},
    {"environment", Fault::Environment},
    {"size_zero_leak", Fault::SizeZeroLeak},
    {"device_left", Fault::DeviceLeft},
    {"exit_crash", Fault::ExitCrash},
    {"exit_hang", Fault::ExitHang},
    {"exit_at_once", Fault::ExitAtOnce},
    {"events_leak", Fault::EventsLeak},
    {"error_left", Fault::ErrorLeft},
    {"blocks_on_event", Fault::BlocksOnEvent},
    {"lock_hold", Fault::LockHold},
    {"burns_core", Fault::BurnsCore},
    {"host_table", Fault::HostTable},
    {"host_per_request", Fault::HostPerRequest},
    {"open_files", Fault::OpenFiles},
    {"uptime", Fault::Uptime},
    {"stall", Fault::Stall3ms},
    {"zeroes_blocks", Fault::ZeroesBlocks},
};

// pool_NAME.so, wherever it lies.
Fault fault_of_file() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&fault_of_file), &info) == 0) std::abort();
  const char* const slash = std::strrchr(info.dli_fname, '/');
  const char* const file = slash == nullptr ? info.dli_fname : slash + 1;
  char name[64] = "";
  (void)std::sscanf(file, "pool_%63[a-z_]", name);
  for (const auto& [known, fault] : kFaults) {
    if (std::strcmp(known, name) == 0) return fault;
  }
  std::fprintf(stderr, "planted pool: no fault is called '%s'\n", name);
  std::abort();
}

const Fault kFault = fault_of_file();
bool has(Fault fault) { return kFault == fault; }

void spin_ns(long wanted_ns) {
  timespec begin{};
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1'000'000'000L + now.tv_nsec - begin.tv_nsec < wanted_ns);
}

// With the first request.
void run_beside(std::mutex& mutex) {
  if (has(Fault::Folder)) (void)!chdir("/");
  if (has(Fault::Environment)) (void)setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  if (has(Fault::BurnsCore)) {
    std::thread([] {
      volatile std::uint64_t count = 0;
      while (true) count = count + 1;
    }).detach();
  }
  if (has(Fault::LockHold)) {
    std::thread([&mutex] {
      while (true) {
        usleep(95'000);
        const std::scoped_lock lock(mutex);
        usleep(5'000);
      }
    }).detach();
  }
  if (has(Fault::HostTable)) {
    constexpr std::size_t kTableBytes = std::size_t{1} << 30;
    static char* const table = static_cast<char*>(std::malloc(kTableBytes));
    if (table != nullptr) std::memset(table, 1, kTableBytes);
  }
}

// What a library changes of the process when it is loaded.
struct AtBegin {
  AtBegin() {
#ifdef __SSE2__
    if (has(Fault::Denormals)) __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#else
    if (has(Fault::Denormals)) (void)std::fesetround(FE_TOWARDZERO);
#endif
    if (has(Fault::Signal)) (void)std::signal(SIGTERM, SIG_IGN);
  }
};
const AtBegin at_begin;

// What ends the process as it should not.
struct AtEnd {
  ~AtEnd() {
    if (has(Fault::ExitCrash)) std::raise(SIGSEGV);
    if (has(Fault::ExitHang)) sleep(3600);
    if (has(Fault::ExitAtOnce)) _exit(0);
  }
};
const AtEnd at_end;

}  // namespace

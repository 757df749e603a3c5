// The faults that faulty_plugin.cc can be given, and which of them a copy of it has: the one that
// the file is named after, or the variable FAULTY_PLUGIN.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

enum class Fault {
  None,
  // Right, with another kind of lock.
  SpinLock,
  NapLock,
  // Order of streams.
  IgnoresRecord,  // record_stream does nothing
  AnyStream,      // a freed block goes to any stream at once
  WrongStream,    // the event is recorded on the block's own stream
  EarlyEvent,     // the event is recorded when record_stream is called, not at the free
  NoWait,         // the event is recorded and never asked about
  NoStreamWait,   // reused on another stream after an event on the old one, without the wait
  // Memory.
  Overlap,        // every 10th block begins inside the one before it
  DoubleHandOut,  // every 20th freed block goes out twice
  Misaligned,     // addresses are 8 bytes behind a multiple of 16
  AlignShrinks,   // the same from the 60th request on
  HostPointer,    // host memory
  Scribbles,      // writes a byte into the block handed out before
  Leaks,          // every 10th freed block is forgotten
  TrimKeeps,      // trim does nothing
  Grows,          // freed blocks are used again only after a trim
  LifoOnly,       // forgets a freed block that is not the newest one
  RoundsUp,       // every block takes 30 % more
  // Answers.
  NullSometimes,     // every 40th request fails
  OomEarly,          // fails above 1 GiB in use
  NullAfterOom,      // fails for good after the first failure
  StaleError,        // leaves the runtime's last error behind after a failure
  SizeZeroCrash,     // aborts at a request of 0 bytes
  FreeNullCrash,     // aborts when null is freed
  ForeignFreeCrash,  // aborts when a pointer is freed that it did not hand out
  InitTwiceCrash,    // aborts at the second call of init
  DeviceZero,        // always uses device 0, and makes it the current one
  StreamDefault,     // allocates and waits on the default stream, whatever stream it is given
  // Running.
  Crash,       // aborts at the 5th request
  Hang,        // never answers the 5th request
  Exit,        // ends the process with code 0 at the 5th request
  Throw,       // throws at the 5th request
  Fork,        // forks at the 5th request, and the child goes on as well
  LostUnlock,  // a failed request keeps the lock
  ThreadRacy,  // takes no lock
  // What only another thread at the wrong moment runs into.
  RecordsUnlocked,  // offers a freed block to others, unlocks, and then records its event
  DestroysEvent,    // the same, and a failed request destroys the events of what is freed
  ClaimsUnlocked,   // picks a kept block, unlocks for a CUDA call, and then takes it off the list
  LockCycle,        // requests lock A and then B, frees lock B and then A
  Random,           // places a block elsewhere now and then, as a random number says
  // Time.
  SlowTail,          // 1 request in 60 takes 500 ns longer
  SlowAll,           // each takes 100 ns longer
  ColdStart,         // each of the first 500 takes 2 us longer
  Quadratic,         // takes longer the more requests there were
  ExtraDriverCalls,  // one more cudaMalloc and cudaFree every 100 requests
};

constexpr std::pair<const char*, Fault> kFaults[] = {
    {"none", Fault::None},
    {"spin_lock", Fault::SpinLock},
    {"nap_lock", Fault::NapLock},
    {"ignores_record", Fault::IgnoresRecord},
    {"any_stream", Fault::AnyStream},
    {"wrong_stream", Fault::WrongStream},
    {"early_event", Fault::EarlyEvent},
    {"no_wait", Fault::NoWait},
    {"no_stream_wait", Fault::NoStreamWait},
    {"overlap", Fault::Overlap},
    {"double_hand_out", Fault::DoubleHandOut},
    {"misaligned", Fault::Misaligned},
    {"align_shrinks", Fault::AlignShrinks},
    {"host_pointer", Fault::HostPointer},
    {"scribbles", Fault::Scribbles},
    {"leaks", Fault::Leaks},
    {"trim_keeps", Fault::TrimKeeps},
    {"grows", Fault::Grows},
    {"lifo_only", Fault::LifoOnly},
    {"rounds_up", Fault::RoundsUp},
    {"null_sometimes", Fault::NullSometimes},
    {"oom_early", Fault::OomEarly},
    {"null_after_oom", Fault::NullAfterOom},
    {"stale_error", Fault::StaleError},
    {"size_zero_crash", Fault::SizeZeroCrash},
    {"free_null_crash", Fault::FreeNullCrash},
    {"foreign_free_crash", Fault::ForeignFreeCrash},
    {"init_twice_crash", Fault::InitTwiceCrash},
    {"device_zero", Fault::DeviceZero},
    {"stream_default", Fault::StreamDefault},
    {"crash", Fault::Crash},
    {"hang", Fault::Hang},
    {"exit", Fault::Exit},
    {"throw", Fault::Throw},
    {"fork", Fault::Fork},
    {"lost_unlock", Fault::LostUnlock},
    {"thread_racy", Fault::ThreadRacy},
    {"records_unlocked", Fault::RecordsUnlocked},
    {"destroys_event", Fault::DestroysEvent},
    {"claims_unlocked", Fault::ClaimsUnlocked},
    {"lock_cycle", Fault::LockCycle},
    {"random", Fault::Random},
    {"slow_tail", Fault::SlowTail},
    {"slow_all", Fault::SlowAll},
    {"cold_start", Fault::ColdStart},
    {"quadratic", Fault::Quadratic},
    {"extra_driver_calls", Fault::ExtraDriverCalls},
};

// faulty_NAME.so, wherever it lies.
Fault fault_of_file() {
  const char* name = std::getenv("FAULTY_PLUGIN");
  char from_path[64] = "";
  if (name == nullptr) {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&fault_of_file), &info) == 0) std::abort();
    const char* const slash = std::strrchr(info.dli_fname, '/');
    const char* const file = slash == nullptr ? info.dli_fname : slash + 1;
    (void)std::sscanf(file, "faulty_%63[a-z_]", from_path);
    name = from_path;
  }
  for (const auto& [known, fault] : kFaults) {
    if (std::strcmp(known, name) == 0) return fault;
  }
  std::fprintf(stderr, "faulty plugin: no fault is called '%s'\n", name);
  std::abort();
}

const Fault kFault = fault_of_file();
bool has(Fault fault) { return kFault == fault; }

}  // namespace

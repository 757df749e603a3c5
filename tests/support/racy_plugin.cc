// An allocator plugin that is right, and can be given one race: for the tests of what should find
// races. It keeps freed blocks by size, with one lock around all; every block has a table entry.
//
// The race is the file's name: a copy called racy_early_unlock.so unlocks early, racy_none.so is
// right. Functions: my_malloc, my_free, my_trim.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

enum class Race {
  // Right, with other ways to order threads.
  None,
  OwnSpinLock,
  CallOnce,
  PartLocks,
  AtomicCounter,
  // Wrong.
  UnlockedList,     // a free puts the block on the list without the lock
  UnlockedLookup,   // a free looks the block up in the table before it takes the lock
  UnlockedCounter,  // requests are counted outside the lock
  UnlockedLimit,    // whether the cache is full is read before the lock is taken
  EarlyUnlock,      // the lock is given up before the block's entry is made
  WrongLock,        // frees take another lock than requests
  SharedLock,       // the list is changed under a lock for readers
  DoubleChecked,    // the list is made on first use, by a look without the lock
  UnlockedTrim,     // trim empties the list without the lock
  UnlockedRetry,    // only what happens after a failed cudaMalloc goes without the lock
  RelaxedSpinLock,  // its own lock orders nothing but itself
  KeptReference,    // a request writes to its entry after the lock, while the table may move it
  LockOrder,        // requests take lock A and then B, frees B and then A
  LostWake,         // its own lock forgets to wake one who has just gone to sleep
};
constexpr std::pair<const char*, Race> kRaces[] = {
    {"none", Race::None},
    {"own_spin_lock", Race::OwnSpinLock},
    {"call_once", Race::CallOnce},
    {"part_locks", Race::PartLocks},
    {"atomic_counter", Race::AtomicCounter},
    {"unlocked_list", Race::UnlockedList},
    {"unlocked_lookup", Race::UnlockedLookup},
    {"unlocked_counter", Race::UnlockedCounter},
    {"unlocked_limit", Race::UnlockedLimit},
    {"early_unlock", Race::EarlyUnlock},
    {"wrong_lock", Race::WrongLock},
    {"shared_lock", Race::SharedLock},
    {"double_checked", Race::DoubleChecked},
    {"unlocked_trim", Race::UnlockedTrim},
    {"unlocked_retry", Race::UnlockedRetry},
    {"relaxed_spin_lock", Race::RelaxedSpinLock},
    {"kept_reference", Race::KeptReference},
    {"lock_order", Race::LockOrder},
    {"lost_wake", Race::LostWake},
};

Race race_of_file() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&race_of_file), &info) == 0) std::abort();
  const char* const slash = std::strrchr(info.dli_fname, '/');
  char name[64] = "";
  (void)std::sscanf(slash == nullptr ? info.dli_fname : slash + 1, "racy_%63[a-z_]", name);
  for (const auto& [known, race] : kRaces) {
    if (std::strcmp(known, name) == 0) return race;
  }
  std::fprintf(stderr, "racy plugin: no race is called '%s'\n", name);
  std::abort();
}

const Race kRace = race_of_file();
bool is(Race race) { return kRace == race; }

struct Entry {
  std::size_t size_bytes = 0;
  cudaStream_t stream = nullptr;
  long request = 0;
};
using List = std::multimap<std::pair<cudaStream_t, std::size_t>, void*>;

std::mutex mutex, other_mutex, part_mutexes[2];
std::shared_mutex shared_mutex;
std::atomic<int> spin = 0, sleeper_count = 0;
std::once_flag once;
std::unordered_map<void*, Entry> table;
std::vector<Entry> log_entries;
List* list = nullptr;
std::size_t kept_bytes = 0;
long request_count = 0;
std::atomic<long> atomic_count = 0;

List& kept() {
  if (list == nullptr) list = new List;
  return *list;
}

// Sleeps until the lock is free. Who sleeps is counted after the look, so that an unlock between
// the two wakes nobody.
void lock_with_sleep() {
  while (spin.exchange(1) == 1) {
    sched_yield();
    sleeper_count.fetch_add(1);
    (void)syscall(SYS_futex, &spin, FUTEX_WAIT_PRIVATE, 1, nullptr, nullptr, 0);
    sleeper_count.fetch_sub(1);
  }
}
void unlock_with_wake() {
  const bool wakes = sleeper_count.load() != 0;
  if (atomic_count.fetch_add(1) % 8 == 0) sched_yield();
  spin.store(0);
  if (wakes) (void)syscall(SYS_futex, &spin, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void lock_all(bool in_free) {
  if (is(Race::OwnSpinLock)) {
    while (spin.exchange(1, std::memory_order_acquire) == 1) sched_yield();
  } else if (is(Race::RelaxedSpinLock)) {
    while (spin.exchange(1, std::memory_order_relaxed) == 1) sched_yield();
  } else if (is(Race::LostWake)) {
    lock_with_sleep();
  } else if (is(Race::SharedLock)) {
    shared_mutex.lock_shared();
  } else if (is(Race::WrongLock) && in_free) {
    other_mutex.lock();
  } else if (is(Race::PartLocks)) {
    for (std::mutex& part : part_mutexes) part.lock();
  } else {
    if (is(Race::LockOrder) && in_free) other_mutex.lock();
    mutex.lock();
    if (is(Race::LockOrder) && !in_free) other_mutex.lock();
  }
}
void unlock_all(bool in_free) {
  if (is(Race::OwnSpinLock)) {
    spin.store(0, std::memory_order_release);
  } else if (is(Race::RelaxedSpinLock)) {
    spin.store(0, std::memory_order_relaxed);
  } else if (is(Race::LostWake)) {
    unlock_with_wake();
  } else if (is(Race::SharedLock)) {
    shared_mutex.unlock_shared();
  } else if (is(Race::WrongLock) && in_free) {
    other_mutex.unlock();
  } else if (is(Race::PartLocks)) {
    for (std::mutex& part : part_mutexes) part.unlock();
  } else {
    if (is(Race::LockOrder)) other_mutex.unlock();
    mutex.unlock();
  }
}

void release_kept() {
  for (auto& [key, pointer] : kept()) (void)cudaFree(pointer);
  kept().clear();
  kept_bytes = 0;
}

void* take(std::size_t size_bytes, cudaStream_t stream) {
  const auto found = kept().find({stream, size_bytes});
  if (found != kept().end()) {
    void* const pointer = found->second;
    kept().erase(found);
    kept_bytes -= size_bytes;
    return pointer;
  }
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, size_bytes) == cudaSuccess) return pointer;
  (void)cudaGetLastError();
  if (is(Race::UnlockedRetry)) unlock_all(false);
  release_kept();
  if (cudaMalloc(&pointer, size_bytes) != cudaSuccess) pointer = nullptr;
  (void)cudaGetLastError();
  if (is(Race::UnlockedRetry)) lock_all(false);
  return pointer;
}

void put(void* pointer, const Entry& entry) {
  kept().emplace(std::pair{entry.stream, entry.size_bytes}, pointer);
  kept_bytes += entry.size_bytes;
}

}  // namespace

extern "C" {

void* my_malloc(ssize_t size, int /*device*/, cudaStream_t stream) {
  const std::size_t size_bytes = (static_cast<std::size_t>(size) + 511) / 512 * 512;
  if (size == 0) return nullptr;
  if (is(Race::UnlockedCounter)) ++request_count;
  if (is(Race::AtomicCounter)) ++atomic_count;
  if (is(Race::CallOnce)) std::call_once(once, [] { list = new List; });
  if (is(Race::DoubleChecked) && list == nullptr) {
    const std::lock_guard lock(mutex);
    if (list == nullptr) list = new List;
  }
  lock_all(false);
  void* const pointer = take(size_bytes, stream);
  if (is(Race::EarlyUnlock)) unlock_all(false);
  Entry* entry = nullptr;
  if (pointer != nullptr) {
    entry = &(table[pointer] = {.size_bytes = size_bytes, .stream = stream});
    if (is(Race::KeptReference)) {
      if (log_entries.size() > 4096) log_entries.clear();
      log_entries.push_back(*entry);
      entry = &log_entries.back();
    }
  }
  if (!is(Race::EarlyUnlock)) unlock_all(false);
  if (is(Race::KeptReference) && entry != nullptr) entry->request = 1;
  return pointer;
}

void my_free(void* pointer, ssize_t /*size*/, int /*device*/, cudaStream_t /*stream*/) {
  if (pointer == nullptr) return;
  if (is(Race::UnlockedLookup) && table.find(pointer) == table.end()) return;
  const bool is_full = is(Race::UnlockedLimit) && kept_bytes > std::size_t{1} << 36;
  lock_all(true);
  const auto found = table.find(pointer);
  if (found == table.end()) {
    unlock_all(true);
    return;
  }
  const Entry entry = found->second;
  table.erase(found);
  if (is(Race::UnlockedList)) unlock_all(true);
  if (is_full) {
    (void)cudaFree(pointer);
  } else {
    put(pointer, entry);
  }
  if (!is(Race::UnlockedList)) unlock_all(true);
}

void my_trim(void) {
  if (!is(Race::UnlockedTrim)) lock_all(false);
  release_kept();
  if (!is(Race::UnlockedTrim)) unlock_all(false);
}

}  // extern "C"

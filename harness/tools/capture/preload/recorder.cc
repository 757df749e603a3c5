#include "harness/tools/capture/preload/recorder.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "harness/tools/capture/preload/row.h"

namespace allocmark_capture {
namespace {

constexpr std::uint32_t kStreamCountMax = 4096;  // of a trace
constexpr std::size_t kLabelBytesMax = 256;

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Never destroyed: threads may still allocate while the process ends.
Recorder& recorder() {
  static Recorder* const made = new Recorder;
  return *made;
}

void after_fork_in_child() {
  recorder().start_anew();
  pthread_mutex_unlock(&lock);
}

// What a file name may hold.
std::string plain(std::string text) {
  for (char& c : text) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
    if (!kept) c = '_';
  }
  return text.empty() || text[0] == '.' ? "_" + text : text;
}

}  // namespace

void say(const std::string& text) {
  const std::string line = "allocmark capture: " + text + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

LockedRecorder::LockedRecorder() { pthread_mutex_lock(&lock); }
LockedRecorder::~LockedRecorder() { pthread_mutex_unlock(&lock); }
Recorder* LockedRecorder::operator->() const { return &recorder(); }

void LockedRecorder::cut_files() {
  constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 1'000'000};
  if (!recorder().is_of_this_process()) return;
  for (int tries = 0; pthread_mutex_trylock(&lock) != 0; ++tries) {
    if (tries == 200) return;
    nanosleep(&kPause, nullptr);
  }
  recorder().for_each([](DeviceTrace& trace) { trace.finish(); });
  pthread_mutex_unlock(&lock);
}

std::uint32_t StreamIndexes::of(std::uint64_t stream) {
  if (stream == 0) return 0;
  const auto [found, is_new] = indexes_.try_emplace(stream, 0);
  if (!is_new) return found->second;
  if (!released_.empty()) {
    found->second = released_.back();
    released_.pop_back();
  } else {
    found->second = std::min(count_, kStreamCountMax - 1);
    count_ = std::min(count_ + 1, kStreamCountMax);
  }
  return found->second;
}

void StreamIndexes::release(std::uint64_t stream) {
  const auto found = indexes_.find(stream);
  if (found == indexes_.end()) return;
  released_.push_back(found->second);
  indexes_.erase(found);
}

void DeviceTrace::write(const Row& row) {
  static constexpr std::string_view kWait = "sync,0,0,0,\n";
  if (wait_is_due_) file_.append(kWait.data(), kWait.size());
  wait_is_due_ = false;
  file_.append(row.bytes, row.size);
}

std::uint32_t DeviceTrace::stream_index(std::uint64_t stream) {
  const std::uint32_t before = streams_.count();
  const std::uint32_t index = streams_.of(stream);
  if (streams_.count() != before) file_.set_stream_count(streams_.count());
  return index;
}

void DeviceTrace::allocated(const MemoryRequest& request) {
  // Its free went unseen, as in a library that carries a runtime of its own.
  if (knows(request.address)) (void)freed(request.address);
  const std::uint32_t stream = stream_index(request.stream);
  ++counts_.requests;
  blocks_.insert({.id = request.address, .size_bytes = stream, .birth = ++id_last_});
  write(Row("alloc").number(id_last_).number(request.size_bytes).number(stream).text(",\n"));
}

void DeviceTrace::failed(const MemoryRequest& request) {
  const std::uint32_t stream = stream_index(request.stream);
  ++counts_.requests;
  ++counts_.failed;
  ++id_last_;
  write(Row("alloc").number(id_last_).number(request.size_bytes).number(stream).text(",failed\n"));
  write(Row("free").number(id_last_).text(",0,0,\n"));
}

bool DeviceTrace::freed(std::uint64_t address) {
  const allocmark::TracedBlock* const block = blocks_.find(address);
  if (block == nullptr) return false;
  write(Row("free").number(block->birth).text(",0,0,\n"));
  blocks_.erase(address);
  return true;
}

bool DeviceTrace::freed_on(std::uint64_t address, std::uint64_t stream) {
  const allocmark::TracedBlock* const block = blocks_.find(address);
  if (block == nullptr) return false;
  const std::uint32_t index = stream_index(stream);
  if (index != block->size_bytes) {
    write(Row("record").number(block->birth).number(0).number(index).text(",\n"));
  }
  return freed(address);
}

void DeviceTrace::host_allocated(std::uint64_t address, std::uint64_t size_bytes) {
  host_freed(address);  // where its free went unseen
  host_blocks_[address] = ++id_last_;
  write(Row("host_alloc").number(id_last_).number(size_bytes).text(",0,\n"));
}

void DeviceTrace::host_freed(std::uint64_t address) {
  const auto found = host_blocks_.find(address);
  if (found == host_blocks_.end()) return;
  write(Row("host_free").number(found->second).text(",0,0,\n"));
  host_blocks_.erase(found);
}

void DeviceTrace::trimmed() { write(Row("empty_cache,0,0,0,\n")); }

void DeviceTrace::marked(std::string_view label) {
  Row row("mark,");
  for (const char c : label.substr(0, kLabelBytesMax)) {
    const bool kept = c > ' ' && c < '\x7f' && c != ',';
    row.text(std::string_view(kept ? &c : "_", 1));
  }
  write(row.text(",0,0,\n"));
}

void DeviceTrace::everything_freed() {
  std::vector<std::uint64_t> addresses;
  blocks_.for_each([&](const allocmark::TracedBlock& block) { addresses.push_back(block.id); });
  for (const std::uint64_t address : addresses) (void)freed(address);
  while (!host_blocks_.empty()) host_freed(host_blocks_.begin()->first);
}

bool Recorder::begin(std::string folder) {
  if (is_on() || folder.empty() || access(folder.c_str(), W_OK | X_OK) != 0) return false;
  char* const absolute = realpath(folder.c_str(), nullptr);
  folder_ = absolute != nullptr ? absolute : folder;
  std::free(absolute);
  process_ = getpid();
  static const int registered = pthread_atfork(
      [] { pthread_mutex_lock(&lock); }, [] { pthread_mutex_unlock(&lock); }, after_fork_in_child);
  (void)registered;
  return true;
}

DeviceTrace* Recorder::device(int index) {
  if (index < 0 || index >= kDeviceCountMax || refused_[index] || !is_on()) return nullptr;
  std::unique_ptr<DeviceTrace>& trace = devices_[index];
  if (trace == nullptr) {
    const std::string program = plain(program_invocation_short_name);
    const std::string gpu = "gpu" + std::to_string(index);
    auto made = std::make_unique<DeviceTrace>();
    if (!made->file().create(folder_, program + "-" + std::to_string(getpid()) + "-" + gpu,
                             program)) {
      refused_[index] = true;
      say(made->file().problem() + "; nothing is recorded for " + gpu);
      return nullptr;
    }
    trace = std::move(made);
  }
  return trace.get();
}

DeviceTrace* Recorder::owner_of(std::uint64_t address) {
  for (const std::unique_ptr<DeviceTrace>& trace : devices_) {
    if (trace != nullptr && trace->knows(address)) return trace.get();
  }
  return nullptr;
}

bool Recorder::has_files() const {
  return std::ranges::any_of(devices_, [](const auto& trace) { return trace != nullptr; });
}

bool Recorder::is_of_this_process() const { return process_ == getpid(); }

void Recorder::finish() {
  // Who started the program says it of all processes together.
  const bool is_alone = std::getenv("ALLOCMARK_CAPTURE_QUIET") == nullptr;
  for_each([&](DeviceTrace& trace) {
    const CaptureCounts& counts = trace.counts();
    const std::string path = trace.file().path() + ": ";
    trace.finish();
    if (is_alone) {
      say(path + std::to_string(counts.requests) + " requests, " + std::to_string(counts.failed) +
          " of them failed");
    }
    if (counts.held != 0) {
      say(path + std::to_string(counts.held) +
          " blocks were given back while another stream used them, which the trace leaves out");
    }
    if (counts.astray != 0) {
      say(path + std::to_string(counts.astray) +
          " requests went to other pools than the trace says: other threads asked while requests "
          "went to a private pool, or the pool was begun before the recording");
    }
    if (counts.graph_requests != 0) {
      say(path + std::to_string(counts.graph_requests) +
          " requests were of graphs' own memory, which the trace holds as private pools: "
          "`caching` and `torch` replay it, `async` and `native` skip it");
    }
    if (!trace.file().problem().empty()) {
      say(trace.file().problem() + "; the trace ends there, and the program went on");
    }
  });
  if (driver_pools_.size() > 1) {
    say("requests went to " + std::to_string(driver_pools_.size()) +
        " pools of the driver, which the traces do not keep apart");
  }
  for (const auto& [function, count] : unrecorded_) {
    say(std::to_string(count) + " calls of " + function +
        " were not recorded: a trace holds what "
        "cudaMalloc and the memory pools give");
  }
  folder_.clear();
}

void Recorder::start_anew() {
  process_ = getpid();
  unrecorded_.clear();
  driver_pools_.clear();
  graphs_ = {};
  for (std::unique_ptr<DeviceTrace>& trace : devices_) {
    if (trace != nullptr) trace->file().forget();
    trace.reset();
  }
  std::fill(std::begin(refused_), std::end(refused_), false);
}

}  // namespace allocmark_capture

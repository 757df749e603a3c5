// A library's two functions behind the interface; see pluggable.h.
#include "allocators/plugins/pluggable.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "allocators/backend/live_set.h"
#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/memory_calls.h"
#include "allocators/plugins/library_probe.h"

namespace allocmark {
namespace {

std::vector<std::string> conf_keys() {
  return {"library", "malloc", "free", "record_stream", "trim", "init", "as"};
}

// A value in brackets can hold what else would end it: blanks, commas, colons.
std::string unbracketed(std::string_view value) {
  if (value.starts_with('[')) value = value.substr(1, value.size() - 2);
  return std::string(value);
}

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
}

std::vector<std::string> symbols_of(const PluggableConf& conf) {
  std::vector<std::string> symbols = {conf.malloc_symbol, conf.free_symbol};
  for (const std::string& optional :
       {conf.record_stream_symbol, conf.trim_symbol, conf.init_symbol}) {
    if (!optional.empty()) symbols.push_back(optional);
  }
  return symbols;
}

// Reads the string and looks into the library: whoever plans a run is told before anything runs.
std::optional<ErrorText> check_conf(std::string_view text) {
  const ConfResult<PluggableConf> read = read_pluggable_conf(text);
  if (read.error) return read.error;
  const std::string problem =
      library_problem({.path = read.conf.library, .symbols = symbols_of(read.conf)});
  if (problem.empty()) return std::nullopt;
  return ErrorText{.what = "this library cannot be used as an allocator",
                   .where = read.conf.library,
                   .wanted = "a shared library with the functions " + read.conf.malloc_symbol +
                             " and " + read.conf.free_symbol,
                   .got = problem,
                   .next = "name it as pluggable:PATH.so,MALLOC_SYMBOL,FREE_SYMBOL,KEY:VALUE"};
}

std::optional<ErrorText> check_simulated(std::string_view text) {
  return simulated_plugin_error(read_pluggable_conf(text).conf);
}

// The interface promises neither order nor alignment; 16 bytes are what vector loads need. A
// library that takes record_stream knows of every use, so order can be asked of it.
BackendCapabilities capabilities_with(std::string_view conf) {
  return {.any_thread = true,
          .stream_ordered = !read_pluggable_conf(conf).conf.record_stream_symbol.empty(),
          .alignment_bytes = 16};
}

std::string residue_hint(std::string_view conf) {
  if (!read_pluggable_conf(conf).conf.trim_symbol.empty()) return {};
  return "; no trim function is named, so this may be the plugin's cache, with which later passes "
         "begin: add trim:FUNCTION";
}

EnvironmentError library_error(const std::string& library, std::string what, std::string got,
                               std::string next = {}) {
  return EnvironmentError(
      {.what = std::move(what), .where = library, .got = std::move(got), .next = std::move(next)});
}

// What a library throws is its own doing, and no bug of ours.
template <typename Call>
auto call_library(const std::string& library, Call call) {
  try {
    return call();
  } catch (const std::exception& thrown) {
    throw library_error(library, "the library threw an exception", thrown.what(),
                        "its functions are C: catch it there and return a null pointer");
  }
}

class PluggableBackend final : public Backend {
 public:
  // Loads the library, which stays loaded until the process ends: it may have threads and caches of
  // its own. Throws EnvironmentError where it does not load or lacks a function.
  explicit PluggableBackend(const PluggableConf& conf) : library_(conf.library) {
    ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device_));
    void* const library = dlopen(loadable_path(conf.library).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw library_error(library_, "the library does not load", dlerror());
    const auto find = [&](const std::string& symbol, auto& function) {
      if (symbol.empty()) return;
      void* const found = dlsym(library, symbol.c_str());
      if (found == nullptr) throw library_error(library_, "a function is missing", symbol);
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    find(conf.malloc_symbol, malloc_);
    find(conf.free_symbol, free_);
    find(conf.record_stream_symbol, record_stream_);
    find(conf.trim_symbol, trim_);
    device_used_bytes_ =
        reinterpret_cast<std::uint64_t (*)()>(dlsym(RTLD_DEFAULT, "simcu_used_bytes"));
    if (device_used_bytes_ != nullptr) used_bytes_before_ = device_used_bytes_();
    if (!conf.init_symbol.empty()) call_init_once(conf.init_symbol, library);
  }

  // Waits for the device, gives what is live back to the library, and trims.
  ~PluggableBackend() override {
    // The streams of the live blocks may be gone, so all work is waited for and the default stream
    // named instead.
    (void)cudaDeviceSynchronize();
    live_.for_each([this](const LiveBlock& block) {
      free_(block.pointer, static_cast<ssize_t>(block.size_bytes), device_, nullptr);
    });
    // A library may order its frees on the stream; what it caches is complete after that.
    (void)cudaDeviceSynchronize();
    if (trim_ != nullptr) trim_();
    (void)cudaGetLastError();
  }

  // A null pointer from the library is "out of memory". The library may block the host as it likes.
  // Size 0 does not reach it. Safe on any thread if the library is, as PyTorch demands.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    if (size_bytes == 0) return {};
    if (size_bytes > static_cast<std::uint64_t>(std::numeric_limits<ssize_t>::max())) {
      return kOutOfMemory;  // the interface has no such number
    }
    void* const pointer = call_library(
        library_, [&] { return malloc_(static_cast<ssize_t>(size_bytes), device_, stream); });
    if (pointer == nullptr) {
      (void)cudaGetLastError();
      if (!has_answered_) require_our_runtime();
      return kOutOfMemory;
    }
    if (!has_answered_) [[unlikely]] {
      has_answered_ = true;
    }
    const std::scoped_lock lock(mutex_);
    live_.reserve_one();
    live_.insert({.pointer = pointer, .size_bytes = size_bytes});
    return {.pointer = pointer, .status = AllocateStatus::Ok};
  }

  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    {
      // Forgotten before it is freed: then another thread may get the same address.
      const std::scoped_lock lock(mutex_);
      (void)live_.erase(pointer);
    }
    call_library(library_,
                 [&] { free_(pointer, static_cast<ssize_t>(size_bytes), device_, stream); });
  }

  // Nothing happens where the library has no such function: with PyTorch neither.
  void record_stream(void* pointer, cudaStream_t stream) override {
    if (record_stream_ != nullptr && pointer != nullptr) record_stream_(pointer, stream);
  }

  void trim() override {
    if (trim_ != nullptr) trim_();
  }

  // allocated_bytes are the live requests. What the library has taken from the device it cannot
  // say; the simulated runtime can, but not of a cache that an earlier instance left.
  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override {
    const std::scoped_lock lock(mutex_);
    MemoryStats stats;
    stats.allocated_bytes = live_.size_bytes_total();
    if (device_used_bytes_ != nullptr) {
      const std::uint64_t used_bytes = device_used_bytes_();
      // Less than what is live: it comes from the cache that an earlier instance left.
      if (used_bytes >= used_bytes_before_ + live_.size_bytes_total()) {
        stats.reserved_bytes = used_bytes - used_bytes_before_;
      }
    }
    return stats;
  }

 private:
  using Malloc = void* (*)(ssize_t size_bytes, int device, cudaStream_t stream);
  using Free = void (*)(void* pointer, ssize_t size_bytes, int device, cudaStream_t stream);
  using RecordStream = void (*)(void* pointer, cudaStream_t stream);
  using Trim = void (*)();

  // A library that was linked with the static CUDA runtime cannot see a simulated device: every
  // request would fail, and would look like a device without memory. The simulated runtime counts
  // its calls.
  void require_our_runtime() const {
    const std::optional<ThreadCalls> before = simulated_calls_of_thread();
    if (!before) return;
    void* const pointer = malloc_(1, device_, nullptr);
    (void)cudaGetLastError();
    if (pointer != nullptr) return free_(pointer, 1, device_, nullptr);
    const ThreadCalls after = *simulated_calls_of_thread();
    if (after.for_memory > before->for_memory) return;
    if (const std::string carrier = loaded_runtime_carrier(); !carrier.empty()) {
      throw EnvironmentError(foreign_runtime_error(library_, carrier));
    }
    // One call is ours.
    if (after.all > before->all + 1) return;
    throw library_error(
        library_, "the library does not use the simulated CUDA runtime",
        "a failed request without any call of it",
        "Link it with the shared runtime (nvcc -cudart shared), or run it on a GPU.");
  }

  // As PyTorch does: once in a process, with the number of devices.
  void call_init_once(const std::string& symbol, void* library) {
    static std::mutex mutex;
    static std::set<void*> called;
    void* const found = dlsym(library, symbol.c_str());
    if (found == nullptr) throw library_error(library_, "a function is missing", symbol);
    const std::scoped_lock lock(mutex);
    if (!called.insert(found).second) return;
    int device_count = 0;
    ALLOCMARK_CUDA_CHECK(cudaGetDeviceCount(&device_count));
    reinterpret_cast<void (*)(int)>(found)(device_count);
  }

  Malloc malloc_ = nullptr;
  Free free_ = nullptr;
  RecordStream record_stream_ = nullptr;
  Trim trim_ = nullptr;
  std::string library_;
  int device_ = 0;
  std::uint64_t (*device_used_bytes_)() = nullptr;  // null on a GPU
  std::uint64_t used_bytes_before_ = 0;             // when this instance was made
  std::atomic<bool> has_answered_ = false;  // the library has handed out memory at least once

  mutable std::mutex mutex_;  // guards what follows, never held while the library runs
  LiveSet live_;
};

std::unique_ptr<Backend> make_pluggable(const PluggableConf& conf,
                                        const BackendOptions& /*options*/) {
  return std::make_unique<PluggableBackend>(conf);
}

}  // namespace

ErrorText foreign_runtime_error(const std::string& library, const std::string& carrier) {
  return ErrorText{.what = carrier.empty() ? "this library carries the static CUDA runtime"
                                           : fmt::format("this library is served by {}, which "
                                                         "carries the static CUDA runtime",
                                                         carrier),
                   .where = library,
                   .wanted =
                       "one that is linked with libcudart.so, in whose place the simulated "
                       "runtime is loaded",
                   .got = "a runtime of its own, which sees no simulated device",
                   .next =
                       "link it with nvcc -cudart shared, CMAKE_CUDA_RUNTIME_LIBRARY Shared or "
                       "-lcudart, or run it on a GPU"};
}

std::optional<ErrorText> simulated_plugin_error(const PluggableConf& conf) {
  if (!carries_cuda_runtime(loadable_path(conf.library))) return std::nullopt;
  return foreign_runtime_error(conf.library, "");
}

ConfResult<PluggableConf> read_pluggable_conf(std::string_view text) {
  ConfSplit split = split_conf(text, conf_keys());
  ConfResult<PluggableConf> result{.error = std::move(split.error)};
  ConfReader reader(result.error);
  PluggableConf& conf = result.conf;
  const std::pair<std::string_view, std::string*> fields[] = {
      {"library", &conf.library},  {"malloc", &conf.malloc_symbol},
      {"free", &conf.free_symbol}, {"record_stream", &conf.record_stream_symbol},
      {"trim", &conf.trim_symbol}, {"init", &conf.init_symbol},
      {"as", &conf.name}};
  for (const ConfPair& pair : split.pairs) {
    for (const auto& [key, field] : fields) {
      if (pair.key != key) continue;
      *field = unbracketed(pair.value);
      const bool odd = key == "as" && !std::ranges::all_of(*field, is_name_character);
      if (field->empty() || odd) {
        reader.fail(pair, odd ? "a name of letters, digits, '.', '_' and '-'" : "a name");
      }
    }
  }
  if (!result.error && conf.library.empty()) {
    result.error = ErrorText{.what = "no library is named",
                             .where = "allocator pluggable",
                             .wanted =
                                 "pluggable:PATH.so[,MALLOC_SYMBOL,FREE_SYMBOL], or the "
                                 "config key library",
                             .got = text.empty() ? "no config string" : std::string(text)};
  }
  return result;
}

BackendEntry pluggable_entry() {
  return {.name = "pluggable",
          .summary =
              "any library with PyTorch's pluggable interface, as "
              "pluggable:PATH.so[,MALLOC_SYMBOL,FREE_SYMBOL][,KEY:VALUE]",
          .capabilities = capabilities_with({}),
          .conf_keys = conf_keys(),
          .argument_keys = {"library", "malloc", "free"},
          .check_conf = check_conf,
          .check_simulated = check_simulated,
          .make = conf_maker(read_pluggable_conf, make_pluggable),
          .capabilities_with = capabilities_with,
          .residue_hint = residue_hint,
          .warns_uncalled_record = true,
          .loads_library = true};
}

}  // namespace allocmark

#include "harness/tools/parity/parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "allocators/caching/allocator.h"
#include "allocators/caching/async_allocator.h"
#include "allocators/caching/config.h"
#include "base/error.h"
#include "harness/tools/parity/parity_text.h"
#include "harness/tools/parity/program.h"

namespace allocmark::caching {
namespace {

constexpr std::uint64_t kHeapAddressMin = 0x100000000000;

// One trace against one golden.
class Replay {
 public:
  Replay(std::span<const allocmark::Event> trace, const Golden& golden, const Settings& settings,
         ParityDevice& device, bool relative)
      : trace_(trace), golden_(golden), driver_(device), relative_(relative) {
    if (golden.cuda_malloc_async) {
      async_ = std::make_unique<AsyncAllocator>(driver_, golden.limit_bytes, *settings.rules);
    } else {
      native_ = std::make_unique<CachingAllocator>(driver_, settings, golden.limit_bytes);
    }
  }

  ParityReport run() {
    report_.operation_count = trace_.size();
    try {
      for (index_ = 0; index_ < trace_.size() && !diverged_; ++index_) {
        step(trace_[index_]);
        compare_counters(index_ + 1);
      }
    } catch (const ParityDivergence& divergence) {
      note("use of the device", "see the answer recorded", divergence.what());
    }
    if (!diverged_) compare_message();
    return std::move(report_);
  }

 private:
  void step(const allocmark::Event& event) {
    switch (event.kind) {
      case EventKind::Alloc:
        return allocate(event);
      case EventKind::Free:
        return deallocate(event.id);
      case EventKind::Record:
        return record(event);
      case EventKind::Busy:
        return driver_.start_busy(event.stream);
      case EventKind::Sync:
        return driver_.end_busy();
      case EventKind::Trim:
        return native_ ? native_->empty_cache() : async_->empty_cache();
      default:  // a mark
        return;
    }
  }

  void allocate(const allocmark::Event& event) {
    const GoldenAnswer& expected = golden_.answers[answer_count_++];
    driver_.expect(expected);
    refuse_where_recorded();
    std::optional<std::uint64_t> address;
    if (event.size_bytes > 0) {
      address = native_ ? native_->allocate(event.size_bytes, event.stream)
                        : async_->allocate(event.size_bytes, event.stream);
    }
    if (address) addresses_[event.id] = *address;
    ++report_.decision_count;
    ++report_.placement_count;
    report_.failure_count += expected.out_of_memory ? 1 : 0;
    const bool failed = !address && event.size_bytes > 0;
    const bool same_place = !expected.placed || (address && is_at(*address, expected.address));
    if (failed != expected.out_of_memory || !same_place) {
      note("placement", describe_answer(expected),
           address ? describe_address(*address) : std::string(failed ? "out of memory" : "null"));
      diverged_ = true;
      return;
    }
    if (failed && first_message_.empty()) {
      first_message_ = native_ ? out_of_memory_message(*native_->last_failure())
                               : out_of_memory_message(*async_->last_failure());
    }
    compare_reserved();
  }

  // A device of its own has its heap elsewhere; its other addresses are the same in every process.
  bool is_at(std::uint64_t address, std::uint64_t expected) {
    const bool in_heap = relative_ && expected >= kHeapAddressMin;
    if (in_heap && !heap_shift_) heap_shift_ = address - expected;
    return address == expected + (in_heap ? *heap_shift_ : 0);
  }

  [[nodiscard]] std::string describe_address(std::uint64_t address) const {
    const bool in_heap = relative_ && heap_shift_ && address >= kHeapAddressMin;
    return in_heap ? fmt::format("address {:#x} ({:#x} here)", address - *heap_shift_, address)
                   : fmt::format("address {:#x}", address);
  }

  // Without a limit PyTorch gives memory back during a request only where the device refused it.
  // Goldens do not record refusals, but reserved memory that is less after the request than before
  // tells of one.
  void refuse_where_recorded() {
    if (!native_ || golden_.limit_bytes > 0 || reserved_at_ >= golden_.reserved.size()) return;
    const GoldenReserved& coming = golden_.reserved[reserved_at_];
    if (coming.operation != index_ || coming.reserved_bytes >= native_->heap().reserved_bytes())
      return;
    driver_.refuse_next();
    ++report_.device_refusal_count;
  }

  void deallocate(std::uint64_t id) {
    const auto found = addresses_.find(id);
    if (found == addresses_.end()) return;
    static_cast<void>(native_ ? native_->deallocate(found->second)
                              : async_->deallocate(found->second));
    addresses_.erase(found);
  }

  void record(const allocmark::Event& event) {
    const auto found = addresses_.find(event.id);
    if (found == addresses_.end()) return;
    static_cast<void>(native_ ? native_->record_stream(found->second, event.stream)
                              : async_->record_stream(found->second, event.stream));
  }

  // The golden has a line where the figures differ from those after the previous allocation.
  void compare_reserved() {
    if (!native_) return;
    if (reserved_at_ < golden_.reserved.size() &&
        golden_.reserved[reserved_at_].operation == index_) {
      reserved_ = golden_.reserved[reserved_at_++];
    }
    const auto reserved =
        static_cast<std::uint64_t>(native_->counters().reserved_bytes.all().current());
    const auto segments = static_cast<std::uint64_t>(native_->counters().segment.all().current());
    ++report_.decision_count;
    if (reserved == reserved_.reserved_bytes && segments == reserved_.segment_count) return;
    note("reserved memory",
         fmt::format("{} bytes in {} segments", reserved_.reserved_bytes, reserved_.segment_count),
         fmt::format("{} bytes in {} segments", reserved, segments));
  }

  void compare_counters(std::uint64_t operation_count) {
    if (counters_at_ >= golden_.counters.size()) return;
    const GoldenCounters& expected = golden_.counters[counters_at_];
    if (expected.operation_count != operation_count) return;
    ++counters_at_;
    if (async_) expect_reserved_as_recorded(expected);
    const auto flat = native_ ? flatten(native_->counters()) : flatten(async_->counters());
    const FlatCounters ours(flat.begin(), flat.end());
    for (const GoldenCounters::Entry& entry : expected.entries) {
      report_.decision_count += entry.value_count;
      report_.counter_count += entry.value_count;
      const std::string our_values = difference(ours, entry);
      if (!our_values.empty()) note("counter " + entry.name, show_values(entry), our_values);
    }
    // The last operations of a trace may share one count with the line at the end.
    compare_counters(operation_count);
  }

  void expect_reserved_as_recorded(const GoldenCounters& expected) {
    const auto entry =
        std::ranges::find(expected.entries, "reserved_bytes.all", &GoldenCounters::Entry::name);
    if (entry == expected.entries.end()) return;
    driver_.expect_pool_reserved(static_cast<std::uint64_t>(entry->values[0]),
                                 static_cast<std::uint64_t>(entry->values[1]));
  }

  void compare_message() {
    ++report_.decision_count;
    const std::string expected = without_device_state(golden_.out_of_memory_message);
    if (without_device_state(first_message_) == expected) return;
    note("out-of-memory text", golden_.out_of_memory_message, first_message_);
  }

  void note(std::string what, std::string golden, std::string ours) {
    ++report_.mismatch_count;
    if (report_.first) return;
    ParityMismatch& first = report_.first.emplace();
    first.operation = index_;
    first.what = std::move(what);
    first.request =
        index_ < trace_.size() ? describe_operation(trace_[index_]) : "the end of the trace";
    first.golden = std::move(golden);
    first.ours = std::move(ours);
    if (native_ && answer_count_ > 0)
      first.state = describe_state(*native_, golden_.answers[answer_count_ - 1]);
  }

  std::span<const allocmark::Event> trace_;
  const Golden& golden_;
  ParityDevice& driver_;
  bool relative_;
  std::optional<std::uint64_t> heap_shift_;  // ours minus recorded, modulo 2^64
  std::unique_ptr<CachingAllocator> native_;
  std::unique_ptr<AsyncAllocator> async_;
  std::unordered_map<std::uint64_t, std::uint64_t> addresses_;  // of live ids
  ParityReport report_;
  GoldenReserved reserved_;
  std::string first_message_;
  std::uint64_t index_ = 0;
  std::size_t answer_count_ = 0;
  std::size_t reserved_at_ = 0;
  std::size_t counters_at_ = 0;
  bool diverged_ = false;
};

// C00, C01 and so on.
constexpr std::string_view kRecordedConfs[] = {
    "",
    "max_split_size_mb:32",
    "max_split_size_mb:128",
    "max_split_size_mb:512",
    "garbage_collection_threshold:0.6",
    "max_split_size_mb:128,garbage_collection_threshold:0.8",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "max_split_size_mb:64,max_non_split_rounding_mb:128",
    "expandable_segments:True",
    "expandable_segments:True,garbage_collection_threshold:0.7",
    "expandable_segments:True,max_split_size_mb:128",
    "roundup_power2_divisions:8,max_split_size_mb:256,garbage_collection_threshold:0.9",
    "backend:cudaMallocAsync",
    "large_segment_size_mb:64",
    "release_lock_on_cudamalloc:True",
};

void check_belong_together(std::span<const allocmark::Event> trace, const Golden& golden) {
  const auto allocations = static_cast<std::size_t>(
      std::ranges::count(trace, EventKind::Alloc, &allocmark::Event::kind));
  const auto fail = [&](std::string what, std::string wanted, std::string got) {
    throw UsageError(
        {.what = std::move(what),
         .where = golden.name,
         .wanted = std::move(wanted),
         .got = std::move(got),
         .next = "give the trace that the golden was recorded from, and unharmed copies of both"});
  };
  if (golden.answers.size() != allocations) {
    fail(golden.answers.size() < allocations
             ? "the golden is cut short, or belongs to another trace"
             : "the trace is cut short, or belongs to another golden",
         fmt::format("{} answers, one for each allocation of the trace", allocations),
         fmt::format("{}", golden.answers.size()));
  }
  const std::uint64_t last = golden.counters.back().operation_count;
  if (last != trace.size()) {
    fail("the golden is cut short, or belongs to another trace",
         fmt::format("counters after {} operations at the end", trace.size()),
         fmt::format("after {}", last));
  }
}

}  // namespace

std::optional<std::string_view> golden_conf(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kRecordedConfs); ++i) {
    if (name.starts_with(fmt::format("C{:02}", i))) return kRecordedConfs[i];
  }
  return std::nullopt;
}

ParityReport compare_with_golden(std::span<const allocmark::Event> trace, const Golden& golden,
                                 std::string_view conf, ParityDevice* device) {
  check_belong_together(trace, golden);
  const PytorchConfig config = parse_pytorch(conf, *golden.rules);
  const bool async = config.settings.backend == PoolBackend::CudaMallocAsync;
  if (!config.accepted() || async != golden.cuda_malloc_async) {
    throw UsageError({.what = "the config string cannot be the one the golden was recorded with",
                      .where = golden.name,
                      .wanted = golden.cuda_malloc_async ? "backend:cudaMallocAsync"
                                                         : "a string for the native backend",
                      .got = "'" + std::string(conf) + "' " + config.error,
                      .next = "give the string the golden was recorded with"});
  }
  const bool relative = device != nullptr;
  const std::unique_ptr<ParityDevice> recorded = relative ? nullptr : make_recorded_device(golden);
  return Replay(trace, golden, config.settings, relative ? *device : *recorded, relative).run();
}

std::vector<allocmark::Event> parity_events(EventSource& source) {
  std::vector<allocmark::Event> events;
  for (auto batch = source.next(); !batch.empty(); batch = source.next()) {
    for (const allocmark::Event& event : batch) {
      if (!is_of_program(event.kind) || is_of_pool(event.kind)) {
        throw UsageError({.what = "the trace has kernels, host time or private pools, which "
                                  "goldens know nothing of",
                          .wanted = "a recorded trace"});
      }
      events.push_back(event);
    }
  }
  return events;
}

std::string describe(const ParityReport& report, bool with_state) {
  if (!report.first) return {};
  const ParityMismatch& first = *report.first;
  return fmt::format("  operation {} ({}): {} differs\n    PyTorch: {}\n    ours:    {}\n{}",
                     first.operation, first.request, first.what, first.golden, first.ours,
                     with_state ? first.state : "");
}

}  // namespace allocmark::caching

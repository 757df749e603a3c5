// Reading a workload for replay.
#include "harness/core/replay/prepared_trace.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/write_fully.h"
#include "workloads/trace/source.h"
#include "workloads/trace/trace_hash.h"

namespace allocmark {
namespace {

// The request after which nothing more was asked, and whether one that failed came later.
struct LastRequests {
  std::uint64_t event_count = 0;
  std::uint64_t served_end_event = 0;  // behind the last one that was served
  bool any_failed_since = false;

  void add(const Event& event) {
    ++event_count;
    if (event.kind != EventKind::Alloc) return;
    any_failed_since = event.tensor == TensorKind::Failed;
    if (!any_failed_since) served_end_event = event_count;
  }
};

constexpr const char* kPlace = "the trace that a process is handed";

// What a file of write() begins with; the steps follow.
struct FileHead {
  TraceFacts facts = {};
  std::uint64_t hash = 0;
  std::uint64_t step_count = 0;
  std::uint64_t slot_count = 0;
};
static_assert(std::is_trivially_copyable_v<FileHead> &&
              sizeof(FileHead) % alignof(ReplayStep) == 0);

void write_at(std::span<const std::byte> bytes, std::uint64_t at_bytes, int fd) {
  const bool is_there = lseek(fd, static_cast<off_t>(at_bytes), SEEK_SET) >= 0;
  const int error = is_there ? write_fully(fd, bytes) : errno;
  if (error == 0) return;
  throw WriteError({.what = "cannot hand a trace to a process",
                    .where = kPlace,
                    .wanted = fmt::format("room for {} bytes", bytes.size()),
                    .got = std::strerror(error),
                    .next = "give this program more memory"});
}

[[noreturn]] void throw_short(std::size_t wanted_bytes, std::size_t size_bytes) {
  throw FileError({.what = "a trace ends before its end",
                   .where = kPlace,
                   .wanted = fmt::format("{} bytes", wanted_bytes),
                   .got = fmt::format("{} bytes", size_bytes),
                   .next = "start the command again"});
}

}  // namespace

PreparedTrace::Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

PreparedTrace::PreparedTrace(int fd, TraceHeader header) : header_(std::move(header)) {
  struct stat status {};
  const std::size_t size_bytes =
      fstat(fd, &status) == 0 ? static_cast<std::size_t>(status.st_size) : 0;
  if (size_bytes < sizeof(FileHead)) throw_short(sizeof(FileHead), size_bytes);
  void* const mapped = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) {
    throw EnvironmentError({.what = "cannot map a trace",
                            .where = kPlace,
                            .wanted = fmt::format("{} bytes", size_bytes),
                            .got = std::strerror(errno),
                            .next = "give this program more memory"});
  }
  mapping_ = Mapping({static_cast<const std::byte*>(mapped), size_bytes});
  const auto& head = *static_cast<const FileHead*>(mapped);
  const std::size_t wanted_bytes = sizeof(FileHead) + head.step_count * sizeof(ReplayStep);
  if (size_bytes < wanted_bytes) throw_short(wanted_bytes, size_bytes);
  facts_ = head.facts;
  hash_ = head.hash;
  slot_count_ = static_cast<std::uint32_t>(head.slot_count);
  kept_ = {reinterpret_cast<const ReplayStep*>(&head + 1), head.step_count};
}

TraceHeader PreparedTrace::write(std::unique_ptr<EventSource> source, int fd) {
  const auto append = [&](std::span<const ReplayStep> steps, std::uint64_t steps_before) {
    write_at(std::as_bytes(steps), sizeof(FileHead) + steps_before * sizeof(ReplayStep), fd);
  };
  const PreparedTrace trace(std::move(source), append);
  const FileHead head{.facts = trace.facts_,
                      .hash = trace.hash_,
                      .step_count = trace.facts_.event_count,
                      .slot_count = trace.slot_count_};
  write_at(std::as_bytes(std::span(&head, 1)), 0, fd);
  return trace.header_;
}

PreparedTrace::PreparedTrace(std::unique_ptr<EventSource> source, const Keep& keep)
    : source_(std::move(source)) {
  read(keep);
}

PreparedTrace::PreparedTrace(std::unique_ptr<EventSource> source, std::uint64_t kept_count_max)
    : source_(std::move(source)) {
  read([&](std::span<const ReplayStep> steps, std::uint64_t steps_before) {
    keep_in_memory(steps, steps_before, kept_count_max);
  });
  if (!is_kept_) {
    // Only the prefix is of use then.
    steps_.resize(std::min<std::size_t>(steps_.size(), std::size_t{1} << 16));
    steps_.shrink_to_fit();
  }
  kept_ = steps_;
}

void PreparedTrace::keep_in_memory(std::span<const ReplayStep> steps, std::uint64_t steps_before,
                                   std::uint64_t kept_count_max) {
  if (steps_before == 0) steps_.clear();
  const std::uint64_t room =
      kept_count_max - std::min<std::uint64_t>(kept_count_max, steps_.size());
  const std::span<const ReplayStep> kept = steps.first(std::min<std::size_t>(room, steps.size()));
  steps_.insert(steps_.end(), kept.begin(), kept.end());
  is_kept_ = steps_.size() == steps_before + steps.size();
}

void PreparedTrace::read(const Keep& keep) {
  TraceCompiler compiler(wanted_from_event_);
  LastRequests last;
  TraceHash hash;
  std::vector<ReplayStep> steps;
  while (true) {
    const std::span<const Event> events = source_->next();
    if (events.empty()) break;
    steps.clear();
    compiler.compile(events, steps, source_->labels());
    for (const Event& event : events) {
      const bool is_mark = event.kind == EventKind::Mark && event.id < source_->labels().size();
      last.add(event);
      hash.add(event, is_mark ? std::string_view(source_->labels()[event.id]) : std::string_view());
    }
    keep(steps, last.event_count - steps.size());
  }
  const bool is_log = source_->header().generator == kLogGenerator;
  if (!is_log && last.any_failed_since && wanted_from_event_ > last.served_end_event) {
    wanted_from_event_ = last.served_end_event;
    source_->rewind();
    return read(keep);
  }
  facts_ = compiler.facts();
  facts_.stream_count = std::max(facts_.stream_count, source_->header().stream_count);
  slot_count_ = compiler.slot_count();
  header_ = source_->header();
  hash_ = hash.value();
}

void PreparedTrace::for_each_batch(const std::function<bool(const TraceBatch&)>& consume) {
  ALLOCMARK_ASSERT(source_ != nullptr);
  TraceCompiler compiler(wanted_from_event_);
  std::vector<ReplayStep> steps;
  source_->rewind();
  while (true) {
    const std::span<const Event> events = source_->next();
    if (events.empty()) return;
    steps.clear();
    compiler.compile(events, steps, source_->labels());
    const TraceBatch batch{.events = events, .steps = steps, .slot_count = compiler.slot_count()};
    if (!consume(batch)) return;
  }
}

void PreparedTrace::for_each_step_batch(const std::function<bool(const TraceBatch&)>& consume) {
  if (!is_kept_) {
    for_each_batch(consume);
    return;
  }
  (void)consume(TraceBatch{.events = {}, .steps = kept_, .slot_count = slot_count_});
}

TraceBatch PreparedTrace::prefix(std::uint64_t count_max) const {
  const std::size_t count = std::min<std::size_t>(kept_.size(), count_max);
  return TraceBatch{.events = {}, .steps = kept_.first(count), .slot_count = slot_count_};
}

}  // namespace allocmark

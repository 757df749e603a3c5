// Sources over sources. Ids, labels and streams of the parts are renumbered so that they do not
// meet.
#include "workloads/composition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "workloads/open_workload.h"
#include "workloads/trace/event_names.h"
#include "workloads/trace/live_blocks.h"

namespace allocmark {
namespace {

constexpr std::string_view kThen = " then ";
constexpr std::string_view kBeside = " beside ";
// Processes take turns of so many events at most: a real driver serves them in an order that nobody
// chose.
constexpr std::uint64_t kTurnEventCountMax = 32;

std::vector<std::string> split(std::string_view text, std::string_view word) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(text.find(word, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == text.size()) return parts;
    begin = end + word.size();
  }
}

using Parts = std::vector<std::unique_ptr<EventSource>>;

// Does the event's id name a block, of the device or of the host?
bool names_block(EventKind kind) { return kind <= EventKind::Record || is_of_host(kind); }

// One part's events as they stand in the whole.
class Renumbering {
 public:
  // `index` of `count` parts; streams go up by first_stream.
  Renumbering(std::uint64_t index, std::uint64_t count, std::uint32_t first_stream)
      : index_(index), count_(count), first_stream_(first_stream) {}

  [[nodiscard]] Event of(Event event, const EventSource& source,
                         std::unordered_map<std::string, std::uint64_t>* label_indexes,
                         std::vector<std::string>* labels) const {
    if (event.kind == EventKind::Mark) {
      const std::string& label = source.labels()[event.id];
      const auto [found, is_new] = label_indexes->try_emplace(label, labels->size());
      if (is_new) labels->push_back(label);
      event.id = found->second;
      return event;
    }
    const bool names_pool = is_of_pool(event.kind) || event.kind == EventKind::Trim;
    if (names_block(event.kind) || (names_pool && event.id != 0))
      event.id = id_of(event.id, source);
    const bool one_stream = (event.kind == EventKind::PoolBegin && !event.all_streams()) ||
                            event.kind == EventKind::CaptureBegin ||
                            event.kind == EventKind::CaptureEnd ||
                            event.kind == EventKind::GraphReplay;
    const bool has_stream = event.kind != EventKind::Free && event.kind != EventKind::Sync &&
                            event.kind != EventKind::Host && event.kind != EventKind::HostAlloc &&
                            event.kind != EventKind::HostFree &&
                            (one_stream || !is_of_pool(event.kind));
    if (has_stream) event.stream += first_stream_;
    return event;
  }
  [[nodiscard]] std::uint32_t first_stream() const { return first_stream_; }

 private:
  [[nodiscard]] std::uint64_t id_of(std::uint64_t id, const EventSource& source) const {
    if (id < std::numeric_limits<std::uint64_t>::max() / count_) return id * count_ + index_;
    throw UsageError({.what = "block ids of this trace are too large to stand beside others",
                      .where = source.header().name,
                      .wanted = fmt::format("ids below 2^64 / {}", count_),
                      .got = std::to_string(id),
                      .next = "count ids up from 1"});
  }

  std::uint64_t index_;
  std::uint64_t count_;
  std::uint32_t first_stream_;
};

std::string joined_names(const Parts& parts, std::string_view between) {
  std::string name;
  for (const std::unique_ptr<EventSource>& part : parts) {
    if (!name.empty()) name += between;
    name += part->header().name;
  }
  return name;
}

// What a part says of its job holds for the whole; of two releases the first part's.
void add_job_facts(const TraceHeader& part, TraceHeader* whole) {
  if (whole->pytorch.empty()) whole->pytorch = part.pytorch;
  for (const ForbiddenKey& one : part.forbids) {
    const bool is_new = std::ranges::find(whole->forbids, one) == whole->forbids.end();
    if (is_new) whole->forbids.push_back(one);
  }
}

class ThenSource final : public EventSource {
 public:
  ThenSource(Parts parts, std::string text, std::uint64_t seed) : parts_(std::move(parts)) {
    header_ = {.name = joined_names(parts_, "-then-"), .generator = std::move(text), .seed = seed};
    for (const std::unique_ptr<EventSource>& part : parts_) add_job_facts(part->header(), &header_);
    count_streams();
  }

  std::span<const Event> next() override {
    batch_.clear();
    while (batch_.empty() && at_ < parts_.size()) {
      EventSource& part = *parts_[at_];
      const Renumbering renumbering(at_, parts_.size(), 0);
      for (const Event& event : part.next()) {
        batch_.push_back(renumbering.of(event, part, &label_indexes_, &labels_));
      }
      if (batch_.empty()) ++at_;
    }
    // A file's streams are known at its end.
    if (batch_.empty()) count_streams();
    return batch_;
  }
  void rewind() override {
    for (const std::unique_ptr<EventSource>& part : parts_) part->rewind();
    at_ = 0;
    labels_.clear();
    label_indexes_.clear();
  }
  const TraceHeader& header() const override { return header_; }
  const std::vector<std::string>& labels() const override { return labels_; }

 private:
  void count_streams() {
    for (const std::unique_ptr<EventSource>& part : parts_) {
      header_.stream_count = std::max(header_.stream_count, part->header().stream_count);
    }
  }

  Parts parts_;
  TraceHeader header_;
  std::size_t at_ = 0;
  std::vector<Event> batch_;
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::uint64_t> label_indexes_;
};

class BesideSource final : public EventSource {
 public:
  BesideSource(Parts parts, std::string text, std::uint64_t seed) : random_(seed) {
    header_ = {.name = joined_names(parts, "-beside-"),
               .generator = std::move(text),
               .seed = seed,
               .stream_count = 0};
    const std::uint64_t count = parts.size();
    for (std::unique_ptr<EventSource>& part : parts) {
      const TraceHeader& head = part->header();
      if (head.stream_count > kTraceStreamCountMax - header_.stream_count) refuse_streams();
      const std::uint32_t first_stream = header_.stream_count;
      if (head.jobs.empty()) {
        const std::string& what = is_recording(head.generator) ? head.name : head.generator;
        header_.jobs.push_back({.workload = what, .first_stream = first_stream});
      }
      for (TraceJob job : head.jobs) {
        job.first_stream += first_stream;
        header_.jobs.push_back(std::move(job));
      }
      add_job_facts(head, &header_);
      const std::uint32_t head_streams = head.stream_count;
      header_.stream_count += head_streams;
      const Renumbering renumbering(processes_.size(), count, first_stream);
      processes_.push_back(
          {.source = std::move(part), .stream_count = head_streams, .renumbering = renumbering});
    }
    rewind();
  }

  std::span<const Event> next() override {
    batch_.clear();
    while (!running_.empty() && batch_.size() < kBatchEventCount) take_turn();
    return batch_;
  }
  void rewind() override {
    random_ = Random(header_.seed);
    running_.clear();
    for (Process& process : processes_) {
      process.source->rewind();
      process.events = {};
      process.live.clear();
      process.host_live.clear();
      process.pools.clear();
      running_.push_back(running_.size());
    }
    labels_.clear();
    label_indexes_.clear();
  }
  const TraceHeader& header() const override { return header_; }
  const std::vector<std::string>& labels() const override { return labels_; }

 private:
  struct PoolUse {
    std::uint64_t count = 0;
    bool begun = false;
    std::optional<std::uint32_t> captured{};  // stream
    bool on_oom = false;
  };
  struct Process {
    std::unique_ptr<EventSource> source;
    std::uint32_t stream_count = 1;
    Renumbering renumbering;
    std::span<const Event> events{};           // of the current batch, still to come
    LiveBlocks live{};                         // by id in the whole
    LiveBlocks host_live{};                    // likewise
    std::map<std::uint64_t, PoolUse> pools{};  // likewise
  };

  [[noreturn]] void refuse_event(const Process& process) const {
    throw UsageError({.what = "a trace has more streams than its head says",
                      .where = process.source->header().name,
                      .wanted = fmt::format("{}", process.source->header().stream_count),
                      .got = fmt::format("stream {}", process.events.front().stream),
                      .next = "write the number of streams into its head: # streams: N"});
  }
  [[noreturn]] void refuse_streams() const {
    throw UsageError({.what = "these processes have too many streams together",
                      .where = "workload '" + header_.generator + "'",
                      .wanted = fmt::format("at most {}", kTraceStreamCountMax)});
  }

  // A process picked at random does some events; where it has none left it ends.
  void take_turn() {
    const std::size_t place = random_.below(running_.size());
    Process& process = processes_[running_[place]];
    const std::uint64_t turn_count = random_.between(1, kTurnEventCountMax);
    for (std::uint64_t i = 0; i < turn_count; ++i) {
      if (process.events.empty()) process.events = process.source->next();
      if (process.events.empty()) {
        end(process);
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(place));
        return;
      }
      if (process.events.front().stream >= process.stream_count) refuse_event(process);
      const Event event = process.renumbering.of(process.events.front(), *process.source,
                                                 &label_indexes_, &labels_);
      process.events = process.events.subspan(1);
      follow(event, &process);
      batch_.push_back(event);
    }
  }

  static void follow(const Event& event, Process* process) {
    if (event.kind == EventKind::Alloc) process->live.insert({.id = event.id});
    if (event.kind == EventKind::Free) process->live.erase(event.id);
    if (event.kind == EventKind::HostAlloc) process->host_live.insert({.id = event.id});
    if (event.kind == EventKind::HostFree) process->host_live.erase(event.id);
    if (!is_of_pool(event.kind)) return;
    PoolUse& use = process->pools[event.id];
    if (event.kind == EventKind::PoolCreate || event.kind == EventKind::PoolBegin) ++use.count;
    if (event.kind == EventKind::PoolRelease) --use.count;
    if (event.kind == EventKind::PoolBegin) use.begun = true;
    if (event.kind == EventKind::CaptureBegin) use.captured = event.stream;
    if (event.kind == EventKind::CaptureEnd) use.captured.reset();
    if (event.kind == EventKind::PoolEnd) use.begun = false;
    if (event.kind == EventKind::PoolOnOom) use.on_oom = event.is_on();
  }

  void end_pool(std::uint64_t id, const PoolUse& use) {
    if (use.captured)
      batch_.push_back({.id = id, .stream = *use.captured, .kind = EventKind::CaptureEnd});
    if (use.begun) batch_.push_back({.id = id, .kind = EventKind::PoolEnd});
    if (use.on_oom) batch_.push_back({.id = id, .kind = EventKind::PoolOnOom});
    for (std::uint64_t i = 0; i < use.count; ++i)
      batch_.push_back({.id = id, .kind = EventKind::PoolRelease});
  }

  // What the end of a process does: everything goes back to the device.
  void end(Process& process) {
    process.live.for_each([this](const TracedBlock& block) {
      batch_.push_back({.id = block.id, .kind = EventKind::Free});
    });
    process.live.clear();
    process.host_live.for_each([this](const TracedBlock& block) {
      batch_.push_back({.id = block.id, .kind = EventKind::HostFree});
    });
    process.host_live.clear();
    for (const auto& [id, use] : process.pools) end_pool(id, use);
    process.pools.clear();
    batch_.push_back({.stream = process.renumbering.first_stream(), .kind = EventKind::Trim});
  }

  TraceHeader header_;
  Random random_;
  std::vector<Process> processes_;
  std::vector<std::size_t> running_;  // indexes into processes_
  std::vector<Event> batch_;
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::uint64_t> label_indexes_;
};

Parts open_parts(const std::vector<std::string>& texts, std::string_view whole,
                 std::uint64_t seed) {
  Parts parts;
  for (const std::string& text : texts) {
    if (text.find_first_not_of(' ') == std::string::npos) {
      throw UsageError({.what = "a workload is missing",
                        .where = fmt::format("workload '{}'", whole),
                        .wanted = "WORKLOAD then WORKLOAD, or WORKLOAD beside WORKLOAD"});
    }
    parts.push_back(open_workload(text, seed + parts.size()));
  }
  return parts;
}

// Streams of a file are only known when it was read; a process's streams must be known before.
void read_streams(EventSource* source) {
  if (!is_recording(source->header().generator)) return;
  while (!source->next().empty()) {
  }
  source->rewind();
}

}  // namespace

std::vector<std::string> workload_parts(std::string_view text) {
  std::vector<std::string> leaves;
  for (const std::string& process : split(text, kBeside)) {
    for (std::string& part : split(process, kThen)) leaves.push_back(std::move(part));
  }
  return leaves;
}

std::string replace_workload_parts(std::string_view text,
                                   const std::function<std::string(const std::string&)>& replace) {
  std::string whole;
  const std::vector<std::string> processes = split(text, kBeside);
  for (const std::string& process : processes) {
    if (!whole.empty()) whole += kBeside;
    const std::vector<std::string> parts = split(process, kThen);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string now = replace(parts[i]);
      const bool is_alone = processes.size() == 1 && parts.size() == 1;
      const bool fits =
          now == parts[i] || is_alone ||
          (now.find(kBeside) == now.npos && (parts.size() == 1 || now.find(kThen) == now.npos));
      if (!fits) {
        throw UsageError({.what = "a scenario of several workloads cannot be one part here",
                          .where = fmt::format("workload '{}', part '{}'", text, parts[i]),
                          .wanted = "a scenario of one workload, or all parts written out",
                          .got = now});
      }
      whole += (i == 0 ? "" : std::string(kThen)) + now;
    }
  }
  return whole;
}

std::unique_ptr<EventSource> open_composition(std::string_view text, std::uint64_t seed) {
  if (const std::vector<std::string> texts = split(text, kBeside); texts.size() > 1) {
    Parts parts = open_parts(texts, text, seed);
    for (const std::unique_ptr<EventSource>& part : parts) read_streams(part.get());
    return std::make_unique<BesideSource>(std::move(parts), std::string(text), seed);
  }
  const std::vector<std::string> texts = split(text, kThen);
  if (texts.size() == 1) return nullptr;
  Parts parts = open_parts(texts, text, seed);
  for (const std::unique_ptr<EventSource>& part : parts) {
    if (part->header().jobs.empty()) continue;
    throw UsageError({.what = "several processes cannot be part of one",
                      .where = fmt::format("workload '{}'", text),
                      .wanted = "single processes on both sides of 'then'",
                      .got = part->header().generator,
                      .next = "'A then B beside C' is (A then B) beside C"});
  }
  return std::make_unique<ThenSource>(std::move(parts), std::string(text), seed);
}

}  // namespace allocmark

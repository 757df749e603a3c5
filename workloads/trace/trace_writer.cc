#include "workloads/trace/trace_writer.h"

#include <fmt/format.h>

#include "workloads/trace/trace_hash.h"
#include "workloads/trace/trace_row.h"

namespace allocmark {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{256} << 10;

// A line break in a name would end its line early.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text;
}

}  // namespace

TraceWriter::TraceWriter(const std::string& path, const TraceHeader& header,
                         const TraceWriterOptions& options)
    : bytes_(path), tagged_(options.tagged) {
  text_ =
      fmt::format("# name: {}\n# generator: {}\n# seed: {}\n# streams: {}\n", one_line(header.name),
                  one_line(header.generator), header.seed, header.stream_count);
  for (const TraceJob& job : header.jobs) {
    text_ += fmt::format("# process: {} {}\n", job.first_stream, one_line(job.workload));
  }
  if (!header.pytorch.empty()) text_ += fmt::format("# torch: {}\n", one_line(header.pytorch));
  for (const ForbiddenKey& one : header.forbids) {
    text_ += fmt::format("# forbids: {} {}\n", one_line(one.key), one_line(one.why));
  }
  if (options.event_count) text_ += fmt::format("# events: {}\n", *options.event_count);
  if (options.hash) text_ += fmt::format("# hash: {:016x}\n", *options.hash);
  text_ += tagged_ ? kTraceColumnsTagged : kTraceColumns;
  text_ += '\n';
}

void TraceWriter::write(const Event& event, std::string_view label) {
  append_trace_row(event, label, tagged_, &text_);
  if (text_.size() < kFlushBytes) return;
  bytes_.write(text_);
  text_.clear();
}

void TraceWriter::finish() {
  bytes_.write(text_);
  text_.clear();
  bytes_.finish();
}

std::uint64_t write_trace_file(const std::string& path, EventSource& source) {
  TraceHash hash;
  std::uint64_t event_count = 0;
  bool tagged = false;
  source.rewind();
  for_each_event(source, [&](const Event& event, std::string_view label) {
    hash.add(event, label);
    ++event_count;
    tagged = tagged || event.tensor != TensorKind::Unknown;
  });
  TraceWriter writer(path, source.header(),
                     {.tagged = tagged, .event_count = event_count, .hash = hash.value()});
  source.rewind();
  for_each_event(source, [&](const Event& event, auto label) { writer.write(event, label); });
  writer.finish();
  return event_count;
}

}  // namespace allocmark

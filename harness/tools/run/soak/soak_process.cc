// See soak_process.h.
#include "harness/tools/run/soak/soak_process.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include "base/error.h"
#include "base/output_file.h"
#include "harness/job/job.h"

namespace allocmark {
namespace {

void check_same(const SoakSpec& before, const SoakSpec& now, const std::string& path) {
  if (before.key == now.key && before.seconds == now.seconds && before.verify == now.verify) return;
  throw UsageError({.what = "this folder holds another soak",
                    .where = path,
                    .wanted = fmt::format("{} for {:.0f} s", before.key.id(), before.seconds),
                    .got = fmt::format("{} for {:.0f} s", now.key.id(), now.seconds),
                    .next = "resume with the same words, or choose another --out DIR"});
}

SoakEnd how_it_ended(const ChildOutcome& outcome) {
  const bool crashed = end_of(outcome) == JobEnd::Crashed;
  return {.status = crashed ? CellStatus::Crashed : CellStatus::Failed,
          .reason = (end_of(outcome) == JobEnd::Failed ? "its process " : "") + end_text(outcome)};
}

// The lines are those of the file.
constexpr Job<SoakSpec, std::string> kSoak{
    .name = "soak",
    .what = "the soak",
    .run = [](const SoakSpec& spec, const Tell<std::string>& tell) {
      tell(to_json_line(run_soak(
               spec, [&](const SoakWindow& window) { tell(to_json_line(window) + "\n"); })) +
           "\n");
    }};

// A file to go on with, or a new one with its first line.
LineFile open_file(const SoakSpec& spec, const std::string& path, SoakRecord& record) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return LineFile::create(path);
  SoakFile file = read_soak_file(path);
  check_same(file.record.spec, spec, path);
  record = std::move(file.record);
  return LineFile::resume(path, file.size_bytes);
}

}  // namespace

SoakRecord soak_in_child(const SoakSpec& wanted, const SoakPlace& place,
                         const std::function<void(const SoakRecord&)>& on_window) {
  SoakRecord record;
  LineFile file = open_file(wanted, place.path, record);
  if (record.is_whole()) return record;
  SoakSpec spec = wanted;
  spec.begin_s = record.done_s();
  const auto keep = [&](const std::string& line) {
    file.append(line);
    add_line(line, place.path, record);
  };
  keep(to_json_line(spec));
  const ChildOutcome outcome = run_job(
      kSoak, spec,
      {.program_path = place.program_path,
       .device = spec.key.device,
       .environment = {{"SIMCUDA_TIME_S", fmt::format("{:.0f}", spec.begin_s)}}},
      [&](const std::string& line) {
        keep(line);
        if (!record.ended) on_window(record);
      },
      place.interrupt);
  if (!record.ended) keep(to_json_line(how_it_ended(outcome)));
  return record;
}

extern const JobEntry kSoakJob;
constinit const JobEntry kSoakJob = job_entry<kSoak>();

}  // namespace allocmark

// See soak_process.h.
#include "harness/soak/soak_process.h"

#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include "base/error.h"
#include "base/output_file.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "harness/job/child_process.h"
#include "results/json.h"

namespace allocmark {
namespace {

constexpr int kPollMs = 500;

void check_same(const SoakSpec& before, const SoakSpec& now, const std::string& path) {
  if (before.key == now.key && before.seconds == now.seconds && before.verify == now.verify) return;
  throw UsageError({.what = "this folder holds another soak",
                    .where = path,
                    .wanted = fmt::format("{} for {:.0f} s", before.key.id(), before.seconds),
                    .got = fmt::format("{} for {:.0f} s", now.key.id(), now.seconds),
                    .next = "resume with the same words, or choose another --out DIR"});
}

SoakEnd end_of(const ChildOutcome& outcome) {
  if (outcome.ended_by_us) return {.status = CellStatus::Failed, .reason = "interrupted"};
  const std::string said = quoted_output(outcome);
  if (outcome.signal_number != 0) {
    return {.status = CellStatus::Crashed,
            .reason = fmt::format("ended by {}{}", signal_name(outcome.signal_number), said)};
  }
  return {.status = CellStatus::Failed,
          .reason = fmt::format("its process ended with exit code {}{}", outcome.exit_code, said)};
}

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
  auto changes = runtime_environment(spec.key.device, place.program_path);
  changes.emplace_back("SIMCUDA_TIME_S", fmt::format("{:.0f}", spec.begin_s));
  ChildProcess child(
      {.argv = {place.program_path, "cell", std::to_string(getpid()), "--soak", spec.key.device},
       .environment = environment_with(changes),
       .input = to_json_line(spec)});
  std::size_t taken = 0;
  const auto take_lines = [&] {
    const std::string& text = child.result_so_far();
    for (std::size_t end = text.find('\n', taken); end != std::string::npos;
         end = text.find('\n', taken)) {
      keep(text.substr(taken, end - taken));
      taken = end + 1;
      if (!record.ended) on_window(record);
    }
  };
  while (true) {
    const std::optional<ChildOutcome> outcome = child.advance();
    take_lines();
    if (outcome) {
      if (!record.ended) keep(to_json_line(end_of(*outcome)));
      return record;
    }
    if (place.interrupt != nullptr && place.interrupt->requested()) child.end();
    const auto [result_fd, stderr_fd] = child.poll_fds();
    pollfd fds[] = {{.fd = result_fd, .events = POLLIN, .revents = 0},
                    {.fd = stderr_fd, .events = POLLIN, .revents = 0},
                    {.fd = place.interrupt == nullptr ? -1 : place.interrupt->wake_fd(),
                     .events = POLLIN,
                     .revents = 0}};
    poll(fds, std::size(fds), child.closing() ? kPollMsClosing : kPollMs);
  }
}

void soak_and_tell(const SoakSpec& spec, const std::function<void(const std::string&)>& send_line) {
  const SoakEnd end =
      run_soak(spec, [&](const SoakWindow& window) { send_line(to_json_line(window) + "\n"); });
  send_line(to_json_line(end) + "\n");
}

}  // namespace allocmark

// 'allocmark why FILE': why a job ran out of memory, from its memory snapshot or from the message
// that it left.
#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <string>
#include <vector>

#include "allocators/caching/release.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/output_file.h"
#include "base/own_process.h"
#include "harness/core/run/run.h"
#include "harness/shell/html_report.h"
#include "harness/shell/output_path.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/why/simulated.h"
#include "harness/tools/why/why.h"
#include "harness/tools/why/why_message.h"

namespace allocmark {
namespace {

struct WhyCommand {
  std::string file;
  std::string memory;
  std::vector<std::string> confs;
  std::string pytorch;  // its release; empty: found out
  std::string format = "table";
  std::string page;
  bool force = false;
};

void add_why(CLI::App* app, WhyCommand* command) {
  app->add_option(
         "file", command->file,
         "A memory snapshot with history, as torch.cuda.memory._dump_snapshot() writes it; "
         "or a text with an out-of-memory message, - for standard input; or the message itself")
      ->required()
      ->type_name("FILE");
  app->add_option("--memory", command->memory,
                  "Memory that PyTorch may have [what it had when a request failed]")
      ->type_name("SIZE");
  app->add_option("-c,--conf", command->confs,
                  "A config string to try, or 'unset'; may be repeated [ten common ones]")
      ->allow_extra_args(false)
      ->type_name("CONF");
  app->add_option("--pytorch", command->pytorch,
                  "The release of PyTorch that wrote it, such as 2.10 [one that puts blocks in the "
                  "same places]")
      ->type_name("V");
  add_format(app, &command->format, "table, markdown (for an issue) or json (one document)",
             {"table", "markdown", "json"});
  app->add_option("-o,--out", command->page,
                  "FILE for a page with maps of the segments, which a browser shows; needs python3")
      ->type_name("FILE");
  add_force(app, &command->force);
}

// Of the options that only a snapshot can answer, the first that is given.
std::string snapshot_option(const WhyCommand& command) {
  if (!command.memory.empty()) return "--memory";
  if (!command.confs.empty()) return "--conf";
  if (!command.pytorch.empty()) return "--pytorch";
  return command.page.empty() ? "" : "--out";
}

ExitCode run_why(const WhyCommand& command) {
  const std::string path =
      command.file.starts_with("file:") ? command.file.substr(5) : command.file;
  if (answer_message(path, command.format, snapshot_option(command))) return ExitCode::Pass;
  WhyOptions options;
  if (!command.memory.empty()) {
    options.memory_bytes = parse_bytes(command.memory);
    if (!options.memory_bytes) {
      throw UsageError({.what = "not a size",
                        .where = "--memory",
                        .wanted = "a number with its unit, such as 24GiB",
                        .got = explain_bytes(command.memory)});
    }
  }
  if (!command.pytorch.empty())
    options.release = &caching::require_rules(command.pytorch, "--pytorch");
  const BackendEntry& allocator =
      find_backend(options.release == nullptr ? "caching" : options.release->allocator());
  for (const std::string& conf : command.confs) options.confs.push_back(read_conf(allocator, conf));
  if (!command.page.empty()) check_output_file(command.page, command.force, "--out");
  Why why = explain_snapshot(path, options);
  simulate_settings(&why, own_program_path(), default_job_count("sim:h200"));
  if (!command.page.empty()) {
    write_file(command.page, make_page("why_page.py", to_page_json(why)));
    fmt::print(stderr, "page: {}\n", command.page);
  }
  if (command.format == "json") {
    fmt::print("{}", to_json(why));
  } else if (command.format == "markdown") {
    fmt::print("{}", to_markdown(why));
  } else {
    print_fitted(stdout, to_text(why));
  }
  return ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kWhyCommand;
constinit const CommandEntry kWhyCommand{
    "why", "Say why a job ran out of memory, from its snapshot or message",
    [](CLI::App* app) { return bind_command(app, add_why, run_why); }};

}  // namespace allocmark

// The program allocmark: CMakeLists.txt lists its commands and jobs.
#include <pthread.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include "base/error.h"
#include "base/streams.h"
#include "harness/core/recorded/self_check.h"
#include "harness/core/run/environment.h"
#include "harness/job/serve.h"
#include "harness/shell/app.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
// Made from the names in CMakeLists.txt; they know the types of the above.
#include "harness/tools/command_list.h"
#include "harness/tools/job_list.h"
#include "workloads/import/snapshot_source.h"

namespace allocmark {
namespace {

ExitCode run_main(int argc, char** argv) {
  set_commands(kCommandEntries);
  set_pool_finder(find_pools);
  if (argc > 1 && std::string_view(argv[1]) == "cell") {
    serve_job(argc, argv, kJobEntries);
  }
  const ParsedLine line = parse_command_line(argc, argv, version_text());
  const QuietStderr quiet(line.quiet);
  for (const std::string& note : line.notes) fmt::print(stderr, "{}\n", note);
  if (line.run) return line.run(line.argv);
  if (line.is_help) {
    print_fitted(stdout, line.text);
  } else {
    fmt::print("{}", line.text);
  }
  return ExitCode::Pass;
}

// A message that begins with its command, "allocmark run: ...", names the program already.
void print_error(std::string_view message) {
  print_fitted(stderr, fmt::format("{}{}\n",
                                   message.starts_with("allocmark") ? "" : "allocmark: ", message));
}

// A full disk or a closed stream must not look like a complete answer. Who stops reading has enough
// of it, and is told nothing. A command that failed already keeps its own code.
ExitCode with_end_of_output(ExitCode code) {
  const StreamEnd end = end_of_stdout();
  if (end == StreamEnd::Failed) print_error("the answer could not be written to stdout");
  return end == StreamEnd::Whole || code != ExitCode::Pass ? code : ExitCode::FileAccess;
}

// What a library of the system says, in the words of our own errors.
ErrorText system_failure(const std::string& where, const std::string& reason) {
  return {.what = "the system does not let this program go on",
          .where = where,
          .got = reason,
          .next = "check the path, free space and the limits of this shell (ulimit -a)"};
}

ExitCode run_and_word_errors(int argc, char** argv) {
  try {
    return run_main(argc, argv);
  } catch (const Error& error) {
    print_error(error.what());
    return error.exit_code();
  } catch (const std::filesystem::filesystem_error& error) {
    print_error(FileError(system_failure(error.path1(), error.code().message())).what());
    return ExitCode::FileAccess;
  } catch (const std::system_error& error) {
    print_error(EnvironmentError(system_failure("", error.code().message())).what());
    return ExitCode::NotReady;
  } catch (const std::bad_alloc&) {
    print_error(EnvironmentError(system_failure("", "no memory is left")).what());
    return ExitCode::NotReady;
  } catch (const std::exception& error) {
    fmt::print(stderr, "allocmark: internal error: {}\n", error.what());
    return ExitCode::Internal;
  }
}

struct Call {
  int argc;
  char** argv;
  ExitCode code = ExitCode::Internal;
};

void* run_call(void* argument) {
  Call& call = *static_cast<Call*>(argument);
  call.code = run_and_word_errors(call.argc, call.argv);
  return nullptr;
}

// Where a shell leaves less stack than that ('ulimit -s 64'), the program and its threads make
// their own.
constexpr std::size_t kStackBytesMin = std::size_t{8} << 20;

ExitCode run_with_room(int argc, char** argv) {
  rlimit stack{};
  const bool has_room = getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kStackBytesMin;
  pthread_attr_t attributes;
  if (has_room || pthread_attr_init(&attributes) != 0) return run_and_word_errors(argc, argv);
  Call call{.argc = argc, .argv = argv};
  pthread_t thread{};
  pthread_attr_setstacksize(&attributes, kStackBytesMin);
  (void)pthread_setattr_default_np(&attributes);
  const bool runs = pthread_create(&thread, &attributes, run_call, &call) == 0;
  pthread_attr_destroy(&attributes);
  if (!runs) return run_and_word_errors(argc, argv);
  pthread_join(thread, nullptr);
  return call.code;
}

}  // namespace
}  // namespace allocmark

int main(int argc, char** argv) {
  allocmark::guard_streams();
  const allocmark::ExitCode code = allocmark::run_with_room(argc, argv);
  return static_cast<int>(allocmark::with_end_of_output(code));
}

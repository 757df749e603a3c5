// 'allocmark size SIZE...': each size in bytes, and as tables print it.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "base/bytes.h"
#include "harness/shell/registry.h"

namespace allocmark {
namespace {

struct SizeCommand {
  std::vector<std::string> sizes;
};

void add_size(CLI::App* app, SizeCommand* command) {
  app->add_option("sizes", command->sizes, "Sizes with a unit, as 24GiB")
      ->required()
      ->type_name("SIZE");
}

ExitCode run_size(const SizeCommand& command) {
  for (const std::string& text : command.sizes) {
    const std::optional<std::uint64_t> size_bytes = parse_bytes(text);
    if (!size_bytes) {
      throw UsageError({.what = "this is no size",
                        .where = "SIZE",
                        .wanted = "a number with a unit, as 24GiB",
                        .got = text,
                        .next = explain_bytes(text)});
    }
    fmt::print("{} {}\n", *size_bytes, format_bytes(*size_bytes));
  }
  return ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kSizeCommand;
constinit const CommandEntry kSizeCommand{
    "size", "Say how many bytes a size is",
    [](CLI::App* app) { return bind_command(app, add_size, run_size); }};

}  // namespace allocmark

// The text of --help: what an option takes, its range in words and its default at the end of its
// line.
#pragma once

#include <string>

#include "harness/shell/options.h"

namespace allocmark {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

// "N" of an option with a number; empty for a flag. Without what validators add to it.
[[nodiscard]] std::string value_name(const CLI::Option& option);

// "Timed passes over the trace (1 to 100000) [3]": the description, range and default.
[[nodiscard]] std::string describe_option(const CLI::Option& option);

// CLI11's "4 not in range 1 to 3" and "x not in {a,b}" as a sentence for people.
[[nodiscard]] std::string plain_message(std::string message);

}  // namespace allocmark

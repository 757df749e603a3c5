// What is said of a command line that cannot be parsed.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace allocmark {

// The first throws where a word is neither a command nor an option where it stands, and else
// returns. The second throws the UsageError with the command, what is wrong and the nearest name.
// `words` are those after the program's name.
void throw_unknown_word(const CLI::App& app, const std::vector<std::string>& words);
[[noreturn]] void throw_parse_error(const CLI::ParseError& error, const CLI::App& app,
                                    const std::vector<std::string>& words);

}  // namespace allocmark

// A text as one word of a shell's command line, for lines that people paste. A path flows in; a
// word flows out that bash and zsh read as that path and nothing else.
#pragma once

#include <string>
#include <string_view>

namespace allocmark {

// As it is where a shell reads nothing into it; else in quotes. With a control character it is
// $'...', so that it stays on one line and does nothing to a terminal.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace allocmark

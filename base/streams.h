// What becomes of everything that is printed to stdout and stderr. Text flows in through the usual
// FILE*; text that no terminal obeys flows out. A full disk, a closed stream or a reader that went
// away never throws and never ends the program: stderr loses its text, and stdout remembers.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace allocmark {

// The text with everything that a terminal would obey made visible: ESC is \x1b, the controls
// of writing direction and of Latin-1 are \u202e and the like, a byte that is no UTF-8 is \xff.
// Newlines and tabs stay.
[[nodiscard]] std::string visible_text(std::string_view text);

// For the whole process, once, before anything is printed or opened: replaces stdout and stderr,
// gives closed streams a place so that no file of ours gets their number, and takes SIGPIPE and
// SIGXFSZ as errors of write.
void guard_streams();

enum class StreamEnd {
  Whole,       // everything arrived
  ReaderGone,  // who read it has enough
  Failed       // the disk is full, the stream is closed
};
// What became of stdout so far; everything printed is handed over first.
[[nodiscard]] StreamEnd end_of_stdout();

// Clears the line that the cursor of a terminal is in, which text from outside may not.
void clear_terminal_line(std::FILE* stream);

}  // namespace allocmark

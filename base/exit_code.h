// What every command ends with.
#pragma once

namespace allocmark {

// The process exit codes of every allocmark command. harness/shell/CONVENTIONS.md has the table for
// users.
enum class ExitCode : int {
  Pass = 0,
  Regression = 1,       // judged and found wanting: regression, mismatch, a GPU to replace or drain
  Usage = 2,            // the command line, a config string or what an input file says is wrong
  CellsIncomplete = 3,  // cells crashed, timed out or are missing
  NotReady = 4,         // nothing was judged: no GPU, no driver, or another process uses the GPU
  Internal = 5,         // a bug of ours
  FileAccess = 6,       // a file or folder cannot be found, read or written
  TimedOut = 124,
};

}  // namespace allocmark

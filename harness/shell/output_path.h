// One rule for every file that a command writes under a name the user gave: its folder exists, and
// nothing is replaced without --force. Checked before any work is done.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace allocmark {

// The flag --force, as every command has it that writes a named file.
void add_force(CLI::App* app, bool* force);

// Throws FileError where the file cannot be made there, and UsageError where one is there already
// and `force` is not set. What is no regular file (/dev/stdout, a pipe) may be written always.
// `option` is told as the place: "--out".
void check_output_file(const std::string& path, bool force, const std::string& option);

// Makes the folder where it is missing. Throws FileError where that cannot be.
void make_output_folder(const std::string& path, const std::string& option);

}  // namespace allocmark

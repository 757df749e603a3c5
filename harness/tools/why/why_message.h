// What 'why' says of a text: the part of it that reads pasted messages instead of snapshots.
#pragma once

#include <string>

namespace allocmark {

// Answers on stdout where the file is a text with a message, and false where it is a snapshot.
// "-" is standard input; a text that has a message and names no file is the message itself. Throws
// UsageError where it is neither, and where `snapshot_option`, an option that was given and that a
// message cannot answer, is not empty.
[[nodiscard]] bool answer_message(const std::string& path, const std::string& format,
                                  const std::string& snapshot_option);

}  // namespace allocmark

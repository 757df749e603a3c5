// The names of the pickle opcodes that the machine refuses, for its messages.
#pragma once

#include <string>

namespace allocmark {

// "GLOBAL (0x63)"; "0x00" for a byte that is no opcode.
[[nodiscard]] std::string opcode_name(int opcode);

// What a pickle with this opcode wants to do, for a message; empty where there is nothing to say.
[[nodiscard]] std::string opcode_danger(int opcode);

}  // namespace allocmark

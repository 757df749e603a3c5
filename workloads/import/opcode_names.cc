#include "workloads/import/opcode_names.h"

#include <fmt/format.h>

#include <string_view>

namespace allocmark {
namespace {

struct OpcodeName {
  int opcode;
  std::string_view name;
  bool runs_code;  // it names a class or calls something
};

constexpr OpcodeName kOpcodeNames[] = {
    {'c', "GLOBAL", true},        {0x93, "STACK_GLOBAL", true},
    {'R', "REDUCE", true},        {'b', "BUILD", true},
    {'i', "INST", true},          {'o', "OBJ", true},
    {0x81, "NEWOBJ", true},       {0x92, "NEWOBJ_EX", true},
    {0x82, "EXT1", true},         {0x83, "EXT2", true},
    {0x84, "EXT4", true},         {'P', "PERSID", true},
    {'Q', "BINPERSID", true},     {'I', "INT", false},
    {'L', "LONG", false},         {'F', "FLOAT", false},
    {'S', "STRING", false},       {'V', "UNICODE", false},
    {'T', "BINSTRING", false},    {'U', "SHORT_BINSTRING", false},
    {'B', "BINBYTES", false},     {'C', "SHORT_BINBYTES", false},
    {0x8e, "BINBYTES8", false},   {0x96, "BYTEARRAY8", false},
    {0x97, "NEXT_BUFFER", false}, {0x98, "READONLY_BUFFER", false},
    {0x8b, "LONG4", false},       {'d', "DICT", false},
    {'l', "LIST", false},         {0x8f, "EMPTY_SET", false},
    {0x90, "ADDITEMS", false},    {0x91, "FROZENSET", false},
    {'0', "POP", false},          {'1', "POP_MARK", false},
    {'2', "DUP", false},          {'p', "PUT", false},
    {'g', "GET", false},          {0x80, "PROTO", false},
};

const OpcodeName* find(int opcode) {
  for (const OpcodeName& entry : kOpcodeNames) {
    if (entry.opcode == opcode) return &entry;
  }
  return nullptr;
}

}  // namespace

std::string opcode_name(int opcode) {
  const OpcodeName* entry = find(opcode);
  if (entry == nullptr) return fmt::format("{:#04x}, which is none", opcode);
  return fmt::format("{} ({:#04x})", entry->name, opcode);
}

std::string opcode_danger(int opcode) {
  const OpcodeName* entry = find(opcode);
  return entry != nullptr && entry->runs_code ? "one that names or runs code; nothing was run" : "";
}

}  // namespace allocmark

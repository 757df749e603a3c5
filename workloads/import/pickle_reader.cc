// The pickle machine: a stack, a memo and the opcodes that snapshots need, in Python's pickle
// protocols 2 to 5 and in the files of PyTorch's C++ pickler. No opcode that names a class, calls
// something or refers outside the file is known, so nothing can be executed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <span>
#include <vector>

#include "base/error.h"
#include "workloads/import/byte_window.h"
#include "workloads/import/memory_snapshot.h"
#include "workloads/import/opcode_names.h"
#include "workloads/import/pickle_value.h"
#include "workloads/import/snapshot_builder.h"

namespace allocmark {
namespace {

using Tag = PickleValue::Tag;

constexpr int kProtocolMin = 2;
constexpr int kProtocolMax = 5;
constexpr std::size_t kMarkCountMax = 64;  // real files nest 6 levels
constexpr std::uint64_t kTextBytesMax = std::uint64_t{16} << 20;
constexpr std::uint64_t kStackSizeMax = std::uint64_t{1} << 20;
constexpr std::uint64_t kMemoCountMax = std::uint64_t{1} << 26;
constexpr std::size_t kWaitingItemsMax = 1024;  // of a list

class PickleMachine {
 public:
  explicit PickleMachine(const std::string& path) : bytes_(path) {}

  [[nodiscard]] MemorySnapshot run();
  // Of the opcode that is being run.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] const std::string& damage() const { return bytes_.damage(); }

 private:
  [[nodiscard]] bool step(int opcode);
  [[nodiscard]] bool step_number(int opcode);
  [[nodiscard]] bool step_container(int opcode);
  [[nodiscard]] bool step_memo(int opcode);
  [[nodiscard]] std::uint64_t take_number(int byte_count);
  void push_text(std::uint64_t byte_count);
  void push_long(int byte_count);
  void push_tuple(std::size_t count);
  void push(PickleValue value);
  [[nodiscard]] PickleValue pop();
  [[nodiscard]] PickleValue& top();
  // What was pushed since the last mark; the mark itself is gone after drop_to_mark.
  [[nodiscard]] std::span<const PickleValue> since_mark();
  void drop_to_mark();
  void append_early();
  void put(std::uint64_t index);
  void get(std::uint64_t index);

  ByteWindow bytes_;
  SnapshotBuilder builder_;
  struct Mark {
    std::size_t at = 0;
    bool of_list = false;  // some of what was pushed since is in the list below the mark already
  };

  std::vector<PickleValue> stack_;
  std::vector<Mark> marks_;
  // The memo holds texts, containers and pairs, as tag << 56 | index: half of a value's size.
  std::deque<std::uint64_t> memo_;
  std::vector<char> text_;
  std::uint64_t offset_ = 0;
};

[[noreturn]] void throw_short() {
  throw PickleError("the pickle is cut short", "its opcode STOP", "the end of the file");
}

std::uint64_t PickleMachine::take_number(int byte_count) {
  std::array<char, 8> bytes{};
  if (!bytes_.take(std::span(bytes).first(static_cast<std::size_t>(byte_count)))) throw_short();
  return std::bit_cast<std::uint64_t>(bytes);
}

void PickleMachine::push(PickleValue value) {
  if (stack_.size() >= kStackSizeMax)
    throw PickleError("the pickle's stack grows too high", fmt::format("at most {}", kStackSizeMax),
                      "more");
  stack_.push_back(value);
}

PickleValue& PickleMachine::top() {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back().at;
  if (stack_.size() <= floor)
    throw PickleError("an opcode needs a value and the stack has none", "", "");
  return stack_.back();
}

PickleValue PickleMachine::pop() {
  const PickleValue value = top();
  stack_.pop_back();
  return value;
}

std::span<const PickleValue> PickleMachine::since_mark() {
  if (marks_.empty()) throw PickleError("an opcode needs a mark and there is none", "", "");
  return std::span(stack_).subspan(marks_.back().at);
}

void PickleMachine::drop_to_mark() {
  stack_.resize(marks_.back().at);
  marks_.pop_back();
}

// PyTorch's C++ writes a list in one piece, and a history of millions of entries would wait on the
// stack for its end. So a list gets what waits for it before. The last value may still be changed.
void PickleMachine::append_early() {
  if (marks_.empty()) return;
  Mark& mark = marks_.back();
  const std::size_t count = stack_.size() - mark.at;
  if (count <= kWaitingItemsMax || mark.at == 0 || !builder_.is_list(stack_[mark.at - 1])) return;
  builder_.append(stack_[mark.at - 1], since_mark().first(count - 1));
  stack_[mark.at] = stack_.back();
  stack_.resize(mark.at + 1);
  mark.of_list = true;
}

void PickleMachine::push_text(std::uint64_t byte_count) {
  if (byte_count > kTextBytesMax) {
    throw PickleError("a text is too long", fmt::format("at most {} MiB", kTextBytesMax >> 20),
                      fmt::format("{} bytes", byte_count));
  }
  text_.resize(byte_count);
  if (!bytes_.take(text_)) throw_short();
  push(builder_.text({text_.data(), text_.size()}));
}

// Little-endian, two's complement. Unsigned addresses take 9 bytes.
void PickleMachine::push_long(int byte_count) {
  if (byte_count > 9) {
    throw PickleError("a number is too large", "at most 64 bits",
                      fmt::format("{} bytes", byte_count));
  }
  std::array<char, 9> bytes{};
  if (!bytes_.take(std::span(bytes).first(static_cast<std::size_t>(byte_count)))) throw_short();
  std::uint64_t number = 0;
  for (int i = std::min(byte_count, 8) - 1; i >= 0; --i)
    number = number << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
  if (byte_count == 9) {
    if (bytes[8] != 0)
      throw PickleError("a number is too large", "at most 64 bits", "a negative one of 9 bytes");
    return push({.bits = number, .tag = number >> 63 != 0 ? Tag::Unsigned : Tag::Int});
  }
  const bool negative =
      byte_count > 0 && (bytes[static_cast<std::size_t>(byte_count) - 1] & 0x80) != 0;
  if (negative && byte_count < 8) number |= ~std::uint64_t{0} << (8 * byte_count);
  push({.bits = number, .tag = Tag::Int});
}

void PickleMachine::push_tuple(std::size_t count) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back().at;
  if (stack_.size() < floor + count)
    throw PickleError("an opcode needs a value and the stack has none", "", "");
  const PickleValue tuple = builder_.make_tuple(std::span(stack_).last(count));
  stack_.resize(stack_.size() - count);
  push(tuple);
}

// Picklers number what they memoise from 0 up. Other numbers would only serve to fill the memory.
void PickleMachine::put(std::uint64_t index) {
  if (index > memo_.size()) {
    throw PickleError("the memo has gaps", fmt::format("index {} at most", memo_.size()),
                      fmt::format("{}", index));
  }
  if (index >= kMemoCountMax)
    throw PickleError("the memo grows too large", fmt::format("at most {}", kMemoCountMax), "more");
  const PickleValue& value = top();
  const bool can_be = value.is(Tag::Text) || value.is(Tag::Node) || value.is(Tag::Pair);
  // Numbers are never memoised by a pickler; a place that is never read costs nothing.
  const std::uint64_t packed =
      can_be ? static_cast<std::uint64_t>(value.tag) << 56 | value.bits : 0;
  if (index == memo_.size()) {
    memo_.push_back(packed);
  } else {
    memo_[index] = packed;
  }
}

void PickleMachine::get(std::uint64_t index) {
  if (index >= memo_.size() || memo_[index] == 0) {
    throw PickleError("the memo is read where nothing was put", "", fmt::format("index {}", index));
  }
  push({.bits = memo_[index] & ((std::uint64_t{1} << 56) - 1),
        .tag = static_cast<Tag>(memo_[index] >> 56)});
}

bool PickleMachine::step_number(int opcode) {
  switch (opcode) {
    case 'N':  // NONE
      return push({}), true;
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      return push({.bits = opcode == 0x88 ? 1u : 0u, .tag = Tag::Bool}), true;
    case 'K':  // BININT1
      return push({.bits = take_number(1), .tag = Tag::Int}), true;
    case 'M':  // BININT2
      return push({.bits = take_number(2), .tag = Tag::Int}), true;
    case 'J': {  // BININT
      const auto number = static_cast<std::int32_t>(take_number(4));
      return push({.bits = static_cast<std::uint64_t>(std::int64_t{number}), .tag = Tag::Int}),
             true;
    }
    case 0x8a:  // LONG1
      return push_long(static_cast<int>(take_number(1))), true;
    case 'G': {  // BINFLOAT, big-endian
      const std::uint64_t bits = __builtin_bswap64(take_number(8));
      return push({.bits = bits, .tag = Tag::Float}), true;
    }
    case 0x8c:  // SHORT_BINUNICODE
      return push_text(take_number(1)), true;
    case 'X':  // BINUNICODE
      return push_text(take_number(4)), true;
    case 0x8d:  // BINUNICODE8
      return push_text(take_number(8)), true;
    default:
      return false;
  }
}

bool PickleMachine::step_container(int opcode) {
  switch (opcode) {
    case '(':  // MARK
      if (marks_.size() >= kMarkCountMax)
        throw PickleError("the pickle is nested too deeply",
                          fmt::format("at most {} levels", kMarkCountMax), "more");
      marks_.push_back({.at = stack_.size()});
      return true;
    case '}':  // EMPTY_DICT
      return push(builder_.make_dict()), true;
    case ']':  // EMPTY_LIST
      return push(builder_.make_list()), true;
    case ')':  // EMPTY_TUPLE
      return push_tuple(0), true;
    case 0x85:  // TUPLE1, TUPLE2, TUPLE3
    case 0x86:
    case 0x87:
      return push_tuple(static_cast<std::size_t>(opcode - 0x84)), true;
    case 't': {  // TUPLE
      if (!marks_.empty() && marks_.back().of_list)
        throw PickleError("a long list has no end", "the opcode APPENDS", "TUPLE");
      const PickleValue tuple = builder_.make_tuple(since_mark());
      drop_to_mark();
      return push(tuple), true;
    }
    case 'a': {  // APPEND
      const PickleValue item = pop();
      return builder_.append(top(), std::span(&item, 1)), true;
    }
    case 'e': {  // APPENDS
      const std::span<const PickleValue> items = since_mark();
      const std::size_t mark = marks_.back().at;
      if (mark == 0) throw PickleError("an opcode needs a value and the stack has none", "", "");
      builder_.append(stack_[mark - 1], items);
      return drop_to_mark(), true;
    }
    case 's': {  // SETITEM
      const PickleValue value = pop();
      const std::array<PickleValue, 2> item = {pop(), value};
      return builder_.set_items(top(), item), true;
    }
    case 'u': {  // SETITEMS
      const std::span<const PickleValue> items = since_mark();
      const std::size_t mark = marks_.back().at;
      if (mark == 0) throw PickleError("an opcode needs a value and the stack has none", "", "");
      if (items.size() % 2 != 0)
        throw PickleError("a key has no value", "keys and values in turn", "");
      builder_.set_items(stack_[mark - 1], items);
      drop_to_mark();
      return append_early(), true;
    }
    default:
      return false;
  }
}

bool PickleMachine::step_memo(int opcode) {
  switch (opcode) {
    case 0x94:  // MEMOIZE
      return put(memo_.size()), true;
    case 'q':  // BINPUT
      return put(take_number(1)), true;
    case 'r':  // LONG_BINPUT
      return put(take_number(4)), true;
    case 'h':  // BINGET
      return get(take_number(1)), true;
    case 'j':  // LONG_BINGET
      return get(take_number(4)), true;
    default:
      return false;
  }
}

// False at the opcode STOP.
bool PickleMachine::step(int opcode) {
  if (opcode == '.') return false;
  if (opcode == 0x95) {  // FRAME: how many bytes follow, which nobody needs to know
    static_cast<void>(take_number(8));
    return true;
  }
  if (step_memo(opcode) || step_number(opcode) || step_container(opcode)) return true;
  throw PickleError(fmt::format("the pickle has the opcode {}", opcode_name(opcode)),
                    "only the opcodes of plain dictionaries, lists, numbers and texts",
                    opcode_danger(opcode));
}

MemorySnapshot PickleMachine::run() {
  if (bytes_.next() != 0x80)
    throw PickleError("the pickle has protocol 0 or 1", "protocol 2 to 5",
                      "no opcode PROTO at its start");
  const int protocol = bytes_.next();
  if (protocol < kProtocolMin || protocol > kProtocolMax) {
    throw PickleError(fmt::format("the pickle has protocol {}", protocol), "protocol 2 to 5", "");
  }
  while (true) {
    offset_ = bytes_.offset();
    const int opcode = bytes_.next();
    if (opcode < 0) throw_short();
    if (!step(opcode)) break;
  }
  const PickleValue last = pop();
  // The memo and the stack go before the snapshot is finished.
  std::deque<std::uint64_t>().swap(memo_);
  std::vector<PickleValue>().swap(stack_);
  return builder_.finish(last);
}

}  // namespace

MemorySnapshot read_memory_snapshot(const std::string& path) {
  PickleMachine machine(path);
  try {
    MemorySnapshot snapshot = machine.run();
    snapshot.path = path;
    return snapshot;
  } catch (const PickleError& error) {
    const bool damaged = !machine.damage().empty();
    throw UsageError(
        {.what = error.what(),
         .where = fmt::format("{}, byte {}", path, machine.offset()),
         .wanted = error.wanted,
         .got = damaged ? machine.damage() : error.got,
         .next = "write the file with torch.cuda.memory._dump_snapshot(), or copy it again"});
  }
}

}  // namespace allocmark

// What stands on the stack of the pickle machine. Small numbers stand for what is large: a text is
// an index into the snapshot's texts, a dictionary that was recognised as an entry is the entry's
// index.
#pragma once

#include <cstdint>

namespace allocmark {

struct PickleValue {
  enum class Tag : std::uint8_t {
    None,
    Bool,
    Int,       // as int64
    Unsigned,  // 2^63 or more
    Float,     // bits of a double
    Text,      // index
    Node,      // a list, tuple or dictionary: index
    Pair,      // a tuple of two numbers: index
    Mark,
    // Dictionaries that were recognised, as they stand in lists: `bits` is the first index, `count`
    // how many follow each other.
    Entry,
    Block,
    Segment,
    Annotation,
    Frame,
    Past,
  };

  std::uint64_t bits = 0;
  std::uint32_t count = 1;
  Tag tag = Tag::None;

  [[nodiscard]] bool is(Tag wanted) const { return tag == wanted; }
  [[nodiscard]] bool is_number() const { return tag == Tag::Int || tag == Tag::Unsigned; }
};
static_assert(sizeof(PickleValue) == 16);

}  // namespace allocmark

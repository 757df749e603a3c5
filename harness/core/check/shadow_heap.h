// The oracle of the checked pass: an independent record of what is live, kept as plain intervals in
// a std::map so that it is obviously correct. What a backend answers flows in; the first broken
// rule flows out, with the event and both blocks concerned. stream_hazards.h looks after memory
// that was given back. This file checks and is never used in a timed pass.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace allocmark {

struct ShadowBlock {
  std::uint64_t event_index = 0;  // of the allocation
  std::uint64_t id = 0;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;  // as requested
  std::uint32_t stream = 0;
};

enum class HeapRule : std::uint8_t {
  NotNull,        // a request of more than 0 bytes that succeeds has an address
  Aligned,        // the address is a multiple of what the backend promises
  InRange,        // the block does not run past the end of the address space
  InPinnedRange,  // the same of a backend of the host's memory
  NoOverlap,      // live blocks never overlap; handing one address out twice breaks it too
  NoEarlyReuse,   // memory that a stream still uses is not handed to another stream
};
[[nodiscard]] const char* to_string(HeapRule rule);

struct BrokenRule {
  HeapRule rule = HeapRule::NotNull;
  ShadowBlock block;                                // the block just handed out
  std::optional<ShadowBlock> other = std::nullopt;  // the block it collides with
  std::uint32_t user_stream = 0;  // NoEarlyReuse: the stream whose work is unfinished
  std::uint64_t user_point = 0;   // NoEarlyReuse: where in that stream the work ends, if known
  [[nodiscard]] std::string text() const;
};

class ShadowHeap {
 public:
  explicit ShadowHeap(std::uint64_t alignment_bytes) : alignment_bytes_(alignment_bytes) {}

  // A request succeeded. A block that breaks a rule counts as live all the same, where it has a
  // place.
  [[nodiscard]] std::optional<BrokenRule> allocate(const ShadowBlock& block);
  // The owner gives the block back.
  void deallocate(const ShadowBlock& block);

  [[nodiscard]] std::size_t live_count() const { return live_by_address_.size(); }

 private:
  std::uint64_t alignment_bytes_;
  std::map<std::uint64_t, ShadowBlock> live_by_address_;
};

}  // namespace allocmark

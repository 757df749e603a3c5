// The checks that are work in the program's streams: contents of blocks, and reuse while a kernel
// of the former owner still runs. An allocator can see that work, so figures never come from a pass
// that does it. This file checks.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "harness/core/check/verify.h"
#include "harness/core/replay/block_pattern.h"

namespace allocmark {

namespace {

// At the level whole one block in so many allocations is looked at while it is live.
constexpr std::uint64_t kRandomCheckPeriod = 16;

std::string hex(std::uint64_t value) { return fmt::format("{:#018x}", value); }

std::string block_text(const ShadowBlock& block) {
  return "block " + std::to_string(block.id) + " (event " + std::to_string(block.event_index) +
         ", " + std::to_string(block.size_bytes) + " bytes)";
}

}  // namespace

// The clock that kernels run by.
std::uint64_t Verifier::now_ns() const {
  if (setup_.simcu.present) return setup_.simcu.thread_clock()->modelled_ns;
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

// Work begins on a stream. On a GPU its end is asked for, not estimated.
void Verifier::note_work(std::uint32_t stream, std::uint64_t duration_ns) {
  hazards_.launch(
      {.stream = stream, .now_ns = now_ns(), .duration_ns = has_gpu() ? UINT64_MAX : duration_ns});
}

bool Verifier::use_is_over(const BrokenRule& use) {
  if (use.user_point != 0) {
    if (!points_.passed(use.user_stream, use.user_point)) return false;
    hazards_.pass(use.user_stream, use.user_point);
    return true;
  }
  if (cudaStreamQuery(setup_.replay.streams[use.user_stream]) == cudaErrorNotReady) return false;
  hazards_.end_work(use.user_stream);
  return true;
}

bool Verifier::check_early_reuse(const Block& block) {
  std::optional<bool> starts_at_once;
  while (const auto broken = hazards_.early_reuse(block.shadow, now_ns())) {
    // Where the new owner's stream has work to wait for, that may well be the old work: nothing is
    // proven. Where it is idle, the new owner would start at once. This is asked first: the other
    // way round the old work could end between the two questions.
    if (!starts_at_once) {
      starts_at_once = cudaStreamQuery(setup_.replay.streams[block.shadow.stream]) == cudaSuccess;
    }
    if (use_is_over(*broken)) continue;
    if (*starts_at_once) {
      if (setup_.capabilities.stream_ordered) fail(broken->text());
      ++*report_.unordered_reuse_count;
    }
    return true;
  }
  return false;
}

BlockContents::Block Verifier::contents_of(const Block& block) const {
  return {.shadow = block.shadow,
          .pointer = block.pointer,
          .stream = setup_.replay.streams[block.shadow.stream],
          .marked_bytes = block.marked_bytes};
}

void Verifier::write_pattern(Block& block) {
  if (!marks_blocks_) return;
  block.marked_bytes = contents_.write(contents_of(block), report_.counts.allocate_count);
  if (contents_.uses_kernels() && block.marked_bytes != 0) note_work(block.shadow.stream, 0);
}

void Verifier::check_pattern(const Block& block) {
  const BlockContents::Answer answer = contents_.check(contents_of(block));
  // A kernel that looks at the block is a use of it like any other.
  if (answer == BlockContents::Answer::Later) note_work(block.shadow.stream, 0);
  if (answer == BlockContents::Answer::Unmapped) {
    fail("broken rule: live blocks stay mapped: " + block_text(block.shadow) + " is no longer " +
         (setup_.capabilities.side == MemorySide::Host ? "pinned" : "device") +
         " memory at event " + std::to_string(report_.counts.event_count));
  } else if (answer == BlockContents::Answer::Changed || contents_.found_later()) {
    fail_changed_word();
  }
}

void Verifier::check_some_block() {
  if (report_.broken_rule || random_.below(kRandomCheckPeriod) != 0) return;
  const Block& block = blocks_[random_.below(blocks_.size())];
  if (block.live && block.marked_bytes != 0) check_pattern(block);
}

void Verifier::finish() {
  if (!checks_whole() || report_.broken_rule) return;
  report_.edges_only_count = contents_.edges_only_count();
  report_.unmarked_count = contents_.unmarked_count();
  for (const Block& block : blocks_) {
    if (block.live && block.marked_bytes != 0) check_pattern(block);
    if (report_.broken_rule) return;
  }
  contents_.synchronize();
  if (contents_.found_later()) fail_changed_word();
}

// Says which block, where, and whose bytes are there now, as far as they tell.
void Verifier::fail_changed_word() {
  const ChangedWord& changed = contents_.changed();
  const ShadowBlock owner{
      .event_index = changed.event_index, .id = changed.id, .size_bytes = changed.size_bytes};
  std::string text =
      "broken rule: contents survive until the block is freed: " + block_text(owner) +
      " has changed bytes at offset " + std::to_string(changed.offset_bytes) + ", seen at event " +
      std::to_string(report_.counts.event_count) + ": expected " + hex(changed.expected) +
      ", found " + hex(changed.found);
  const PatternPlace place = place_of_word(changed.found);
  if (place.event_index <= report_.counts.event_count) {
    const auto other = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
      return block.live && block.shadow.event_index == place.event_index;
    });
    text += ", which is offset " + std::to_string(place.offset_bytes) + " of " +
            (other != blocks_.end() ? block_text(other->shadow)
                                    : "the block of event " + std::to_string(place.event_index) +
                                          ", given back since");
  }
  fail(std::move(text));
}

}  // namespace allocmark

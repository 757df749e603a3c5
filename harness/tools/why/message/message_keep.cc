// Which messages of a text are one: repetitions of ranks and retries, and the parts that a log
// tears apart. See message.h.
#include <algorithm>
#include <array>
#include <utility>

#include "harness/tools/why/message/message.h"

namespace allocmark::message {
namespace {

bool overlap(const Figure& left, const Figure& right) {
  return left.low_bytes <= right.high_bytes && right.low_bytes <= left.high_bytes;
}

// The same allocator under two names: JAX's error repeats what its allocator said before.
Family speaker(const Message& message) {
  return message.form->family == Family::Xla ? Family::Bfc : message.form->family;
}

// `later` says nothing that `earlier` does not say.
bool repeats(const Message& later, const Message& earlier) {
  if (speaker(later) != speaker(earlier) || later.no_sizes != earlier.no_sizes) return false;
  if (later.is_pinning != earlier.is_pinning) return false;
  const bool same_asked = later.of(Quantity::Asked) && earlier.of(Quantity::Asked);
  for (std::size_t i = 0; i < kQuantityCount; ++i) {
    if (!later.figures[i]) continue;
    if (!earlier.figures[i] || !overlap(*later.figures[i], *earlier.figures[i])) return false;
  }
  return same_asked || !later.of(Quantity::Asked);
}

bool says_all_without_figures(Family family) {
  static constexpr std::array kFamilies = {Family::Host,   Family::Shared,    Family::Vllm,
                                           Family::Sglang, Family::VllmStart, Family::Kernel};
  return std::ranges::find(kFamilies, family) != kFamilies.end();
}

bool has_figures(const Message& message) {
  return std::ranges::any_of(message.figures, [](const auto& figure) { return bool(figure); }) ||
         !message.no_sizes.empty();
}

// The state of an allocator, which its log prints below the message.
void join(const Message& state, Message* message) {
  for (std::size_t i = 0; i < kQuantityCount; ++i) {
    if (!message->figures[i]) message->figures[i] = state.figures[i];
  }
}

}  // namespace

void MessageReader::keep(Message message) {
  std::vector<Message>& kept = found_.messages;
  if (message.form->continues) {
    const auto before = std::find_if(kept.rbegin(), kept.rend(), [&](const Message& one) {
      return one.form->family == message.form->family && !one.of(Quantity::Allowed);
    });
    if (free_chunks_.bytes > 0) {
      message.set(Quantity::FreeChunks, free_chunks_);
      message.set(Quantity::LargestFree, largest_chunk_);
    }
    free_chunks_ = exact_figure(0);
    largest_chunk_ = exact_figure(0);
    if (before != kept.rend()) return join(message, &*before);
  }
  const Family family = message.form->family;
  const bool says_something =
      message.is_pinning || says_all_without_figures(family) ||
      (family != Family::NoFigures && (has_figures(message) || message.is_rejection));
  std::vector<Message>& list = says_something ? kept : without_figures_;
  for (Message& earlier : list) {
    if (!repeats(message, earlier)) continue;
    ++earlier.count;
    earlier.line = std::min(earlier.line, message.line);
    return;
  }
  if (list.size() >= kMessageCountMax) {
    ++found_.dropped_count;
    return;
  }
  list.push_back(std::move(message));
}

FoundMessages MessageReader::finish() {
  take(held_, held_.size());
  held_.clear();
  const bool is_mixed = std::ranges::any_of(found_.messages, &Message::is_mixed);
  for (Message& message : found_.messages) {
    message.is_mixed |=
        is_mixed && message.form->family == Family::PyTorch && !message.of(Quantity::Free);
    message.expandable_on |= expandable_on_;
    message.expandable_refusal = expandable_refusal_;
  }
  // Those of one process came after another.
  std::ranges::stable_sort(found_.messages, {}, &Message::line);
  std::ranges::stable_sort(without_figures_, {}, &Message::line);
  // What has no figures counts only where nothing else is there, and so does what has no sender.
  if (found_.messages.empty()) found_.messages = std::move(without_figures_);
  for (Message& message : found_.messages) message.names_pytorch = names_pytorch_;
  // The same line may say both.
  std::vector<std::uint64_t> sender_lines;
  for (const Message& message : found_.messages)
    if (message.form->family != Family::NoFigures) sender_lines.push_back(message.line);
  std::erase_if(found_.messages, [&](const Message& message) {
    return message.form->family == Family::NoFigures && !message.is_pinning &&
           std::ranges::find(sender_lines, message.line) != sender_lines.end();
  });
  // A table and a warning are no failure: they come after what failed.
  std::ranges::stable_partition(found_.messages, [](const Message& message) {
    return message.form->family != Family::Summary && !message.is_no_failure;
  });
  return std::move(found_);
}

}  // namespace allocmark::message

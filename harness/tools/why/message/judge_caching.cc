// PyTorch's caching allocator: what is free on the card and what is free in its cache.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/divided_up.h"
#include "harness/tools/why/message/judges.h"

namespace allocmark::message {
namespace {

// What PyTorch asks of the driver for small requests, and what these requests are.
struct SegmentRule {
  std::int64_t segment_bytes;
  std::string_view requests;
};
constexpr std::array kSegmentRules = {
    SegmentRule{2 * static_cast<std::int64_t>(kMiB), "at most 1 MiB"},
    SegmentRule{20 * static_cast<std::int64_t>(kMiB), "1 to 10 MiB, or 18 to 20 MiB"}};

void compare(Verdict* verdict, const std::optional<Figure>& larger, std::string_view larger_name,
             const std::optional<Figure>& smaller, std::string_view smaller_name) {
  if (!larger || !smaller || !surely_less(*larger, *smaller)) return;
  verdict->contradictions.push_back(fmt::format("{} ({}) is less than {} ({})", larger_name,
                                                told(*larger), smaller_name, told(*smaller)));
}

// What cannot be, whatever was rounded. True where the answer would rest on it.
bool contradicts(const Message& message, Verdict* verdict) {
  const auto& total = message.of(Quantity::Total);
  const auto& allocated = message.of(Quantity::Allocated);
  const auto& free = message.of(Quantity::Free);
  compare(verdict, total, "the card's memory", free, "what is free on it");
  compare(verdict, message.of(Quantity::Reserved), "reserved memory", allocated,
          "what is allocated of it");
  if (total && total->high_bytes == 0)
    verdict->contradictions.push_back("the card's memory is 0 bytes, which no card has");
  const bool is_fatal = !verdict->contradictions.empty();
  compare(verdict, total, "the card's memory", message.of(Quantity::ThisProcess),
          "what this process holds on it");
  compare(verdict, total, "the card's memory", message.of(Quantity::Allowed),
          "what the process may take");
  compare(verdict, allocated, "allocated memory", message.of(Quantity::PoolFree),
          "its part in private pools");
  compare(verdict, message.of(Quantity::ThisProcess), "what this process holds",
          reserved_of(message), "what PyTorch alone reserved");
  for (const std::string& text : message.no_sizes) {
    verdict->contradictions.push_back(
        text + " is no size: a number below zero that was printed as one above");
  }
  return is_fatal;
}

void add_segment_fact(const Message& message, Verdict* verdict) {
  const auto& asked = message.of(Quantity::Asked);
  if (!asked || message.form->family != Family::PyTorch) return;
  for (const SegmentRule& rule : kSegmentRules) {
    if (asked->bytes != rule.segment_bytes) continue;
    verdict->facts.push_back(
        say(message,
            "{asked} is the segment that PyTorch asks of the driver for a request of {requests}.",
            {{"requests", rule.requests}}));
  }
}

// What is on the card beside this allocator, by name where the text has names.
void add_outside_facts(const Message& message, Verdict* verdict) {
  for (const ProcessFigure& other : other_processes(message)) {
    verdict->facts.push_back(
        fmt::format("Process {} holds {} on this card, too.", other.pid, told(other.memory)));
  }
  const auto& total = message.of(Quantity::Total);
  const std::optional<Figure> reachable = reachable_of(message);
  if (!total || !reachable || !surely_less(*reachable, *total)) return;
  const Figure outside = *total - *reachable;
  std::string text = fmt::format(
      "{} of the card are neither free nor {}'s: the CUDA context, other libraries and other "
      "processes.",
      show(outside), message.form->name);
  if (message.form->family == Family::PyTorch && verdict->must_go_bytes &&
      *verdict->must_go_bytes > 0 &&
      outside.bytes >= *verdict->must_go_bytes + static_cast<std::int64_t>(kGiB))
    text +=
        " If other processes hold it, ending them is enough; where it is PyTorch's cache, so is "
        "torch.cuda.empty_cache() there.";
  verdict->facts.push_back(std::move(text));
}

void add_pool_fact(const Message& message, Verdict* verdict) {
  if (!message.of(Quantity::PoolFree)) return;
  verdict->facts.push_back(say(message,
                               "{pool_free} are free in private pools (CUDA graphs, MemPools). "
                               "They serve no request outside their pool, so they do not count."));
}

// Two figures and their sum.
std::string room_words(const Figure& room, std::string_view room_name, const Figure& unallocated) {
  return fmt::format("{} {} and {} reserved but unallocated are {} in all", told(room), room_name,
                     told(unallocated), show(room + unallocated));
}

// The memory that is left to be taken: by the driver, or below the process's own limit.
struct Room {
  Figure bytes;
  std::string_view name = "free";
  bool is_below_limit = false;
};

// The smaller one; what is left below a limit that is reached is nothing.
Room room_of(const Message& message) {
  Room room{.bytes = *message.of(Quantity::Free)};
  const auto& allowed = message.of(Quantity::Allowed);
  const std::optional<Figure> reserved = reserved_of(message);
  if (!allowed || !reserved) return room;
  const Figure below_limit = at_least_zero(*allowed - *reserved);
  if (below_limit.bytes < room.bytes.bytes)
    room = {
        .bytes = below_limit, .name = "free below the process's own limit", .is_below_limit = true};
  return room;
}

Verdict without_cache_figure(const Message& message) {
  const Figure& asked = *message.of(Quantity::Asked);
  const Figure& free = *message.of(Quantity::Free);
  const auto& holds = message.of(Quantity::ThisProcess);
  if (holds && surely_less(free + *holds, asked)) {
    return said(
        message, {Cause::TooBig, Help::No, lack_bytes(asked, free)},
        "{request} failed: with all that this process holds ({this_process}) and all that is free "
        "({free}) it would not fit: no setting of the allocator can help, {must_go} must go");
  }
  Verdict verdict = said(message, {Cause::MissingFigures, Help::Unknown, lack_bytes(asked, free)},
                         "{request} failed with {free} free: {must_go} are missing. The text does "
                         "not say how much {who} holds unallocated; unless that is {must_go} or "
                         "more, no setting of the allocator can help and {must_go} must go",
                         {{"who", message.form->name}});
  if (message.form->family == Family::PyTorch) {
    verdict.facts = {
        "The rest of the message says it: \"... is reserved by PyTorch but unallocated\"."};
  }
  return verdict;
}

Verdict too_big(const Message& message, const Figure& both, const std::string& sum) {
  const Figure& asked = *message.of(Quantity::Asked);
  Verdict verdict =
      said(message, {Cause::TooBig, Help::No, lack_bytes(asked, both)},
           "{request} failed: {sum}: no setting of the allocator can help, {must_go} must go",
           {{"sum", sum}});
  const auto& pools = message.of(Quantity::PoolFree);
  if (pools && !surely_less(both + *pools, asked)) {
    verdict.facts.push_back(
        "With what is free in private pools it would be enough, but only for a request of the same "
        "pool.");
  }
  return verdict;
}

// Free memory is too small for the request: does the cache make up for it?
Verdict with_cache(const Message& message) {
  const Figure& asked = *message.of(Quantity::Asked);
  const Room card{.bytes = *message.of(Quantity::Free)};
  const Room room = room_of(message);
  const std::optional<Figure> unallocated = unallocated_of(message);
  if (!unallocated) return without_cache_figure(message);
  const Figure card_both = card.bytes + *unallocated;
  if (surely_less(card_both, asked))
    return too_big(message, card_both, room_words(card.bytes, card.name, *unallocated));
  const Figure both = room.bytes + *unallocated;
  const std::string sum = room_words(room.bytes, room.name, *unallocated);
  // The card has enough with the cache, and the process may not take it.
  if (surely_less(both, asked)) {
    Verdict verdict =
        said(message, {Cause::ProcessLimit, Help::No, lack_bytes(asked, both)},
             "{request} failed: {sum}: below the limit of {allowed} (the memory fraction) no "
             "setting of the allocator can help, it must rise by {must_go} or so much must go",
             {{"sum", sum}});
    verdict.facts = {say(message, "The card itself has {free} free.")};
    return verdict;
  }
  if (!surely_at_least(both, asked) || !surely_at_least(card_both, asked)) {
    return said(message, {Cause::Borderline},
                "{request} failed: {sum}. That is enough or too little by less than what the "
                "printed figures round away: expect no help from a setting of the allocator",
                {{"sum", sum}});
  }
  Verdict verdict = said(
      message,
      {Cause::FragmentationPossible, message.expandable_on ? Help::Unknown : Help::Possible},
      "{request} failed: {sum}, enough if it lay in one piece: fragmentation is possible, not sure",
      {{"sum", sum}});
  if (message.expandable_on) {
    verdict.answer += ". Expandable segments are on already, so only a snapshot can tell";
  } else {
    verdict.facts.push_back(
        "Whether it lies in pieces, on other streams or in segments for requests of another size, "
        "only a snapshot tells.");
  }
  return verdict;
}

// More is allocated than the card has; none where that is not so.
std::optional<Verdict> spilled(const Message& message) {
  const auto& total = message.of(Quantity::Total);
  const auto& allocated = message.of(Quantity::Allocated);
  if (!total || !allocated || !surely_less(*total, *allocated)) return std::nullopt;
  Figure needed = *allocated;
  if (const auto& asked = message.of(Quantity::Asked)) needed = needed + *asked;
  const bool is_listed = message.of(Quantity::ThisProcess) || !message.processes.empty();
  Verdict verdict = said(message, {Cause::Spilled, Help::No, lack_bytes(needed, *total)},
                         "{request} failed: {allocated} are allocated on a card of {total}: "
                         "{where}, and no setting of the allocator can help; {must_go} must go",
                         {{"where", is_listed ? "a part of it is not on the card"
                                              : "the driver spills to the host's memory"}});
  verdict.facts = {
      "NVIDIA's driver for Windows spills so (\"CUDA - Sysmem Fallback Policy\"), and such a job "
      "is slow long before it fails.",
      "A pool that counts memory which is not mapped looks so, too: vLLM's sleep mode."};
  if (is_listed) std::ranges::reverse(verdict.facts);
  return verdict;
}

// PyTorch's memory and what is free are more than the card has: some of it is not there.
std::optional<Verdict> unbacked(const Message& message, Verdict found) {
  const auto& total = message.of(Quantity::Total);
  const std::optional<Figure> reachable = reachable_of(message);
  if (!total || !reachable || !surely_less(*total, *reachable)) return std::nullopt;
  found.contradictions.insert(
      found.contradictions.begin(),
      fmt::format("reserved ({}) and free memory ({}) are {} together, and the card has {}",
                  show(*reserved_of(message)), told(*message.of(Quantity::Free)), show(*reachable),
                  told(*total)));
  found.facts.push_back(
      "So it looks where the driver keeps a part in the host's memory, as under Windows, or where "
      "a pool counts memory that is not mapped.");
  return contradicted(message, std::move(found));
}

// At most what the card has beside what is allocated was there for the request.
Verdict without_free(const Message& message) {
  const Figure& asked = *message.of(Quantity::Asked);
  const auto& total = message.of(Quantity::Total);
  const auto& allocated = message.of(Quantity::Allocated);
  if (!total || !allocated || !surely_less(*total - *allocated, asked)) {
    return said(message, {},
                "{request} failed. The text does not say how much was free on the card, so nothing "
                "can be computed");
  }
  const Figure left = *total - *allocated;
  return said(message, {Cause::TooBig, Help::No, lack_bytes(asked, left)},
              "{request} failed: the card has {total} and {allocated} of it are allocated, so "
              "{left} were left at most: no setting of the allocator can help, {must_go} must go",
              {{"left", show(left)}});
}

// The free memory would do, but the driver gives it in pages of 2 MiB, and the last ones of a card
// may lie in pieces that other programs left. PyTorch asks for 1 MiB at least.
bool is_nearly_full(const Message& message) {
  const auto asked_bytes = static_cast<std::uint64_t>(message.of(Quantity::Asked)->bytes);
  const auto free_bytes = static_cast<std::uint64_t>(message.of(Quantity::Free)->bytes);
  return asked_bytes >= kMiB && free_bytes < rounded_up(asked_bytes, 2 * kMiB) + 2 * kMiB;
}

Verdict by_room(const Message& message) {
  const auto& asked = message.of(Quantity::Asked);
  const auto& free = message.of(Quantity::Free);
  const auto& total = message.of(Quantity::Total);
  const auto& allowed = message.of(Quantity::Allowed);
  if (total && surely_less(*total, *asked)) {
    return said(message, {Cause::TooBig, Help::No, lack_bytes(*asked, *total)},
                "{request} failed: that is more than the whole card ({total}): no setting of the "
                "allocator can help, the request must shrink by {must_go} at least");
  }
  const std::optional<Figure> reserved = reserved_of(message);
  if (!free) return without_free(message);
  if (!surely_at_least(*free, *asked)) return with_cache(message);
  if (allowed && reserved && !surely_at_least(*allowed - *reserved, *asked))
    return process_limit(message, *allowed - *reserved);
  const bool is_below_card = allowed && !(total && surely_at_least(*allowed, *total));
  if (is_below_card && !reserved) return process_limit_alone(message);
  if (!is_nearly_full(message)) return outside_limit(message);
  return said(
      message, {Cause::Borderline},
      "{request} failed with {free} free: the card is full. The driver gives memory in pages of 2 "
      "MiB, and so few may lie in pieces: expect no help from a setting of the allocator");
}

Verdict address_space(const Message& message, std::vector<std::string> facts) {
  Verdict verdict =
      said(message, {Cause::AddressSpace, Help::Possible},
           "{request} failed: one expandable segment has {segment_limit} of address space "
           "(expandable_segments_reserve), and no request goes over two segments");
  if (message.of(Quantity::SegmentNeeded))
    verdict.answer += say(message, ": {segment_needed} are needed");
  verdict.facts = std::move(facts);
  return verdict;
}

Verdict no_request(const Message& message) {
  Verdict verdict{.answer = "the text does not say what was asked (\"Tried to allocate ...\")"};
  if (const std::optional<Figure> unallocated = unallocated_of(message)) {
    verdict.facts.push_back(
        fmt::format("A setting can win {} at most: all that is unallocated.", told(*unallocated)));
  }
  return verdict;
}

}  // namespace

Verdict judge_caching(const Message& message) {
  if (message.is_rejection) {
    return said(
        message, {Cause::ProcessLimit},
        "{request} was rejected because the process's own limit (per_process_memory_fraction) "
        "would be exceeded; the message does not say by how much");
  }
  Verdict found;
  const bool is_fatal = contradicts(message, &found);
  Verdict verdict;
  if (std::optional<Verdict> spill = spilled(message)) {
    verdict = *std::move(spill);
  } else if (is_fatal) {
    verdict = contradicted(message, found);
  } else if (std::optional<Verdict> part = unbacked(message, found)) {
    verdict = *part;
    found.contradictions = part->contradictions;
  } else if (!message.of(Quantity::Asked)) {
    verdict = no_request(message);
  } else {
    verdict = by_room(message);
    if (verdict.cause != Cause::TooBig && message.of(Quantity::SegmentLimit))
      verdict = address_space(message, std::move(verdict.facts));
  }
  verdict.contradictions = found.contradictions;
  if (std::string piece = piece_fact(message); !piece.empty())
    verdict.facts.insert(verdict.facts.begin(), std::move(piece));
  add_segment_fact(message, &verdict);
  add_pool_fact(message, &verdict);
  add_outside_facts(message, &verdict);
  return verdict;
}

}  // namespace allocmark::message

// A limit refused the request while the card had the memory: the process's own, one outside
// PyTorch, or one of a single piece; see judges.h.
#include <fmt/format.h>

#include "base/bytes.h"
#include "harness/tools/why/message/judges.h"

namespace allocmark::message {
namespace {

// PyTorch's message goes on behind what is free: the process's own limit, then what it holds.
bool ends_before_limit(const Message& message) {
  if (message.form->family != Family::PyTorch || message.of(Quantity::Allowed)) return false;
  return message.needs_2_1 ? !reserved_of(message) : !message.of(Quantity::Allocated);
}

// What the driver of Intel's first Arc cards and of integrated GPUs gives in one piece.
constexpr auto kXpuPieceBytes = static_cast<std::int64_t>(4 * kGiB);

}  // namespace

Verdict judge_piece(const Message& message) {
  Verdict verdict =
      said(message, {Cause::OutsideLimit, Help::No},
           "{request} failed: that is more than the device gives in one piece, however much is "
           "free, and no setting of the allocator can help");
  if (message.of(Quantity::Allowed))
    verdict.facts.push_back(say(message, "One piece may have {allowed}."));
  return verdict;
}

std::string piece_fact(const Message& message) {
  const auto& asked = message.of(Quantity::Asked);
  const auto& total = message.of(Quantity::Total);
  const bool may_be = message.device == "XPU" && asked && asked->high_bytes >= kXpuPieceBytes &&
                      !(total && surely_less(*total, *asked));
  return may_be ? "Intel's first Arc cards and integrated GPUs give 4 GiB at most in one piece. "
                  "Where this is one, that refused it, however much was free."
                : "";
}

Verdict outside_limit(const Message& message) {
  if (ends_before_limit(message)) {
    Verdict verdict = said(
        message, {Cause::OutsideLimit},
        "{request} failed while {free} were free on the card: a limit refused it, one outside "
        "PyTorch or the process's own (a memory fraction). The text ends before it says which");
    verdict.facts = {
        "The rest of the message says it: \"... allowed\" is the process's own limit."};
    return verdict;
  }
  Verdict verdict = refused_outside(message);
  verdict.facts = {
      "Limits outside PyTorch: of a container or a GPU share (HAMi, MIG, MPS, vGPU), of the driver "
      "under Windows and WSL (a page file that is full), and of the system's memory locks.",
      "A message that was written later than the failure also looks so, where another program gave "
      "its memory back in between."};
  if (!message.of(Quantity::ThisProcess) && message.processes.empty() && !message.needs_2_1) {
    verdict.facts.push_back(
        "The message names no process. The driver gives no such list under Windows, under WSL, on "
        "AMD's cards and in some containers.");
  }
  return verdict;
}

Verdict refused_outside(const Message& message) {
  return said(message, {Cause::OutsideLimit, Help::No},
              "{request} failed while {free} were free on the card: a limit outside PyTorch "
              "refused it, and no setting of the allocator can help");
}

Verdict process_limit(const Message& message, const Figure& below_limit) {
  Verdict verdict =
      said(message, {Cause::ProcessLimit, Help::No},
           "{request} failed while {free} were free on the card: the process may take {allowed} "
           "and holds {held}: its own limit (the memory fraction) refused it, not the card",
           {{"held", show(*reserved_of(message))}});
  const Figure& asked = *message.of(Quantity::Asked);
  const std::optional<Figure> unallocated = unallocated_of(message);
  if (!unallocated) return verdict;
  const Figure both = at_least_zero(below_limit) + *unallocated;
  if (surely_less(both, asked)) {
    verdict.must_go_bytes = lack_bytes(asked, both);
    verdict.facts.push_back(
        fmt::format("Below the limit are {} with the unallocated memory: no setting of the "
                    "allocator can help there, the limit must rise by {} or so much must go.",
                    show(both), bytes_text(*verdict.must_go_bytes)));
  } else if (surely_at_least(both, asked)) {
    verdict.help = Help::Possible;
    verdict.facts.push_back(fmt::format(
        "Below the limit, {} reserved but unallocated would be enough if it lay in one piece.",
        told(*unallocated)));
  }
  return verdict;
}

Verdict process_limit_alone(const Message& message) {
  return said(message, {Cause::ProcessLimit},
              "{request} failed while {free} were free on the card: the process may take "
              "{allowed}, so its own limit (the memory fraction) refused it where it holds that "
              "much; the text does not say what it holds");
}

}  // namespace allocmark::message

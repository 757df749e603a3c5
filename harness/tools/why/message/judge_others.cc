// Allocators that are not PyTorch's caching one; see judges.h.
#include <fmt/format.h>

#include <utility>

#include "harness/tools/why/message/judges.h"

namespace allocmark::message {
namespace {

// What the allocator's limit is compared with.
std::optional<Figure> held_of(const Message& message) {
  std::optional<Figure> held = message.of(Quantity::Allocated);
  if (!held) held = message.of(Quantity::Reserved);
  if (held && message.of(Quantity::OtherMemory)) held = *held + *message.of(Quantity::OtherMemory);
  return held;
}

void add_no_sizes(const Message& message, Verdict* verdict) {
  for (const std::string& text : message.no_sizes) {
    verdict->facts.push_back(text + " is no size. As a limit it means that there is none.");
  }
}

std::string allocator_of(const Message& message) {
  switch (message.form->family) {
    case Family::Bfc:
      return "the BFC allocator";
    case Family::CuPy:
      return "CuPy's pool";
    case Family::Rmm:
      return "RMM's pool";
    case Family::Mps:
      return "the process";
    default:
      return "the allocator";
  }
}

// The allocator has room for the request below its limit, and failed.
Verdict with_room(const Message& message, const Figure& room, const std::string& state) {
  const Figure& asked = *message.of(Quantity::Asked);
  const auto& chunks = message.of(Quantity::FreeChunks);
  const auto& largest = message.of(Quantity::LargestFree);
  // The chunks of a dump say more than the limit does.
  if (largest && chunks && surely_at_least(*chunks, asked) && surely_less(*largest, asked)) {
    return said(message, {Cause::FragmentationPossible, Help::Possible},
                "{request} failed: {chunks} are free in chunks of at most {largest}: the "
                "allocator's memory is fragmented",
                {{"chunks", show(*chunks)}, {"largest", show(*largest)}});
  }
  if (message.form->family != Family::Bfc) {
    return said(message, {Cause::OutsideLimit, Help::No},
                "{request} failed: {state}, so its limit leaves {room}: the card itself had no "
                "more, and the text does not say how much was free there",
                {{"state", state}, {"room", show(room)}});
  }
  if (chunks && surely_less(*chunks, asked)) {
    return said(message, {Cause::OutsideLimit, Help::No},
                "{request} failed: {state}, but only {chunks} of the rest are free chunks: the "
                "driver gave it no more, so something else holds the card's memory",
                {{"state", state}, {"chunks", show(*chunks)}});
  }
  return said(message, {Cause::FragmentationPossible, Help::Possible},
              "{request} failed: {state}, so {room} are left, enough if it lay in one piece: "
              "fragmentation is possible, not sure",
              {{"state", state}, {"room", show(room)}});
}

Verdict below_limit(const Message& message, const Figure& limit, const Figure& held) {
  const Figure& asked = *message.of(Quantity::Asked);
  const Figure room = limit - held;
  const std::string state =
      fmt::format("{} may take {} and holds {}", allocator_of(message), told(limit), told(held));
  if (surely_at_least(room, asked)) return with_room(message, room, state);
  if (!surely_less(room, asked)) {
    return said(message, {Cause::Borderline},
                "{request} failed: {state}. The printed figures are too coarse to tell more",
                {{"state", state}});
  }
  Verdict verdict = said(message,
                         {message.form->family == Family::Bfc ? Cause::TooBig : Cause::ProcessLimit,
                          Help::No, lack_bytes(asked, room)},
                         "{request} failed: {state}, so {room} are left: no setting but a larger "
                         "limit can help, {must_go} must go",
                         {{"state", state}, {"room", bytes_text(room.bytes)}});
  if (const auto& largest = message.of(Quantity::LargestFree))
    verdict.facts.push_back(fmt::format("The largest free chunk has {}.", show(*largest)));
  return verdict;
}

// One figure of what was there, without a limit: ONNX Runtime.
Verdict from_free(const Message& message) {
  return said(message,
              {Cause::ProcessLimit, Help::No,
               lack_bytes(*message.of(Quantity::Asked), *message.of(Quantity::Free))},
              "{request} failed: {free} are left below the arena's limit: no setting but a larger "
              "limit can help, {must_go} must go");
}

// Used more than there is, by the compiler's own sum.
Verdict program_too_big(const Message& message) {
  const auto& exceeded = message.of(Quantity::Exceeded);
  return said(message,
              {Cause::TooBig, Help::No,
               exceeded ? exceeded->bytes
                        : lack_bytes(*message.of(Quantity::Asked), *message.of(Quantity::Allowed))},
              "the compiled program needs {asked} and there are {allowed}: no setting of an "
              "allocator can help, {must_go} must go");
}

// RMM without the sizes of its pool.
Verdict pool_without_sizes(const Message& message) {
  if (message.is_at_limit) {
    return said(message, {Cause::ProcessLimit},
                "{request} failed: RMM's own limit (a pool's maximum size, or a limiting adaptor) "
                "refused it. The text does not say how large it is");
  }
  return said(message, {},
              message.is_pool_full
                  ? "{request} failed: RMM's pool could not grow. Its maximum or "
                    "the driver refused it; older releases do not say which"
                  : "{request} failed at the driver: the card had no more. The "
                    "text does not say how much it had, so nothing can be computed");
}

// An error that does not say how much was asked.
Verdict without_request(const Message& message) {
  switch (message.form->family) {
    case Family::Ggml:
      return said(message, {Cause::MissingFigures, Help::No},
                  "ggml asked the driver for memory and the card had no more: no setting of an "
                  "allocator can help. The text does not say how much must go");
    case Family::Sglang:
      return said(message, {Cause::TooBig, Help::No},
                  "the weights leave nothing for the cache below SGLang's share of the card "
                  "(--mem-fraction-static): no setting of the allocator can help");
    case Family::Vllm:
      if (message.of(Quantity::TokensAsked) && message.of(Quantity::TokensFree)) {
        return said(message, {Cause::TooBig, Help::No},
                    "a request may have {tokens_asked} tokens, and the cache below vLLM's share of "
                    "the card (gpu_memory_utilization) holds {tokens_free}: no setting of the "
                    "allocator can help, max_model_len must be {tokens_free} at most");
      }
      return said(message, {Cause::TooBig, Help::No},
                  "weights and activations leave nothing for the cache blocks below vLLM's share "
                  "of the card (gpu_memory_utilization): no setting of the allocator can help");
    default:
      return said(message, {},
                  "memory ran out, but this message has no figures, so nothing can be computed");
  }
}

// The text ends before the figures that count.
Verdict cut(const Message& message) {
  return said(message, {}, "{request} failed. The text is cut: nothing can be computed");
}

// ggml, which says what was free before it loaded.
Verdict judge_load(const Message& message) {
  const Figure& asked = *message.of(Quantity::Asked);
  const auto& free = message.of(Quantity::Free);
  if (free && surely_less(*free, asked)) {
    return said(message, {Cause::TooBig, Help::No, lack_bytes(asked, *free)},
                "{request} failed with {free} free before it loaded: no setting of an allocator "
                "can help, {must_go} must go");
  }
  if (free && surely_at_least(*free, asked)) {
    return said(message, {},
                "{request} failed. {free} were free before it loaded; what it took since, the text "
                "does not say");
  }
  return said(message, {Cause::TooBig, Help::No},
              "{request} failed at the driver: less was free, and ggml keeps no cache: no setting "
              "of an allocator can help, {asked} must go at most");
}

// One that asked the driver, which had what `free` says.
Verdict judge_call(const Message& message) {
  const Figure& asked = *message.of(Quantity::Asked);
  const auto& free = message.of(Quantity::Free);
  if (free && surely_less(*free, asked)) {
    return said(message, {Cause::TooBig, Help::No, lack_bytes(asked, *free)},
                "{request} failed with {free} free: no setting of an allocator can help, {must_go} "
                "must go");
  }
  if (free && surely_at_least(*free, asked)) {
    return said(message, {Cause::OutsideLimit, Help::No},
                "{request} failed while {free} were free: a limit outside refused it, or the free "
                "memory lies in pieces");
  }
  return said(
      message, {},
      "{request} failed. The text does not say how much was free, so nothing can be computed");
}

}  // namespace

Verdict judge_limited(const Message& message) {
  const auto& asked = message.of(Quantity::Asked);
  const auto& limit = message.of(Quantity::Allowed);
  const std::optional<Figure> held = held_of(message);
  Verdict verdict;
  if (asked && limit && message.form->family == Family::XlaProgram) {
    verdict = program_too_big(message);
  } else if (limit && held && surely_less(*limit, *held) && message.form->family == Family::Bfc) {
    verdict.contradictions = {
        fmt::format("the limit ({}) is less than what is in use ({})", told(*limit), told(*held))};
    verdict = contradicted(message, std::move(verdict));
  } else if (asked && limit && held) {
    verdict = below_limit(message, *limit, *held);
  } else if (asked && message.of(Quantity::Free)) {
    verdict = from_free(message);
  } else if (message.form->family == Family::Rmm) {
    verdict = pool_without_sizes(message);
  } else if (message.form->family == Family::CuPy && asked && held) {
    verdict = said(message, {},
                   "{request} failed at the driver: CuPy's pool has no limit and holds {held}, "
                   "after it gave back what was free in it. The text does not say how much the "
                   "card had",
                   {{"held", told(*held)}});
  } else {
    verdict = said(message, {},
                   "{request} failed. The text does not say what {allocator} holds and may take, "
                   "so nothing can be computed",
                   {{"allocator", allocator_of(message)}});
    if (held) verdict.facts.push_back(fmt::format("It held {}.", told(*held)));
  }
  add_no_sizes(message, &verdict);
  return verdict;
}

Verdict judge_driver_pool(const Message& message) {
  const auto& asked = message.of(Quantity::Asked);
  const auto& allocated = message.of(Quantity::Allocated);
  const auto& total = message.of(Quantity::Total);
  const auto& free = message.of(Quantity::Free);
  const auto& allowed = message.of(Quantity::Allowed);
  Verdict verdict;
  if (!asked && !allocated && !total) {
    verdict = said(message, {},
                   "PyTorch's cudaMallocAsync had no memory for a request. Some releases print no "
                   "figures there, so nothing can be computed");
  } else if (!asked || (!allocated && !free)) {
    verdict = cut(message);
  } else if (!allocated) {
    verdict = judge_call(message);
  } else if (allowed && surely_less(*allowed - *allocated, *asked) &&
             !(total && surely_at_least(*allowed, *total))) {
    verdict = below_limit(message, *allowed, *allocated);
    verdict.cause = Cause::ProcessLimit;
  } else if (total && surely_less(*total - *allocated, *asked)) {
    verdict = said(message, {Cause::TooBig, Help::No, lack_bytes(*asked, *total - *allocated)},
                   "{request} failed: {allocated} of {total} are allocated: no setting of the "
                   "allocator can help, {must_go} must go");
  } else if (free && surely_at_least(*free, *asked)) {
    verdict = refused_outside(message);
  } else if (free && total) {
    const Figure rest = *total - *free - *allocated;
    verdict = said(message, {Cause::MissingFigures, Help::Unknown, lack_bytes(*asked, *free)},
                   "{request} failed with {free} free: {must_go} are missing. {rest} are neither "
                   "free nor the program's: what the driver's pool keeps, the CUDA context and "
                   "other processes. The message does not say how much each has",
                   {{"rest", bytes_text(rest.bytes)}});
  } else {
    verdict = cut(message);
  }
  add_no_sizes(message, &verdict);
  return verdict;
}

Verdict judge_buffer(const Message& message) {
  const Family family = message.form->family;
  Verdict verdict = !message.of(Quantity::Asked) ? without_request(message)
                    : family == Family::Ggml     ? judge_load(message)
                                                 : judge_call(message);
  const auto& free = message.of(Quantity::Free);
  const auto& total = message.of(Quantity::Total);
  if (family == Family::Vllm && free && total && total->bytes > 0) {
    // Rounded down, as it must fit.
    const auto percent = 100 * free->bytes / total->bytes;
    verdict.facts.push_back(fmt::format(
        "With what is free vLLM starts with gpu_memory_utilization=0.{:02} at most.", percent));
  }
  if (family == Family::Driver) {
    verdict.facts.push_back(
        "This library asks the driver itself: what PyTorch's cache keeps unallocated is not there "
        "for it.");
  }
  if (message.of(Quantity::Program)) {
    verdict.facts.push_back(
        say(message,
            "The compiled program holds {program} at once, beside what other programs and arrays "
            "hold: on a smaller card, or below a smaller limit, it cannot run."));
  }
  if (family == Family::Ggml) {
    verdict.facts.push_back(
        "ggml asks the driver for each buffer whole and keeps no cache: a smaller buffer is "
        "needed, not a setting of an allocator. What a step needs besides lies in a pool of its "
        "own.");
  }
  add_no_sizes(message, &verdict);
  return verdict;
}

Verdict judge_summary(const Message& message) {
  Verdict verdict;
  if (const std::optional<Figure> unallocated = unallocated_of(message)) {
    verdict = said(message, {Cause::State, unallocated->high_bytes == 0 ? Help::No : Help::Unknown},
                   "{reserved} are reserved for {allocated} allocated: a setting of the allocator "
                   "can win {unused} at most",
                   {{"unused", show(*unallocated)}});
  } else if (message.of(Quantity::Allocated)) {
    verdict = said(message, {Cause::State},
                   "{allocated} are allocated. The rest of the table is missing: \"GPU reserved "
                   "memory\" says how much the allocator holds");
  } else {
    verdict =
        said(message, {Cause::State}, "the table's rows are missing, so nothing can be computed");
  }
  if (message.of(Quantity::Inactive)) {
    verdict.facts.push_back(say(message,
                                "{inactive} of it are free pieces of segments that are partly "
                                "used: what fragmentation costs at most."));
  }
  const auto& retries = message.of(Quantity::RetryCount);
  if (retries && retries->bytes > 0) {
    verdict.facts.push_back(fmt::format(
        "The cache was given back {} times before a request was served: the memory was short.",
        retries->bytes));
  }
  verdict.facts.push_back(
      "A table does not say what was asked or what the card has; the message of the failure does.");
  return verdict;
}

Verdict judge_without_figures(const Message& message) {
  if (message.is_pinning) return judge_pinning(message);
  if (message.form->family == Family::Host || message.form->family == Family::Killed)
    return judge_host(message);
  if (message.form->family == Family::VllmPool) {
    return {
        .answer =
            "vLLM's own pool asked the driver for memory and the card had no more. The text does "
            "not say how much it asked, so nothing can be computed",
        .facts = {"Where wake_up() failed: sleep() had given the memory back, and something else "
                  "took it meanwhile; where a trainer shares the card, its cache counts, too."}};
  }
  return {
      .answer = "memory ran out, but this message has no figures, so nothing can be computed",
      .facts = {"It does not come from PyTorch's caching allocator: a library, the driver or the "
                "context asked for the memory, and what PyTorch's cache keeps unallocated is not "
                "there for it. Text that says \"Tried to allocate ...\" can be answered."}};
}

}  // namespace allocmark::message

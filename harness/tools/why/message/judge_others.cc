// Allocators that are not PyTorch's caching one; see judges.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "harness/tools/why/message/judges.h"

namespace allocmark::message {
namespace {

std::string bytes_text(std::int64_t size_bytes) {
  return format_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(0, size_bytes)));
}

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

// The chunks of a dump say more than the limit does.
std::optional<Verdict> by_chunks(const Message& message) {
  const auto& asked = message.of(Quantity::Asked);
  const auto& largest = message.of(Quantity::LargestFree);
  const auto& chunks = message.of(Quantity::FreeChunks);
  if (!asked || !largest || !chunks) return std::nullopt;
  Verdict verdict;
  if (surely_at_least(*chunks, *asked) && surely_less(*largest, *asked)) {
    verdict.cause = Cause::FragmentationPossible;
    verdict.help = Help::Possible;
    verdict.answer = fmt::format(
        "{} failed: {} are free in chunks of at most {}: the allocator's memory is fragmented",
        request_words(message), show(*chunks), show(*largest));
    return verdict;
  }
  return std::nullopt;
}

Verdict below_limit(const Message& message, const Figure& limit, const Figure& held) {
  const Figure& asked = *message.of(Quantity::Asked);
  Verdict verdict;
  const Figure room = limit - held;
  const std::string state =
      fmt::format("{} may take {} and holds {}", allocator_of(message), told(limit), told(held));
  const bool is_bfc = message.form->family == Family::Bfc;
  if (surely_less(room, asked)) {
    verdict.cause = is_bfc ? Cause::TooBig : Cause::ProcessLimit;
    verdict.help = Help::No;
    verdict.must_go_bytes = lack_bytes(asked, room);
    verdict.answer = fmt::format(
        "{} failed: {}, so {} are left: no setting but a larger limit can help, {} must go",
        request_words(message), state, room.bytes > 0 ? bytes_text(room.bytes) : "0 B",
        bytes_text(*verdict.must_go_bytes));
    if (const auto& largest = message.of(Quantity::LargestFree))
      verdict.facts.push_back(fmt::format("The largest free chunk has {}.", show(*largest)));
    return verdict;
  }
  if (!surely_at_least(room, asked)) {
    verdict.cause = Cause::Borderline;
    verdict.answer = fmt::format("{} failed: {}. The printed figures are too coarse to tell more",
                                 request_words(message), state);
    return verdict;
  }
  if (std::optional<Verdict> chunks = by_chunks(message)) return *std::move(chunks);
  if (is_bfc) {
    const auto& chunks = message.of(Quantity::FreeChunks);
    if (chunks && surely_less(*chunks, asked)) {
      verdict.cause = Cause::OutsideLimit;
      verdict.help = Help::No;
      verdict.answer = fmt::format(
          "{} failed: {}, but only {} of the rest are free chunks: the driver gave it no more, so "
          "something else holds the card's memory",
          request_words(message), state, show(*chunks));
      return verdict;
    }
    verdict.cause = Cause::FragmentationPossible;
    verdict.help = Help::Possible;
    verdict.answer = fmt::format(
        "{} failed: {}, so {} are left, enough if it lay in one piece: fragmentation is "
        "possible, not sure",
        request_words(message), state, show(room));
    return verdict;
  }
  verdict.cause = Cause::OutsideLimit;
  verdict.help = Help::No;
  verdict.answer = fmt::format(
      "{} failed: {}, so its limit leaves {}: the card itself had no more, and the text does not "
      "say how much was free there",
      request_words(message), state, show(room));
  return verdict;
}

// One figure of what was there, without a limit: ONNX Runtime.
Verdict from_free(const Message& message) {
  const auto& asked = message.of(Quantity::Asked);
  const auto& free = message.of(Quantity::Free);
  Verdict verdict{.cause = Cause::ProcessLimit, .help = Help::No};
  verdict.must_go_bytes = lack_bytes(*asked, *free);
  verdict.answer = fmt::format(
      "{} failed: {} are left below the arena's limit: no setting but a larger limit can help, {} "
      "must go",
      request_words(message), told(*free), bytes_text(*verdict.must_go_bytes));
  return verdict;
}

// Used more than there is, by the compiler's own sum.
Verdict program_too_big(const Message& message) {
  const auto& needed = message.of(Quantity::Asked);
  const auto& limit = message.of(Quantity::Allowed);
  Verdict verdict{.cause = Cause::TooBig, .help = Help::No};
  verdict.must_go_bytes = message.of(Quantity::Exceeded) ? message.of(Quantity::Exceeded)->bytes
                                                         : lack_bytes(*needed, *limit);
  verdict.answer = fmt::format(
      "the compiled program needs {} and there are {}: no setting of an allocator can help, {} "
      "must go",
      told(*needed), told(*limit), bytes_text(*verdict.must_go_bytes));
  return verdict;
}

// RMM without the sizes of its pool.
Verdict pool_without_sizes(const Message& message) {
  Verdict verdict;
  if (!message.is_at_limit) {
    verdict.answer = fmt::format(
        "{} failed at the driver: the card had no more. The text has no figures, so nothing can be "
        "computed",
        request_words(message));
    return verdict;
  }
  verdict.cause = Cause::ProcessLimit;
  verdict.answer = fmt::format(
      "{} failed: RMM's own limit (a pool's maximum size, or a limiting adaptor) refused it. The "
      "text does not say how large it is",
      request_words(message));
  return verdict;
}

// An error that does not say how much was asked.
Verdict without_request(const Message& message) {
  Verdict verdict{.help = Help::No};
  if (message.form->family == Family::Ggml) {
    verdict.answer =
        "ggml asked the driver for memory and the card had no more: no setting of an allocator can "
        "help. The text does not say how much must go";
    return verdict;
  }
  verdict.cause = Cause::TooBig;
  verdict.answer =
      message.form->family == Family::Sglang
          ? "the weights leave nothing for the cache below SGLang's share of the card "
            "(--mem-fraction-static): no setting of the allocator can help"
          : "weights and activations leave nothing for the cache blocks below vLLM's share of the "
            "card (gpu_memory_utilization): no setting of the allocator can help";
  return verdict;
}

}  // namespace

std::string told(const Figure& figure) {
  return figure.printed.empty() ? show(figure) : figure.printed;
}

std::string request_words(const Message& message) {
  const auto& asked = message.of(Quantity::Asked);
  return asked ? "a request of " + told(*asked) : "a request";
}

std::int64_t lack_bytes(const Figure& needed, const Figure& there) {
  return std::max<std::int64_t>(0, needed.bytes - there.bytes);
}

Verdict judge_limited(const Message& message) {
  const auto& asked = message.of(Quantity::Asked);
  const auto& limit = message.of(Quantity::Allowed);
  const std::optional<Figure> held = held_of(message);
  Verdict verdict;
  if (asked && limit && message.form->family == Family::XlaProgram) {
    verdict = program_too_big(message);
  } else if (limit && held && surely_less(*limit, *held) && message.form->family == Family::Bfc) {
    verdict.cause = Cause::Contradiction;
    verdict.help = Help::No;
    verdict.contradictions.push_back(
        fmt::format("the limit ({}) is less than what is in use ({})", told(*limit), told(*held)));
    verdict.answer = fmt::format(
        "{} failed, and its figures cannot all be true: {}. No setting follows from them",
        request_words(message), verdict.contradictions.front());
  } else if (asked && limit && held) {
    verdict = below_limit(message, *limit, *held);
  } else if (asked && message.of(Quantity::Free)) {
    verdict = from_free(message);
  } else if (message.form->family == Family::Rmm) {
    verdict = pool_without_sizes(message);
  } else {
    verdict.answer = fmt::format(
        "{} failed. The text does not say what {} holds and may take, so nothing can be computed",
        request_words(message), allocator_of(message));
    if (held) verdict.facts.push_back(fmt::format("It held {}.", told(*held)));
  }
  if (message.is_no_failure) {
    verdict.facts.push_back(
        "Its caller went on without that memory: this is a warning, not the failure.");
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
  if (!asked || !allocated) {
    verdict.answer =
        fmt::format("{} failed. The text is cut: nothing can be computed", request_words(message));
  } else if (allowed && surely_less(*allowed - *allocated, *asked) &&
             !(total && surely_at_least(*allowed, *total))) {
    verdict = below_limit(message, *allowed, *allocated);
    verdict.cause = Cause::ProcessLimit;
  } else if (total && surely_less(*total - *allocated, *asked)) {
    verdict.cause = Cause::TooBig;
    verdict.help = Help::No;
    verdict.must_go_bytes = lack_bytes(*asked, *total - *allocated);
    verdict.answer = fmt::format(
        "{} failed: {} of {} are allocated: no setting of the allocator can help, {} must go",
        request_words(message), told(*allocated), told(*total), bytes_text(*verdict.must_go_bytes));
  } else if (free && surely_at_least(*free, *asked)) {
    verdict.cause = Cause::OutsideLimit;
    verdict.help = Help::No;
    verdict.answer = fmt::format(
        "{} failed while {} were free on the card: a limit outside PyTorch refused it, and no "
        "setting of the allocator can help",
        request_words(message), told(*free));
  } else if (free && total) {
    const Figure rest = *total - *free - *allocated;
    verdict.must_go_bytes = lack_bytes(*asked, *free);
    verdict.answer = fmt::format(
        "{} failed with {} free: {} are missing. {} are neither free nor the program's: what the "
        "driver's pool keeps, the CUDA context and other processes. The message does not say how "
        "much each has",
        request_words(message), told(*free), bytes_text(*verdict.must_go_bytes),
        bytes_text(rest.bytes));
  } else {
    verdict.answer =
        fmt::format("{} failed. The text is cut: nothing can be computed", request_words(message));
  }
  add_no_sizes(message, &verdict);
  return verdict;
}

Verdict judge_buffer(const Message& message) {
  const auto& asked = message.of(Quantity::Asked);
  const auto& free = message.of(Quantity::Free);
  Verdict verdict;
  const bool is_load = message.form->family == Family::Ggml;
  if (asked && free && surely_less(*free, *asked)) {
    verdict.cause = Cause::TooBig;
    verdict.help = Help::No;
    verdict.must_go_bytes = lack_bytes(*asked, *free);
    verdict.answer =
        fmt::format("{} failed with {} free{}: no setting of an allocator can help, {} must go",
                    request_words(message), told(*free), is_load ? " before it loaded" : "",
                    bytes_text(*verdict.must_go_bytes));
  } else if (asked && free && surely_at_least(*free, *asked)) {
    verdict.cause = is_load ? Cause::MissingFigures : Cause::OutsideLimit;
    verdict.help = is_load ? Help::Unknown : Help::No;
    const std::string start = fmt::format("{} failed{} {} were free", request_words(message),
                                          is_load ? "." : " while", told(*free));
    verdict.answer =
        start + (is_load ? " before it loaded; what it took since, the text does not say"
                         : ": a limit outside refused it, or the free memory lies in pieces");
  } else if (asked && is_load) {
    verdict.cause = Cause::TooBig;
    verdict.help = Help::No;
    verdict.answer = fmt::format(
        "{} failed at the driver: less was free, and ggml keeps no cache: no setting of an "
        "allocator "
        "can help, {} must go at most",
        request_words(message), told(*asked));
  } else if (asked) {
    verdict.answer = fmt::format(
        "{} failed. The text does not say how much was free, so nothing can be computed",
        request_words(message));
  } else {
    verdict = without_request(message);
  }
  if (message.form->family == Family::Driver) {
    verdict.facts.push_back(
        "This library asks the driver itself: what PyTorch's cache keeps unallocated is not there "
        "for it.");
  }
  if (message.form->family == Family::Ggml) {
    verdict.facts.push_back(
        "ggml asks the driver for each buffer whole and keeps no cache: a smaller buffer is "
        "needed, "
        "not a setting of an allocator. What a step needs besides lies in a pool of its own.");
  }
  add_no_sizes(message, &verdict);
  return verdict;
}

Verdict judge_summary(const Message& message) {
  const auto& allocated = message.of(Quantity::Allocated);
  const auto& inactive = message.of(Quantity::Inactive);
  Verdict verdict{.cause = Cause::State};
  const std::optional<Figure> unallocated = unallocated_of(message);
  if (unallocated) {
    verdict.answer = fmt::format(
        "{} are reserved for {} allocated: a setting of the allocator can win {} at most",
        told(*message.of(Quantity::Reserved)), told(*allocated), show(*unallocated));
    if (unallocated->high_bytes == 0) verdict.help = Help::No;
  } else if (allocated) {
    verdict.answer = fmt::format(
        "{} are allocated. The rest of the table is missing: \"GPU reserved memory\" says how much "
        "the allocator holds",
        told(*allocated));
  } else {
    verdict.answer = "the table's rows are missing, so nothing can be computed";
  }
  if (inactive) {
    verdict.facts.push_back(fmt::format(
        "{} of it are free pieces of segments that are partly used: what fragmentation costs at "
        "most.",
        told(*inactive)));
  }
  if (const auto& retries = message.of(Quantity::RetryCount); retries && retries->bytes > 0) {
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
  Verdict verdict;
  if (message.is_absurd) {
    verdict.cause = Cause::TooBig;
    verdict.help = Help::No;
    verdict.answer =
        "more than 1 EB was asked, which no card has: a size went wrong in the program (a negative "
        "one, or one that overflowed), and no setting of the allocator can help";
    return verdict;
  }
  if (message.form->family == Family::VllmPool) {
    verdict.answer =
        "vLLM's own pool asked the driver for memory and the card had no more. The text does not "
        "say how much it asked, so nothing can be computed";
    verdict.facts.push_back(
        "Where wake_up() failed: sleep() had given the memory back, and something else took it "
        "meanwhile; where a trainer shares the card, its cache counts, too.");
    return verdict;
  }
  verdict.answer = "memory ran out, but this message has no figures, so nothing can be computed";
  verdict.facts.push_back(
      "It does not come from PyTorch's caching allocator: a library, the driver or the context "
      "asked for the memory, and what PyTorch's cache keeps unallocated is not there for it. Text "
      "that says \"Tried to allocate ...\" can be answered.");
  return verdict;
}

}  // namespace allocmark::message

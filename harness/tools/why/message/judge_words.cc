// Words of answers, with a message's figures in them; see judges.h.
#include <fmt/args.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "harness/tools/why/message/judges.h"

namespace allocmark::message {
namespace {

using NamedWords = fmt::dynamic_format_arg_store<fmt::format_context>;

NamedWords named_words(const Message& message, MoreWords more) {
  NamedWords words;
  const auto add = [&](std::string_view name, const std::string& word) {
    words.push_back(fmt::arg(std::string(name).c_str(), word));
  };
  add("request", request_words(message));
  for (std::size_t i = 0; i < kQuantityCount; ++i)
    if (message.figures[i]) add(words_of(static_cast<Quantity>(i)).name, told(*message.figures[i]));
  for (const auto& [name, word] : more) add(name, std::string(word));
  return words;
}

}  // namespace

std::string told(const Figure& figure) {
  if (figure.printed.empty()) return show(figure);
  const bool is_long =
      figure.printed.ends_with(" bytes") && figure.bytes >= static_cast<std::int64_t>(kMiB);
  return is_long ? fmt::format("{} ({})", figure.printed, show(figure)) : figure.printed;
}

std::string request_words(const Message& message) {
  const auto& asked = message.of(Quantity::Asked);
  return asked ? "a request of " + told(*asked) : "a request";
}

std::string bytes_text(std::int64_t size_bytes) {
  return format_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(0, size_bytes)));
}

std::int64_t lack_bytes(const Figure& needed, const Figure& there) {
  return std::max<std::int64_t>(0, needed.bytes - there.bytes);
}

std::string say(const Message& message, std::string_view text, MoreWords more) {
  return fmt::vformat(text, named_words(message, more));
}

Verdict said(const Message& message, const Finding& finding, std::string_view answer,
             MoreWords more) {
  NamedWords words = named_words(message, more);
  const std::string must_go = bytes_text(finding.must_go_bytes.value_or(0));
  words.push_back(fmt::arg("must_go", must_go));
  return {.cause = finding.cause,
          .help = finding.help,
          .answer = fmt::vformat(answer, words),
          .must_go_bytes = finding.must_go_bytes};
}

Verdict contradicted(const Message& message, Verdict verdict) {
  verdict.cause = Cause::Contradiction;
  verdict.help = Help::No;
  verdict.answer = say(
      message,
      "{request} failed, and its figures cannot all be true: {first}. No setting follows from them",
      {{"first", verdict.contradictions.front()}});
  return verdict;
}

}  // namespace allocmark::message

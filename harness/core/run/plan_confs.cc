// See plan_confs.h.
#include "harness/core/run/plan_confs.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "allocators/conf/conf.h"
#include "base/nearest.h"

namespace allocmark {
namespace {

std::vector<std::string> names_of(const std::vector<PlanAllocator>& allocators) {
  std::vector<std::string> names;
  for (const PlanAllocator& allocator : allocators) names.push_back(allocator.name);
  return names;
}

// What others call an allocator that is here under another name.
struct OtherName {
  std::string_view said, meant;
};
constexpr OtherName kOtherNames[] = {
    {"pytorch", "caching"},       {"native_caching", "caching"}, {"cudaMallocAsync", "async"},
    {"cudaMalloc", "native"},     {"default", "caching"},        {"bfc", "bfc@tf2.21"},
    {"tensorflow", "bfc@tf2.21"}, {"jax", "bfc@xla-2026-09"},    {"ggml", "ggml_legacy"},
    {"llama.cpp", "ggml_legacy"}, {"ggml_cuda", "ggml_vmm"},     {"onnxruntime", "bfc@ort1.32"},
    {"ort", "bfc@ort1.32"}};

// Empty where the name says nothing of what was meant.
std::string meant_by(const std::string& name) {
  if (name.find(',') != std::string::npos) {
    std::string apart = name;
    std::ranges::replace(apart, ',', ' ');
    return fmt::format("several stand apart: --allocator {}", apart);
  }
  if (name == "pinned" || name == "host") {
    return "the host's memory has a command of its own: allocmark pinned";
  }
  const auto* const other = std::ranges::find(kOtherNames, name, &OtherName::said);
  if (other == std::end(kOtherNames)) return "";
  return fmt::format("did you mean '{}'?", other->meant);
}

// Of releases of an allocator only those of that allocator are near.
std::string next_for(const std::string& name, const std::vector<PlanAllocator>& known) {
  const std::string family = name.substr(0, name.find('@'));
  const bool released = family.size() < name.size();
  std::vector<std::string> names = names_of(known);
  std::erase_if(names, [&](const std::string& one) {
    return released != (one.find('@') != std::string::npos) ||
           (released && !one.starts_with(family + "@"));
  });
  const std::string meant = meant_by(name);
  std::string next = !meant.empty()  ? meant + "; "
                     : names.empty() ? ""
                                     : suggest(name, names) + "; ";
  if (family == "torch" && released) next += "fetch one: scripts/build/fetch_torch.sh 2.13.0; ";
  return next + "see: allocmark list allocators";
}

const PlanAllocator& find_allocator(const std::string& name,
                                    const std::vector<PlanAllocator>& known,
                                    const std::string& where) {
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const PlanAllocator& entry) { return entry.name == name; });
  if (found == known.end()) {
    throw UsageError({.what = fmt::format("there is no allocator '{}'", name),
                      .where = where,
                      .next = next_for(name, known)});
  }
  return *found;
}

// "max_split_size_mb=128": a key where an allocator's name would stand.
void refuse_equals(const std::string& text, const std::string& head,
                   const std::vector<PlanAllocator>& known) {
  std::vector<std::string> keys;
  for (const PlanAllocator& allocator : known) {
    if (allocator.name == head) return;
    keys.insert(keys.end(), allocator.conf_keys.begin(), allocator.conf_keys.end());
  }
  const std::vector<std::string> near = nearest_names(head, keys, 1);
  if (near.empty() || !nearest_names(head, names_of(known), 1).empty()) return;
  std::string meant = near.front() + text.substr(head.size());
  std::replace(meant.begin(), meant.end(), '=', ':');
  throw UsageError({.what = "keys and values are joined by ':'",
                    .where = fmt::format("--conf '{}'", text),
                    .next = fmt::format("did you mean {}?", meant)});
}

// "trim:FUNCTION" or "trim=FUNCTION" among the values: the key, or nothing.
std::string_view key_of(const PlanAllocator& allocator, std::string_view value) {
  const std::string_view key = value.substr(0, value.find_first_of(":="));
  const bool known = key.size() < value.size() &&
                     std::ranges::find(allocator.conf_keys, key) != allocator.conf_keys.end();
  return known ? key : std::string_view();
}

// The config string that "VALUE,VALUE,KEY:VALUE" after an allocator's name stands for. Values with
// blanks or colons get the brackets that the grammar of config strings wants.
std::string conf_of_argument(const PlanAllocator& allocator, std::string_view argument,
                             const std::string& where) {
  std::string conf;
  const std::vector<std::string>& keys = allocator.argument_keys;
  for (std::size_t i = 0;; ++i) {
    const std::string_view named = key_of(allocator, argument.substr(0, argument.find(',')));
    if (i == keys.size() && named.empty()) {
      throw UsageError({.what = keys.empty() ? "this allocator takes nothing after its name"
                                             : "there are too many values after the name",
                        .where = where,
                        .wanted = keys.empty()
                                      ? allocator.name
                                      : fmt::format("{}:{}", allocator.name, fmt::join(keys, ",")),
                        .got = std::string(argument),
                        .next = "config strings are given with --conf"});
    }
    const std::size_t comma = argument.find(',');
    std::string_view value = argument.substr(0, comma);
    if (!named.empty()) value.remove_prefix(named.size() + 1);
    const bool plain = value.find_first_of(" \t:;") == std::string_view::npos;
    conf += fmt::format("{}{}:{}{}{}", conf.empty() ? "" : ",",
                        named.empty() ? std::string_view(keys[i]) : named, plain ? "" : "[", value,
                        plain ? "" : "]");
    if (!named.empty()) --i;
    if (comma == std::string_view::npos) return conf;
    argument.remove_prefix(comma + 1);
  }
}

// One of the allocator's keys stands in the config string as a whole word.
bool recognises(const PlanAllocator& allocator, std::string_view conf) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  return std::any_of(allocator.conf_keys.begin(), allocator.conf_keys.end(),
                     [&](const std::string& key) {
                       for (std::size_t at = conf.find(key); at != std::string_view::npos;
                            at = conf.find(key, at + 1)) {
                         const std::size_t after = at + key.size();
                         if ((at == 0 || !is_word(conf[at - 1])) &&
                             (after == conf.size() || !is_word(conf[after]))) {
                           return true;
                         }
                       }
                       return false;
                     });
}

[[noreturn]] void throw_no_taker(const ScopedConf& conf,
                                 const std::vector<const PlanAllocator*>& asked) {
  std::vector<const PlanAllocator*> related;
  std::copy_if(asked.begin(), asked.end(), std::back_inserter(related),
               [&](const PlanAllocator* allocator) { return recognises(*allocator, conf.conf); });
  const std::vector<const PlanAllocator*>& shown = related.empty() ? asked : related;
  if (shown.size() == 1) {
    throw UsageError(told_conf_error(shown.front()->check_conf(conf.conf).value(), "--conf",
                                     conf.text, shown.front()->name));
  }
  // Allocators that say the same share a line.
  std::vector<std::pair<std::string, std::string>> complaints;  // who, and what
  for (const PlanAllocator* allocator : shown) {
    std::string what = to_string(allocator->check_conf(conf.conf).value());
    const auto same =
        std::ranges::find(complaints, what, &std::pair<std::string, std::string>::second);
    if (same == complaints.end()) {
      complaints.emplace_back(allocator->name, std::move(what));
    } else {
      same->first += ", " + allocator->name;
    }
  }
  // Where some know what was meant, the others' lists of keys do not help.
  const auto guesses = [](const auto& complaint) {
    return complaint.second.find("did you mean") != std::string::npos;
  };
  const bool is_guessed = std::ranges::any_of(complaints, guesses);
  std::string lines;
  std::string others;
  for (const auto& complaint : complaints) {
    if (is_guessed && !guesses(complaint)) {
      others += (others.empty() ? "" : ", ") + complaint.first;
    } else {
      lines += fmt::format("\n  {}: {}", complaint.first, complaint.second);
    }
  }
  if (!others.empty()) lines += fmt::format("\n  {}: no key like it", others);
  throw UsageError({.what = "no chosen allocator accepts this config string",
                    .where = fmt::format("--conf '{}'", conf.text),
                    .next = "see: allocmark explain CONF" + lines});
}

// The allocator cannot run with this config string: it does not know it, or needs one.
bool refuses(const PlanAllocator& allocator, const std::string& conf) {
  const bool needs_conf = !allocator.argument_keys.empty();
  return (needs_conf || !conf.empty()) && allocator.check_conf(conf).has_value();
}

[[noreturn]] void throw_none_asked(const ScopedConf& conf) {
  const std::string where = fmt::format("--conf '{}'", conf.text);
  if (conf.allocator.empty()) {
    throw UsageError({.what = "every chosen allocator came with a config string of its own",
                      .where = where,
                      .next = "give NAME alone with --allocator, and everything with --conf"});
  }
  throw UsageError(
      {.what = fmt::format("the config string is for allocator {}, which is not chosen",
                           conf.allocator),
       .where = where,
       .next = fmt::format("add --allocator {}", conf.allocator)});
}

}  // namespace

ScopedText split_scope(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view head = text.substr(0, equals);
  if (equals == text.npos || head.find_first_of(":,[") != text.npos) {
    return {.allocator = {}, .conf = text};
  }
  return {.allocator = head, .conf = text.substr(equals + 1)};
}

ScopedConf parse_scope(const std::string& text, const std::vector<PlanAllocator>& known) {
  const ScopedText scope = split_scope(text);
  ScopedConf conf{.allocator = "", .conf = conf_of_user(scope.conf), .text = text};
  if (scope.allocator.empty() && scope.conf.size() == text.size()) return conf;
  const std::string name(scope.allocator);
  refuse_equals(text, name, known);
  conf.allocator = find_allocator(name, known, fmt::format("--conf '{}'", text)).name;
  return conf;
}

Chosen parse_allocator(const std::string& text, const std::vector<PlanAllocator>& known) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string flag = "--allocator";
  const PlanAllocator& allocator = find_allocator(name, known, flag);
  if (colon == std::string::npos) return {.allocator = &allocator, .conf = std::nullopt};
  const std::string where = fmt::format("--allocator '{}'", text);
  std::string conf = conf_of_argument(allocator, std::string_view(text).substr(colon + 1), where);
  if (const std::optional<ErrorText> error = allocator.check_conf(conf)) {
    ErrorText told = *error;
    told.where = told.where.empty() ? where : where + ", " + told.where;
    throw UsageError(told);
  }
  return {.allocator = &allocator, .conf = std::move(conf)};
}

Pairing pair_confs(const std::vector<Chosen>& chosen, const std::vector<ScopedConf>& confs) {
  Pairing pairing{.confs = std::vector<std::vector<std::string>>(chosen.size()),
                  .left_out_count = 0,
                  .takers = {}};
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i].conf) pairing.confs[i] = {*chosen[i].conf};
  }
  const bool all_have_own = std::all_of(chosen.begin(), chosen.end(),
                                        [](const Chosen& each) { return each.conf.has_value(); });
  for (const ScopedConf& conf : confs) {
    if (all_have_own && conf.conf.empty()) continue;
    std::vector<std::string> taker_names;
    std::vector<const PlanAllocator*> asked;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const PlanAllocator& allocator = *chosen[i].allocator;
      if (chosen[i].conf || (!conf.allocator.empty() && conf.allocator != allocator.name)) continue;
      asked.push_back(&allocator);
      if (refuses(allocator, conf.conf)) {
        ++pairing.left_out_count;
        continue;
      }
      taker_names.push_back(allocator.name);
      if (std::find(pairing.confs[i].begin(), pairing.confs[i].end(), conf.conf) ==
          pairing.confs[i].end()) {
        pairing.confs[i].push_back(conf.conf);
      }
    }
    if (asked.empty()) throw_none_asked(conf);
    if (taker_names.empty()) throw_no_taker(conf, asked);
    if (taker_names.size() < asked.size()) {
      pairing.takers.push_back(
          fmt::format("'{}' only with {}", conf.text, fmt::join(taker_names, ", ")));
    }
  }
  return pairing;
}

void require_needed_confs(const Pairing& pairing, const std::vector<Chosen>& chosen) {
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const PlanAllocator& allocator = *chosen[i].allocator;
    if (pairing.confs[i].empty() && !allocator.argument_keys.empty()) {
      if (const std::optional<ErrorText> error = allocator.check_conf("")) throw UsageError(*error);
    }
  }
}

}  // namespace allocmark

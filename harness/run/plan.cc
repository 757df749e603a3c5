// See plan.h.
#include "harness/run/plan.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "base/nearest.h"
#include "harness/replay/capacity.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kSeedCountMax = 100'000;

// A config string with the allocators it may go to.
struct ScopedConf {
  std::string allocator;  // empty = any that accepts it
  std::string conf;       // empty = unset
  std::string text;       // as given
};

// An allocator that was asked for; `conf` where it came with a config string of its own.
struct Chosen {
  const PlanAllocator* allocator = nullptr;
  std::optional<std::string> conf;
  friend bool operator==(const Chosen&, const Chosen&) = default;
};

std::vector<std::string> names_of(const std::vector<PlanAllocator>& allocators) {
  std::vector<std::string> names;
  for (const PlanAllocator& allocator : allocators) {
    names.push_back(allocator.name);
  }
  return names;
}

const PlanAllocator& find_allocator(const std::string& name,
                                    const std::vector<PlanAllocator>& known,
                                    const std::string& where) {
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const PlanAllocator& entry) { return entry.name == name; });
  if (found == known.end()) {
    throw UsageError({.what = fmt::format("there is no allocator '{}'", name),
                      .where = where,
                      .wanted = "",
                      .got = "",
                      .next = suggest(name, names_of(known)) + "; see: allocmark list allocators"});
  }
  return *found;
}

std::string without_unset(std::string_view conf) {
  return conf == "unset" ? std::string() : std::string(conf);
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
                    .wanted = "",
                    .got = "",
                    .next = fmt::format("did you mean {}?", meant)});
}

ScopedConf parse_scope(const std::string& text, const std::vector<PlanAllocator>& known) {
  const ScopedText scope = split_scope(text);
  ScopedConf conf{.allocator = "", .conf = without_unset(scope.conf), .text = text};
  if (scope.allocator.empty() && scope.conf.size() == text.size()) return conf;
  const std::string name(scope.allocator);
  refuse_equals(text, name, known);
  conf.allocator = find_allocator(name, known, fmt::format("--conf '{}'", text)).name;
  return conf;
}

// The config string that "VALUE,VALUE" after an allocator's name stands for. Values with blanks or
// colons get the brackets that the grammar of config strings wants.
std::string conf_of_argument(const PlanAllocator& allocator, std::string_view argument,
                             const std::string& where) {
  std::string conf;
  const std::vector<std::string>& keys = allocator.argument_keys;
  for (std::size_t i = 0;; ++i) {
    if (i == keys.size()) {
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
    const std::string_view value = argument.substr(0, comma);
    const bool plain = value.find_first_of(" \t:;") == std::string_view::npos;
    conf += fmt::format("{}{}:{}{}{}", i == 0 ? "" : ",", keys[i], plain ? "" : "[", value,
                        plain ? "" : "]");
    if (comma == std::string_view::npos) return conf;
    argument.remove_prefix(comma + 1);
  }
}

// "NAME" or "NAME:VALUE,VALUE".
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
    ErrorText text = shown.front()->check_conf(conf.conf).value();
    text.where = fmt::format("--conf '{}', allocator {}{}{}", conf.text, shown.front()->name,
                             text.where.empty() ? "" : ", ", text.where);
    throw UsageError(text);
  }
  std::vector<std::string> complaints;
  for (const PlanAllocator* allocator : shown) {
    complaints.push_back(fmt::format("\n  {}: {}", allocator->name,
                                     to_string(allocator->check_conf(conf.conf).value())));
  }
  throw UsageError(
      {.what = "no chosen allocator accepts this config string",
       .where = fmt::format("--conf '{}'", conf.text),
       .wanted = "",
       .got = "",
       .next = fmt::format("see: allocmark explain CONF{}", fmt::join(complaints, ""))});
}

// The confs each chosen allocator is run with, in the order given. Every conf finds at least one.
struct Pairing {
  std::vector<std::vector<std::string>> confs;  // by index of the chosen allocator
  std::uint64_t left_out_count = 0;             // pairs
  std::vector<std::string> takers;              // "'max_split_size_mb:32' only with caching"
};

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
                      .wanted = "",
                      .got = "",
                      .next = "give NAME alone with --allocator, and everything with --conf"});
  }
  throw UsageError(
      {.what = fmt::format("the config string is for allocator {}, which is not chosen",
                           conf.allocator),
       .where = where,
       .wanted = "",
       .got = "",
       .next = fmt::format("add --allocator {}", conf.allocator)});
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
    if (all_have_own && conf.conf.empty()) {
      continue;
    }
    std::vector<std::string> taker_names;
    std::vector<const PlanAllocator*> asked;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const PlanAllocator& allocator = *chosen[i].allocator;
      if (chosen[i].conf || (!conf.allocator.empty() && conf.allocator != allocator.name)) {
        continue;
      }
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
    if (asked.empty()) {
      throw_none_asked(conf);
    }
    if (taker_names.empty()) {
      throw_no_taker(conf, asked);
    }
    if (taker_names.size() < asked.size()) {
      pairing.takers.push_back(
          fmt::format("'{}' only with {}", conf.text, fmt::join(taker_names, ", ")));
    }
  }
  return pairing;
}

std::vector<std::string> make_notes(const Pairing& pairing, const std::vector<Chosen>& chosen,
                                    std::uint64_t factor, std::uint64_t duplicate_count) {
  std::vector<std::string> notes;
  if (pairing.left_out_count > 0) {
    constexpr std::size_t kNamedMax = 2;
    const std::size_t named = std::min(pairing.takers.size(), kNamedMax);
    std::string takers = fmt::format(
        "{}", fmt::join(pairing.takers.begin(),
                        pairing.takers.begin() + static_cast<std::ptrdiff_t>(named), "; "));
    if (named < pairing.takers.size()) {
      takers += fmt::format("; and so on for {} more", pairing.takers.size() - named);
    }
    notes.push_back(
        fmt::format("left out: {} combinations of allocators with config strings that they do not "
                    "know ({})",
                    pairing.left_out_count * factor, takers));
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (pairing.confs[i].empty()) {
      notes.push_back(
          fmt::format("left out: allocator {} altogether, because no given config string fits it; "
                      "add --conf unset to run it with its defaults",
                      chosen[i].allocator->name));
    }
  }
  if (duplicate_count > 0) {
    notes.push_back(fmt::format("left out: {} cells that were asked for twice", duplicate_count));
  }
  return notes;
}

std::uint64_t parse_count(std::string_view text, const std::string& where) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    throw UsageError({.what = fmt::format("'{}' is not a whole number", text),
                      .where = where,
                      .wanted = "a number from 0 to 18446744073709551615",
                      .got = "",
                      .next = ""});
  }
  return value;
}

// An allocator that is nothing without a config string is not left out in silence.
void require_needed_confs(const Pairing& pairing, const std::vector<Chosen>& chosen) {
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const PlanAllocator& allocator = *chosen[i].allocator;
    if (pairing.confs[i].empty() && !allocator.argument_keys.empty()) {
      if (const std::optional<ErrorText> error = allocator.check_conf("")) throw UsageError(*error);
    }
  }
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

Plan make_plan(const PlanRequest& request, const std::vector<PlanAllocator>& known) {
  std::vector<Chosen> chosen;
  for (const std::string& text : request.allocators) {
    Chosen allocator = parse_allocator(text, known);
    if (std::find(chosen.begin(), chosen.end(), allocator) == chosen.end()) {
      chosen.push_back(std::move(allocator));
    }
  }
  std::vector<ScopedConf> confs;
  for (const std::string& text : request.confs) {
    confs.push_back(parse_scope(text, known));
  }
  if (confs.empty()) {
    confs.push_back({.allocator = "", .conf = "", .text = "unset"});
  }
  for (const std::string& capacity : request.capacities) {
    static_cast<void>(parse_capacity(capacity));
  }
  const Pairing pairing = pair_confs(chosen, confs);
  require_needed_confs(pairing, chosen);

  Plan plan;
  std::set<std::string> ids;
  std::uint64_t duplicate_count = 0;
  const auto add = [&](CellKey key) {
    if (ids.insert(key.id()).second) {
      plan.cells.push_back(std::move(key));
    } else {
      ++duplicate_count;
    }
  };
  for (const PlanWorkload& workload : request.workloads) {
    const std::vector<std::uint64_t> seeds =
        workload.recorded ? std::vector<std::uint64_t>{0} : request.seeds;
    for (const std::string& capacity : request.capacities) {
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        for (const std::string& conf : pairing.confs[i]) {
          for (const std::uint64_t seed : seeds) {
            add({.workload = workload.text,
                 .allocator = chosen[i].allocator->name,
                 .conf = conf,
                 .device = request.device,
                 .capacity = capacity,
                 .seed = seed,
                 .on_oom = request.on_oom,
                 .workload_definition = workload.definition});
          }
        }
      }
    }
  }
  plan.notes = make_notes(pairing, chosen, request.workloads.size() * request.capacities.size(),
                          duplicate_count);
  return plan;
}

Shard parse_shard(std::string_view text) {
  const std::string where = fmt::format("--shard '{}'", text);
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    throw UsageError({.what = "a shard has two numbers",
                      .where = where,
                      .wanted = "i/n with 1 <= i <= n, as in 1/4",
                      .got = "",
                      .next = ""});
  }
  const std::uint64_t number = parse_count(text.substr(0, slash), where);
  const std::uint64_t count = parse_count(text.substr(slash + 1), where);
  if (number < 1 || number > count) {
    throw UsageError({.what = "there is no such shard",
                      .where = where,
                      .wanted = "i/n with 1 <= i <= n, as in 1/4",
                      .got = "",
                      .next = ""});
  }
  return {.index = number - 1, .count = count};
}

std::vector<CellKey> take_shard(const std::vector<CellKey>& cells, Shard shard) {
  std::vector<CellKey> part;
  for (std::size_t i = shard.index; i < cells.size(); i += shard.count) {
    part.push_back(cells[i]);
  }
  return part;
}

std::vector<std::uint64_t> parse_seeds(std::string_view text) {
  const std::string where = fmt::format("--seeds '{}'", text);
  const auto append_range = [&](std::vector<std::uint64_t>* seeds, std::uint64_t first,
                                std::uint64_t last) {
    if (last < first || last - first >= kSeedCountMax) {
      throw UsageError({.what = "the range of seeds is empty or too long",
                        .where = where,
                        .wanted = fmt::format("1 to {} seeds", kSeedCountMax),
                        .got = "",
                        .next = ""});
    }
    for (std::uint64_t i = 0; i <= last - first; ++i) {
      seeds->push_back(first + i);
    }
  };
  std::vector<std::uint64_t> seeds;
  if (text.find_first_of(",-") == std::string_view::npos) {
    append_range(&seeds, 1, parse_count(text, where));
    return seeds;
  }
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::size_t dash = item.find('-');
    const std::uint64_t first = parse_count(item.substr(0, dash), where);
    const std::uint64_t last =
        dash == std::string_view::npos ? first : parse_count(item.substr(dash + 1), where);
    append_range(&seeds, first, last);
    if (comma == std::string_view::npos) {
      return seeds;
    }
    text.remove_prefix(comma + 1);
  }
}

}  // namespace allocmark

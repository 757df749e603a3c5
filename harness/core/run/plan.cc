// See plan.h.
#include "harness/core/run/plan.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "base/number_text.h"
#include "harness/core/replay/capacity.h"
#include "results/columns/columns.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kSeedCountMax = 100'000;

// Which allocators run with which config strings, for workloads of one release.
struct Axes {
  std::vector<Chosen> chosen;
  Pairing pairing;
  std::uint64_t workload_count = 0;
};

// `caching` without a release is the workload's own.
std::string of_release(std::string_view name, const std::string& caching) {
  return std::string(name == kBaselineAllocator && !caching.empty() ? caching : name);
}

Axes make_axes(const PlanRequest& request, const std::string& caching,
               const std::vector<PlanAllocator>& known) {
  Axes axes;
  for (const std::string& text : request.allocators) {
    Chosen allocator = parse_allocator(of_release(text, caching), known);
    if (std::ranges::find(axes.chosen, allocator) == axes.chosen.end()) {
      axes.chosen.push_back(std::move(allocator));
    }
  }
  std::vector<ScopedConf> confs;
  for (const std::string& text : request.confs) {
    confs.push_back(parse_scope(text, known));
    confs.back().allocator = of_release(confs.back().allocator, caching);
  }
  if (confs.empty()) confs.push_back({.allocator = "", .conf = "", .text = "unset"});
  for (const std::string& capacity : request.capacities) {
    static_cast<void>(parse_capacity(capacity));
  }
  axes.pairing = pair_confs(axes.chosen, confs);
  require_needed_confs(axes.pairing, axes.chosen);
  return axes;
}

void add_once(std::vector<std::string>* texts, std::string text) {
  if (std::ranges::find(*texts, text) == texts->end()) texts->push_back(std::move(text));
}

// By the name that `caching` has.
using AxesByRelease = std::map<std::string, Axes>;

std::vector<std::string> make_notes(const AxesByRelease& releases, std::uint64_t capacity_count,
                                    std::uint64_t duplicate_count) {
  std::vector<std::string> notes, takers, whole;
  std::uint64_t left_out_count = 0;
  for (const auto& [caching, axes] : releases) {
    left_out_count += axes.pairing.left_out_count * axes.workload_count * capacity_count;
    for (const std::string& taker : axes.pairing.takers) add_once(&takers, taker);
    for (std::size_t i = 0; i < axes.chosen.size(); ++i) {
      if (!axes.pairing.confs[i].empty()) continue;
      add_once(
          &whole,
          fmt::format("left out: allocator {} altogether, because no given config string fits it; "
                      "add --conf unset to run it with its defaults",
                      axes.chosen[i].allocator->name));
    }
  }
  if (left_out_count > 0) {
    constexpr std::size_t kNamedMax = 2;
    const std::size_t named = std::min(takers.size(), kNamedMax);
    std::string text = fmt::format(
        "{}", fmt::join(takers.begin(), takers.begin() + static_cast<std::ptrdiff_t>(named), "; "));
    if (named < takers.size()) {
      text += fmt::format("; and so on for {} more", takers.size() - named);
    }
    notes.push_back(
        fmt::format("left out: {} combinations of allocators with config strings that they do not "
                    "know ({})",
                    left_out_count, text));
  }
  notes.insert(notes.end(), whole.begin(), whole.end());
  if (duplicate_count > 0) {
    notes.push_back(fmt::format("left out: {} cells that were asked for twice", duplicate_count));
  }
  return notes;
}

std::uint64_t parse_count(std::string_view text, const std::string& where) {
  if (const auto value = number_in_text<std::uint64_t>(text)) return *value;
  throw UsageError({.what = fmt::format("'{}' is not a whole number", text),
                    .where = where,
                    .wanted = "a number from 0 to 18446744073709551615"});
}

// A config string with a name of its own, "as:NAME", is known by that name.
void name_conf(CellKey* key) {
  const std::string_view whole = key->conf;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = std::min(whole.find(',', at), whole.size());
    const std::string_view pair = whole.substr(at, end - at);
    if (pair.starts_with("as:")) {
      std::string name(pair);
      key->conf_definition = std::move(key->conf);
      key->conf = std::move(name);
      return;
    }
    at = end + 1;
  }
}

void refuse_shared_name(const std::vector<CellKey>& cells, const CellKey& key) {
  const auto same =
      std::ranges::find_if(cells, [&](const CellKey& other) { return other.id() == key.id(); });
  if (same == cells.end() || same->conf_definition == key.conf_definition) return;
  throw UsageError({.what = "two allocators of this run have one name",
                    .where = fmt::format("--allocator, {}", key.conf),
                    .wanted = "a name of its own for each",
                    .got = fmt::format("'{}' and '{}'", same->conf_text(), key.conf_text()),
                    .next = "run them apart and compare the two folders, or use: run --ab"});
}

}  // namespace

Plan make_plan(const PlanRequest& request, const std::vector<PlanAllocator>& known) {
  AxesByRelease releases;
  if (request.workloads.empty()) releases[""] = make_axes(request, "", known);
  for (const PlanWorkload& workload : request.workloads) {
    const auto [found, is_new] = releases.try_emplace(workload.caching);
    if (is_new) found->second = make_axes(request, workload.caching, known);
    ++found->second.workload_count;
  }

  Plan plan;
  std::set<std::string> ids;
  std::uint64_t duplicate_count = 0;
  const auto add = [&](CellKey key) {
    name_conf(&key);
    if (ids.insert(key.id()).second) {
      plan.cells.push_back(std::move(key));
    } else {
      refuse_shared_name(plan.cells, key);
      ++duplicate_count;
    }
  };
  for (const PlanWorkload& workload : request.workloads) {
    const std::vector<std::uint64_t> seeds =
        workload.recorded ? std::vector<std::uint64_t>{0} : request.seeds;
    const Axes& axes = releases.at(workload.caching);
    for (const std::string& capacity : request.capacities) {
      for (std::size_t i = 0; i < axes.chosen.size(); ++i) {
        for (const std::string& conf : axes.pairing.confs[i]) {
          for (const std::uint64_t seed : seeds) {
            add({.workload = workload.text,
                 .allocator = axes.chosen[i].allocator->name,
                 .conf = conf,
                 .device = request.device,
                 .capacity = capacity,
                 .seed = seed,
                 .on_oom = request.on_oom,
                 .workload_definition = workload.definition,
                 .workload_files = workload.files});
          }
        }
      }
    }
  }
  plan.notes = make_notes(releases, request.capacities.size(), duplicate_count);
  return plan;
}

Shard parse_shard(std::string_view text) {
  const std::string where = fmt::format("--shard '{}'", text);
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    throw UsageError({.what = "a shard has two numbers",
                      .where = where,
                      .wanted = "i/n with 1 <= i <= n, as in 1/4"});
  }
  const std::uint64_t number = parse_count(text.substr(0, slash), where);
  const std::uint64_t count = parse_count(text.substr(slash + 1), where);
  if (number < 1 || number > count) {
    throw UsageError({.what = "there is no such shard",
                      .where = where,
                      .wanted = "i/n with 1 <= i <= n, as in 1/4"});
  }
  return {.index = number - 1, .count = count};
}

std::vector<CellKey> take_shard(const std::vector<CellKey>& cells, Shard shard) {
  std::vector<CellKey> part;
  for (std::size_t i = shard.index; i < cells.size(); i += shard.count) part.push_back(cells[i]);
  return part;
}

std::vector<std::uint64_t> parse_seeds(std::string_view text) {
  const std::string where = fmt::format("--seeds '{}'", text);
  const auto append_range = [&](std::vector<std::uint64_t>* seeds, std::uint64_t first,
                                std::uint64_t last) {
    if (last < first || last - first >= kSeedCountMax) {
      throw UsageError({.what = "the range of seeds is empty or too long",
                        .where = where,
                        .wanted = fmt::format("1 to {} seeds", kSeedCountMax)});
    }
    for (std::uint64_t i = 0; i <= last - first; ++i) seeds->push_back(first + i);
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
    if (comma == std::string_view::npos) return seeds;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace allocmark

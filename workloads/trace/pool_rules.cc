#include "workloads/trace/pool_rules.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "workloads/trace/event_names.h"

namespace allocmark {
namespace {

ErrorText rule_error(std::string what, std::string wanted, std::string got, std::string next) {
  return {.what = std::move(what),
          .where = "",
          .wanted = std::move(wanted),
          .got = std::move(got),
          .next = std::move(next)};
}

}  // namespace

std::optional<ErrorText> PoolRules::check(const Event& event, std::uint64_t place) {
  if (event.id == 0 || event.id >= kTracePoolIdEnd) {
    return rule_error("bad pool id", "1 to 2^32 - 1", std::to_string(event.id),
                      "Count pools up from 1");
  }
  if (event.kind == EventKind::PoolCreate) return check_use(event);
  if (event.kind == EventKind::PoolBegin) return check_begin(event, place);
  const auto found = pools_.find(event.id);
  if (found == pools_.end()) {
    return rule_error(fmt::format("{} of unknown pool {}", event_kind_name(event.kind), event.id),
                      "the pool of an earlier pool_create or pool_begin",
                      "a pool that no row so far makes", "");
  }
  Pool& pool = found->second;
  // A pool that is not used any more can still be asked to give back what it has.
  if (event.kind == EventKind::Trim) return std::nullopt;
  if (pool.released) {
    return rule_error(fmt::format("{} of released pool {}", event_kind_name(event.kind), event.id),
                      "a pool that is used", fmt::format("one released at {}", *pool.released), "");
  }
  if (event.kind == EventKind::PoolEnd) {
    if (!pool.begun) {
      return rule_error(fmt::format("pool_end without pool_begin of pool {}", event.id),
                        "a pool that requests are routed to", "one that none are", "");
    }
    pool.begun.reset();
  } else if (event.kind == EventKind::PoolRelease) {
    return check_release(event, pool, place);
  } else if (event.kind == EventKind::PoolOnOom) {
    if (event.size_bytes > 1) {
      return rule_error("bad flag of pool_on_oom", "1 for on, 0 for off",
                        std::to_string(event.size_bytes), "");
    }
    pool.on_oom = event.is_on() ? std::optional(place) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<ErrorText> PoolRules::check_use(const Event& event) {
  if (!pools_.contains(event.id) && pools_.size() == kTracePoolCountMax) {
    return rule_error("too many pools", fmt::format("at most {}", kTracePoolCountMax), "one more",
                      "");
  }
  Pool& pool = pools_[event.id];
  if (pool.released) {
    return rule_error(fmt::format("{} of released pool {}", event_kind_name(event.kind), event.id),
                      "a pool that is used, or a new one",
                      fmt::format("one released at {}", *pool.released),
                      "Ids name pools: count them up");
  }
  ++pool.use_count;
  return std::nullopt;
}

std::optional<ErrorText> PoolRules::check_begin(const Event& event, std::uint64_t place) {
  if (event.size_bytes > 1 || (event.all_streams() && event.stream != 0)) {
    return rule_error("bad columns of pool_begin",
                      "pool_begin,POOL,0,STREAM, or pool_begin,POOL,1,0 for every stream",
                      fmt::format("size {} and stream {}", event.size_bytes, event.stream), "");
  }
  const auto found = pools_.find(event.id);
  if (found != pools_.end() && found->second.begun) {
    return rule_error(fmt::format("pool_begin of pool {} twice", event.id),
                      "a pool that no requests are routed to",
                      fmt::format("one begun at {}", *found->second.begun), "");
  }
  if (auto wrong = check_use(event)) return wrong;
  pools_[event.id].begun = place;
  return std::nullopt;
}

std::optional<ErrorText> PoolRules::check_release(const Event& event, Pool& pool,
                                                  std::uint64_t place) {
  if (pool.use_count == 1 && pool.begun) {
    return rule_error(
        fmt::format("pool_release of pool {}, which requests are routed to", event.id),
        "its pool_end first", fmt::format("a pool begun at {}", *pool.begun), "");
  }
  if (pool.use_count == 1 && pool.on_oom) {
    return rule_error(
        fmt::format("pool_release of pool {}, which serves when memory is out", event.id),
        fmt::format("pool_on_oom,{},0,0 first", event.id),
        fmt::format("a pool turned on at {}", *pool.on_oom), "");
  }
  if (--pool.use_count == 0) pool.released = place;
  return std::nullopt;
}

std::optional<ErrorText> PoolRules::check_end() const {
  // The one begun first, so that the message does not depend on the table's order.
  const std::pair<const std::uint64_t, Pool>* open = nullptr;
  for (const auto& entry : pools_) {
    if (entry.second.begun && (open == nullptr || *entry.second.begun < *open->second.begun))
      open = &entry;
  }
  if (open == nullptr) return std::nullopt;
  return rule_error(fmt::format("pool_begin of pool {} without pool_end", open->first),
                    "a pool_end before the trace ends",
                    fmt::format("a pool begun at {}", *open->second.begun), "");
}

}  // namespace allocmark

#include "workloads/trace/pool_rules.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "workloads/trace/event_names.h"

namespace allocmark {
namespace {

ErrorText rule_error(std::string what, std::string wanted, std::string got, std::string next) {
  return {.what = std::move(what),
          .wanted = std::move(wanted),
          .got = std::move(got),
          .next = std::move(next)};
}

}  // namespace

BrokenRule PoolRules::check(const Event& event, std::uint64_t place) {
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
  return check_used(event, pool, place);
}

BrokenRule PoolRules::check_used(const Event& event, Pool& pool, std::uint64_t place) {
  switch (event.kind) {
    case EventKind::PoolEnd:
      return check_end_of(event, pool);
    case EventKind::PoolRelease:
      return check_release(event, pool, place);
    case EventKind::CaptureBegin:
      return check_capture(event, pool, place);
    case EventKind::CaptureEnd:
    case EventKind::GraphReplay:
      return check_graph(event, pool);
    case EventKind::PoolOnOom:
      if (event.size_bytes > 1) {
        return rule_error("bad flag of pool_on_oom", "1 for on, 0 for off",
                          std::to_string(event.size_bytes), "");
      }
      pool.on_oom = event.is_on() ? std::optional(place) : std::nullopt;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

BrokenRule PoolRules::check_end_of(const Event& event, Pool& pool) {
  if (!pool.begun) {
    return rule_error(fmt::format("pool_end without pool_begin of pool {}", event.id),
                      "a pool that requests are routed to", "one that none are", "");
  }
  if (pool.captured) {
    return rule_error(fmt::format("pool_end of pool {}, which a graph is captured into", event.id),
                      "its capture_end first", fmt::format("a capture begun at {}", *pool.captured),
                      "");
  }
  pool.begun.reset();
  return std::nullopt;
}

BrokenRule PoolRules::check_capture(const Event& event, Pool& pool, std::uint64_t place) {
  if (!pool.begun || (pool.stream && *pool.stream != event.stream)) {
    return rule_error(fmt::format("capture_begin of pool {} on stream {}", event.id, event.stream),
                      "a pool that this stream's requests are routed to", "one that they are not",
                      fmt::format("pool_begin,{},0,{} comes before", event.id, event.stream));
  }
  if (pool.captured) {
    return rule_error(fmt::format("capture_begin of pool {} twice", event.id),
                      "a pool that no graph is captured into",
                      fmt::format("a capture begun at {}", *pool.captured), "");
  }
  for (const auto& [id, other] : pools_) {
    if (!other.captured || other.capture_stream != event.stream) continue;
    return rule_error(fmt::format("capture_begin on stream {}, which is captured", event.stream),
                      "one capture at a time on a stream",
                      fmt::format("that of pool {}, begun at {}", id, *other.captured),
                      fmt::format("capture_end,{},0,{} comes before", id, event.stream));
  }
  pool.captured = place;
  pool.capture_stream = event.stream;
  return std::nullopt;
}

// The end of a capture, and the replay of what one made.
BrokenRule PoolRules::check_graph(const Event& event, Pool& pool) {
  if (event.kind == EventKind::CaptureEnd) {
    if (!pool.captured || pool.capture_stream != event.stream) {
      return rule_error(fmt::format("capture_end without capture_begin of pool {} on stream {}",
                                    event.id, event.stream),
                        "a pool that a graph of that stream is captured into", "one that none is",
                        "");
    }
    pool.captured.reset();
    pool.has_graph = true;
    return std::nullopt;
  }
  if (pool.has_graph) return std::nullopt;
  return rule_error(fmt::format("graph_replay of pool {}, which has no graph", event.id),
                    "a pool with a capture_end before", "one without", "");
}

BrokenRule PoolRules::check_use(const Event& event) {
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

BrokenRule PoolRules::check_begin(const Event& event, std::uint64_t place) {
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
  Pool& pool = pools_[event.id];
  pool.begun = place;
  pool.stream = event.all_streams() ? std::nullopt : std::optional(event.stream);
  return std::nullopt;
}

BrokenRule PoolRules::check_release(const Event& event, Pool& pool, std::uint64_t place) {
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

BrokenRule PoolRules::check_end() const {
  // The one begun first, so that the message does not depend on the table's order.
  const std::pair<const std::uint64_t, Pool>* open = nullptr;
  for (const auto& entry : pools_) {
    if (entry.second.begun && (open == nullptr || *entry.second.begun < *open->second.begun))
      open = &entry;
  }
  if (open == nullptr) return std::nullopt;
  if (open->second.captured) {
    return rule_error(fmt::format("capture_begin of pool {} without capture_end", open->first),
                      "a capture_end before the trace ends",
                      fmt::format("a capture begun at {}", *open->second.captured), "");
  }
  return rule_error(fmt::format("pool_begin of pool {} without pool_end", open->first),
                    "a pool_end before the trace ends",
                    fmt::format("a pool begun at {}", *open->second.begun), "");
}

}  // namespace allocmark

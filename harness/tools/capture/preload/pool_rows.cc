// Rows of private pools. Calls of PyTorch's allocator and of the runtime flow in; rows flow out.
#include <algorithm>

#include "harness/tools/capture/preload/recorder.h"
#include "harness/tools/capture/preload/row.h"

namespace allocmark_capture {

void DeviceTrace::write_of_pool(std::string_view operation, const TracedPool& pool,
                                std::uint64_t flag, std::uint32_t stream) {
  write(Row(operation).number(pool.number).number(flag).number(stream).text(",\n"));
}

TracedPool& DeviceTrace::pool_of(const PoolKey& key) {
  const auto [found, is_new] = pools_.try_emplace(key);
  if (is_new) found->second.number = ++pool_number_last_;
  return found->second;
}

TracedPool* DeviceTrace::find_pool(const PoolKey& key) {
  const auto found = pools_.find(key);
  return found == pools_.end() ? nullptr : &found->second;
}

PoolKey DeviceTrace::pool_begun_last() const { return begun_.empty() ? PoolKey{} : begun_.back(); }

void DeviceTrace::pool_created(const PoolKey& key) {
  TracedPool& pool = pool_of(key);
  ++pool.use_count;
  write_of_pool("pool_create", pool);
}

void DeviceTrace::pool_begun(const PoolKey& key, std::optional<std::uint64_t> stream) {
  TracedPool& pool = pool_of(key);
  if (pool.begun) return;
  pool.begun = true;
  ++pool.use_count;
  if (stream) return write_of_pool("pool_begin", pool, 0, stream_index(*stream));
  begun_.push_back(key);
  write_of_pool("pool_begin", pool, 1);
}

void DeviceTrace::end_pool(TracedPool& pool) {
  if (pool.captured_stream) write_of_pool("capture_end", pool, 0, *pool.captured_stream);
  pool.has_graph = pool.has_graph || pool.captured_stream;
  pool.captured_stream.reset();
  if (pool.begun) write_of_pool("pool_end", pool);
  pool.begun = false;
}

void DeviceTrace::pool_ended(const PoolKey& key) {
  TracedPool* const pool = find_pool(key);
  if (pool == nullptr) return;
  end_pool(*pool);
  std::erase(begun_, key);
}

void DeviceTrace::pool_released(const PoolKey& key) {
  TracedPool* const pool = find_pool(key);
  if (pool == nullptr || pool->use_count == 0) return;
  if (pool->use_count == 1) {
    pool_ended(key);
    pool_on_oom(key, false);
  }
  write_of_pool("pool_release", *pool);
  if (--pool->use_count > 0) return;
  // It may still be emptied by its number, and used again only by a new one.
  released_[key] = pool->number;
  pools_.erase(key);
}

void DeviceTrace::pool_on_oom(const PoolKey& key, bool is_on) {
  TracedPool* const pool = find_pool(key);
  if (pool == nullptr || pool->on_oom == is_on) return;
  pool->on_oom = is_on;
  write_of_pool("pool_on_oom", *pool, is_on ? 1 : 0);
}

void DeviceTrace::pool_never_splits(const PoolKey& key) {
  if (TracedPool* const pool = find_pool(key); pool != nullptr)
    write_of_pool("pool_no_split", *pool);
}

void DeviceTrace::pool_trimmed(const PoolKey& key) {
  if (TracedPool* const pool = find_pool(key); pool != nullptr) {
    write_of_pool("empty_cache", *pool);
  } else if (const auto found = released_.find(key); found != released_.end()) {
    write_of_pool("empty_cache", {.number = found->second});
  }
}

bool DeviceTrace::capture_begun(const PoolKey& key, std::uint64_t stream) {
  TracedPool* const pool = find_pool(key);
  const std::uint32_t index = stream_index(stream);
  const bool is_free = std::ranges::none_of(
      pools_, [index](const auto& one) { return one.second.captured_stream == index; });
  if (pool == nullptr || !pool->begun || pool->captured_stream || !is_free) return false;
  pool->captured_stream = index;
  write_of_pool("capture_begin", *pool, 0, index);
  return true;
}

void DeviceTrace::capture_ended(const PoolKey& key) {
  TracedPool* const pool = find_pool(key);
  if (pool == nullptr || !pool->captured_stream) return;
  write_of_pool("capture_end", *pool, 0, *pool->captured_stream);
  pool->captured_stream.reset();
  pool->has_graph = true;
}

void DeviceTrace::replayed(const PoolKey& key, std::uint64_t stream) {
  if (TracedPool* const pool = find_pool(key); pool != nullptr && pool->has_graph)
    write_of_pool("graph_replay", *pool, 0, stream_index(stream));
}

void DeviceTrace::finish() {
  if (file_.is_open()) {
    for (auto& [key, pool] : pools_) end_pool(pool);
  }
  file_.finish();
}

}  // namespace allocmark_capture

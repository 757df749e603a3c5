#include "harness/simcuda/core/device_config.h"

namespace simcuda {

DeviceConfig h200_config(StartState start) {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  constexpr std::int64_t second_chunk_offset = -96 * static_cast<std::int64_t>(mib);
  DeviceConfig config;
  switch (start) {
    case StartState::Plain:
      config.initial_chunks = {{0, 8 * mib}, {second_chunk_offset, 30 * mib}};
      break;
    case StartState::Kernel:
      // The program whose pools were logged: free memory was reported as in a plain one.
      config.initial_chunks = {{0, 8 * mib}};
      break;
    case StartState::C10: {
      constexpr std::uint64_t stream_pages = 2;  // of its 2nd and 6th stream
      config.initial_chunks = {{0, 12 * mib}};
      config.streams_created = 7;
      config.free_bytes_initial -= stream_pages * kPageBytes;
      config.page_limit -= stream_pages;
      break;
    }
  }
  return config;
}

DeviceConfig with_usable_bytes(const DeviceConfig& config, std::uint64_t usable_bytes) {
  DeviceConfig changed = config;
  const std::uint64_t over_bytes = config.free_bytes_initial - config.page_limit * kPageBytes;
  const std::uint64_t context_bytes = config.total_bytes - config.free_bytes_initial;
  changed.page_limit = usable_bytes / kPageBytes;
  changed.free_bytes_initial = changed.page_limit * kPageBytes + over_bytes;
  changed.total_bytes = changed.free_bytes_initial + context_bytes;
  // The difference to what would fit by pages alone (0 on the device measured) stays.
  const std::uint64_t lost_chunks = config.page_limit / kPagesPerChunk - config.chunk_limit;
  const std::uint64_t fitting_chunks = changed.page_limit / kPagesPerChunk;
  changed.chunk_limit = fitting_chunks > lost_chunks ? fitting_chunks - lost_chunks : 0;
  return changed;
}

DeviceConfig with_total_bytes(const DeviceConfig& config, std::uint64_t total_bytes) {
  const std::uint64_t context_bytes = config.total_bytes - config.free_bytes_initial;
  const std::uint64_t over_bytes = config.free_bytes_initial - config.page_limit * kPageBytes;
  const std::uint64_t kept_bytes = context_bytes + over_bytes;
  DeviceConfig changed =
      with_usable_bytes(config, total_bytes > kept_bytes ? total_bytes - kept_bytes : 0);
  // Whole pages fit; what is left of the last one is reported free, as on the device measured.
  changed.total_bytes = total_bytes;
  changed.free_bytes_initial = total_bytes > context_bytes ? total_bytes - context_bytes : 0;
  return changed;
}

DeviceConfig with_shared_host(const DeviceConfig& config, const SharedHost& host) {
  DeviceConfig changed = config;
  if (host.is_one_pool) {
    const std::uint64_t kept_bytes = host.own_bytes + host.reserve_bytes;
    changed = with_total_bytes(
        config, config.total_bytes > kept_bytes ? config.total_bytes - kept_bytes : 0);
    changed.total_bytes = config.total_bytes;
    changed.free_bytes_initial += host.reserve_bytes;  // there, and not to be taken
  }
  changed.host = host;
  return changed;
}

DeviceConfig host_of(const DeviceConfig& config) {
  DeviceConfig host;
  host.total_bytes = config.host_bytes;
  host.free_bytes_initial = config.host_bytes;
  host.page_limit = config.host_bytes / kPageBytes;
  host.chunk_limit = host.page_limit / kPagesPerChunk;
  return host;
}

}  // namespace simcuda

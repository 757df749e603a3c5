// See torch_host.h.
#include "allocators/plugins/torch_host.h"

#include "allocators/plugins/torch.h"
#include "base/error.h"

namespace allocmark {
namespace {

using host_caching::HostDriver;
using host_caching::PinKind;

HostDriver& driver_of(void* context) { return *static_cast<HostDriver*>(context); }
PinKind pin_kind(int registers) {
  return registers != 0 ? PinKind::HostRegister : PinKind::HostAlloc;
}

AllocmarkHostMachine machine_of(HostDriver& driver) {
  return {
      .context = &driver,
      .pin =
          [](void* context, std::uint64_t size_bytes, int registers, std::uint64_t thread_count) {
            return driver_of(context).pin(size_bytes, pin_kind(registers), thread_count);
          },
      .unpin = [](void* context, std::uint64_t address,
                  int registers) { driver_of(context).unpin(address, pin_kind(registers)); },
      .record_event = [](void* context,
                         std::uint64_t stream) { return driver_of(context).record_event(stream); },
      .event_done =
          [](void* context, std::uint64_t event) {
            return driver_of(context).event_done(event) ? 1 : 0;
          },
      .destroy_event = [](void* context,
                          std::uint64_t event) { driver_of(context).destroy_event(event); }};
}

}  // namespace

TorchHostCache::TorchHostCache(const std::string& version, const std::string& conf,
                               HostDriver& driver)
    : plugin_(static_cast<const AllocmarkTorchHostPlugin*>(
          torch_plugin_table(version, conf,
                             {.symbol = "allocmark_torch_host_plugin",
                              .version = ALLOCMARK_TORCH_HOST_PLUGIN_VERSION}))),
      machine_(machine_of(driver)) {
  require_ok(plugin_->open(&machine_));
}

void TorchHostCache::require_ok(int status) const {
  if (status == kAllocmarkPluginOk) return;
  throw EnvironmentError(
      {.what = "PyTorch's cache of pinned memory failed", .got = plugin_->last_error()});
}

host_caching::PinnedBlock TorchHostCache::allocate(std::uint64_t size_bytes) {
  host_caching::PinnedBlock block;
  const int status = plugin_->allocate(size_bytes, &block.address, &block.size_bytes);
  if (status == kAllocmarkPluginOutOfMemory) return {};
  require_ok(status);
  return block;
}

bool TorchHostCache::use(host_caching::Address address, host_caching::Stream stream) {
  int known = 0;
  require_ok(plugin_->use(address, stream, &known));
  return known != 0;
}

void TorchHostCache::deallocate(host_caching::Address address) {
  if (address != 0) require_ok(plugin_->deallocate(address));
}

void TorchHostCache::empty_cache() { require_ok(plugin_->empty_cache()); }
void TorchHostCache::background_pass() { require_ok(plugin_->background_pass()); }

void TorchHostCache::begin_capture(std::uint64_t pool) {
  require_ok(plugin_->begin_capture(pool));
  capturing_ = pool;
}

void TorchHostCache::end_capture() { require_ok(plugin_->end_capture(capturing_)); }
void TorchHostCache::release_pool(std::uint64_t pool) { require_ok(plugin_->release_pool(pool)); }
void TorchHostCache::reset_peak() { require_ok(plugin_->reset_peak()); }
void TorchHostCache::reset_accumulated() { require_ok(plugin_->reset_accumulated()); }

host_caching::HostStatistics TorchHostCache::statistics() const {
  host_caching::HostStatistics statistics;
  const char* name = nullptr;
  std::int64_t value = 0;
  for (std::size_t index = 0; plugin_->counter(index, &name, &value) != 0; ++index) {
    statistics.emplace_back(name, value);
  }
  return statistics;
}

std::string TorchHostCache::change(const std::string& conf) {
  return plugin_->configure(conf.c_str()) == kAllocmarkPluginOk ? "" : plugin_->last_error();
}

}  // namespace allocmark

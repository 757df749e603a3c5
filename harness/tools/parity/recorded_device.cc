// The device that answers as a golden says (parity.h). Checks; times nothing.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "allocators/caching/sizes.h"
#include "harness/tools/parity/golden.h"
#include "harness/tools/parity/parity.h"

namespace allocmark::caching {
namespace {

class RecordedDevice final : public ParityDevice {
 public:
  explicit RecordedDevice(const Golden& golden) : golden_(golden) {}

  // Where the device is asked for memory, it is this answer's segment that is given.
  void expect(const GoldenAnswer& answer) override { answer_ = answer; }
  void refuse_next() override { refuse_next_ = true; }
  void expect_pool_reserved(std::uint64_t bytes, std::uint64_t bytes_peak) override {
    usage_.reserved_bytes = bytes;
    usage_.reserved_bytes_peak = bytes_peak;
  }
  void start_busy(Stream stream) override { busy_.insert(stream); }
  void end_busy() override {
    busy_.clear();
    pending_.clear();
  }

  // Throws ParityDivergence, as reserve_address does.
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, Stream) override {
    if (std::exchange(refuse_next_, false)) return std::nullopt;
    return answer(size_bytes);
  }
  // cudaFree waits for everything that runs.
  void free(std::uint64_t address) override {
    live_.erase(address);
    end_busy();
  }
  DeviceMemory memory() override { return {0, golden_.device_total_bytes}; }
  std::uint64_t device_total_bytes() override { return golden_.device_total_bytes; }
  Event create_event() override { return ++event_count_; }
  void destroy_event(Event) override {}
  void record_event(Event event, Stream stream) override {
    pending_.erase(event);
    if (busy_.contains(stream)) pending_.emplace(event, stream);
  }
  bool event_done(Event event) override { return !pending_.contains(event); }
  void wait_for_event(Event event) override {
    if (const auto found = pending_.find(event); found != pending_.end())
      wait_for_stream(found->second);
  }
  void wait_for_stream(Stream stream) override {
    busy_.erase(stream);
    std::erase_if(pending_, [&](const auto& entry) { return entry.second == stream; });
  }
  void wait_for_device() override { end_busy(); }
  std::uint64_t reserve_address(std::uint64_t size_bytes) override { return answer(size_bytes); }
  void free_address(std::uint64_t address, std::uint64_t) override { live_.erase(address); }
  std::optional<PageHandle> create_page(std::uint64_t) override {
    if (std::exchange(refuse_next_, false)) return std::nullopt;
    return ++page_count_;
  }
  void release_page(PageHandle) override {}
  void map_page(std::uint64_t, std::uint64_t, PageHandle) override {}
  void unmap_page(std::uint64_t, std::uint64_t) override {}
  void allow_access(std::uint64_t, std::uint64_t) override {}
  void prepare_pool() override {}
  std::optional<std::uint64_t> pool_allocate(std::uint64_t size_bytes, Stream) override {
    const std::uint64_t address = pool_next_;
    pool_next_ += round_up(std::max(size_bytes, kBlockSizeMin), kBlockSizeMin);
    pool_sizes_.emplace(address, size_bytes);
    usage_.used_bytes += size_bytes;
    usage_.used_bytes_peak = std::max(usage_.used_bytes_peak, usage_.used_bytes);
    return address;
  }
  void pool_free(std::uint64_t address, Stream) override {
    const auto found = pool_sizes_.find(address);
    usage_.used_bytes -= found->second;
    pool_sizes_.erase(found);
  }
  void trim_pool() override {}
  PoolUsage pool_usage() override { return usage_; }
  Stream create_stream() override { return kUnifier; }
  void destroy_stream(Stream) override {}
  void make_stream_wait(Stream, Event) override {}

 private:
  static constexpr Stream kUnifier = ~Stream{0};

  std::uint64_t answer(std::uint64_t size_bytes) {
    if (!answer_.placed)
      throw ParityDivergence("asks the device for memory; PyTorch failed without");
    const std::uint64_t begin = answer_.segment_address;
    const auto above = live_.lower_bound(begin);
    const bool meets_above = above != live_.end() && above->first < begin + size_bytes;
    const bool meets_below =
        above != live_.begin() && std::prev(above)->first + std::prev(above)->second > begin;
    if (meets_above || meets_below) {
      throw ParityDivergence(
          "asks the device for memory; PyTorch used a segment that was there already");
    }
    live_.emplace(begin, size_bytes);
    return begin;
  }

  const Golden& golden_;
  GoldenAnswer answer_;
  bool refuse_next_ = false;
  std::uint64_t event_count_ = 0;
  std::uint64_t page_count_ = 0;
  std::map<std::uint64_t, std::uint64_t> live_;  // segments given out, address -> bytes
  std::set<Stream> busy_;
  std::map<Event, Stream> pending_;
  PoolUsage usage_;
  std::uint64_t pool_next_ = std::uint64_t{1} << 40;  // places in the pool are not compared
  std::unordered_map<std::uint64_t, std::uint64_t> pool_sizes_;
};

}  // namespace

std::unique_ptr<ParityDevice> make_recorded_device(const Golden& golden) {
  return std::make_unique<RecordedDevice>(golden);
}

}  // namespace allocmark::caching

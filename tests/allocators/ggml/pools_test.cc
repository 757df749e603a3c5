// Goal: the legacy pool decides as llama.cpp's does. Method: cases worked out by hand from the
// rules of its source.
#include "allocators/ggml/pools.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tests/catch.h"

namespace allocmark::ggml {
namespace {

constexpr std::uint64_t kMiBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiBytes = std::uint64_t{1} << 30;

class FakeMemory final : public Memory {
 public:
  explicit FakeMemory(std::uint64_t capacity_bytes = ~std::uint64_t{0})
      : capacity_bytes_(capacity_bytes) {}
  std::optional<std::uint64_t> take(std::uint64_t size_bytes) override {
    asked.push_back(size_bytes);
    if (held_bytes + size_bytes > capacity_bytes_) return std::nullopt;
    next_ += std::uint64_t{1} << 40;
    held_bytes += size_bytes;
    sizes_[next_] = size_bytes;
    return next_;
  }
  void give(std::uint64_t address) override {
    REQUIRE(sizes_.contains(address));
    held_bytes -= sizes_.at(address);
    sizes_.erase(address);
  }
  void synchronize() override { ++synchronize_count; }
  std::vector<std::uint64_t> asked;
  std::uint64_t held_bytes = 0;
  int synchronize_count = 0;

 private:
  std::uint64_t capacity_bytes_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::uint64_t> sizes_;
};

}  // namespace

TEST_CASE("the device is asked for 5 % more, in units of 256 B") {
  FakeMemory memory;
  LegacyPool pool(memory, true);
  CHECK(pool.allocate(1000)->size_bytes == 1280);  // 1050
  CHECK(pool.allocate(244)->size_bytes == 256);    // 256.2
  CHECK(pool.allocate(4096)->size_bytes == 4352);  // 4300.8
  CHECK(memory.asked == std::vector<std::uint64_t>{1280, 256, 4352});
}

TEST_CASE("the buffer that exceeds a request least is given whole, the first of equals") {
  FakeMemory memory;
  LegacyPool pool(memory, true);
  const Buffer large = *pool.allocate(100 * kMiBytes);
  const Buffer small = *pool.allocate(10 * kMiBytes);
  const Buffer twin = *pool.allocate(10 * kMiBytes);
  REQUIRE((pool.deallocate(large.address) && pool.deallocate(twin.address) &&
           pool.deallocate(small.address)));
  CHECK(pool.kept_bytes_largest() == large.size_bytes);
  CHECK(pool.allocate(1)->address == twin.address);
  CHECK(pool.allocate(10 * kMiBytes)->address == small.address);
  // One byte takes 105 MiB: a buffer is never split.
  CHECK(pool.allocate(1)->size_bytes == large.size_bytes);
  CHECK(pool.kept_bytes() == 0);
  CHECK(pool.counters().used_bytes == memory.held_bytes);
}

TEST_CASE("requests that grow leave a buffer of every size behind") {
  // What llama.cpp's users see: memory many times what is live.
  FakeMemory memory;
  LegacyPool pool(memory, true);
  for (std::uint64_t mib = 16; mib <= 512; mib += 16) {
    const Buffer buffer = *pool.allocate(mib * kMiBytes);
    REQUIRE(pool.deallocate(buffer.address));
  }
  // 16 + 32 + ... + 320 MiB, and 5 %. From there on every second one fits into the buffer before
  // it: 352 + 384 + ... + 512 MiB, and 5 %.
  CHECK(memory.held_bytes / kMiBytes == 6249);
}

TEST_CASE("a buffer that is 64 GiB too large is not taken") {
  FakeMemory memory;
  LegacyPool pool(memory, true);
  const Buffer buffer = *pool.allocate(70 * kGiBytes);
  REQUIRE(pool.deallocate(buffer.address));
  CHECK(pool.allocate(1024)->address != buffer.address);
  CHECK(pool.allocate(buffer.size_bytes - 64 * kGiBytes)->address != buffer.address);
  CHECK(pool.allocate(buffer.size_bytes - 64 * kGiBytes + 1)->address == buffer.address);
}

TEST_CASE("the 257th buffer goes back to the device") {
  FakeMemory memory;
  LegacyPool pool(memory, true);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 257; ++i) buffers.push_back(*pool.allocate(200));
  for (const Buffer& buffer : buffers) REQUIRE(pool.deallocate(buffer.address));
  CHECK(memory.held_bytes == std::uint64_t{256} * 256);
  CHECK(pool.counters().give_count == 1);
  CHECK_FALSE(pool.deallocate(buffers[0].address));
}

TEST_CASE("where the device refuses, kept buffers go back and it is asked once more") {
  FakeMemory memory(100 * kMiBytes);
  LegacyPool pool(memory, true);
  REQUIRE(pool.deallocate(pool.allocate(40 * kMiBytes)->address));
  CHECK(pool.allocate(80 * kMiBytes).has_value());
  CHECK(memory.synchronize_count == 1);
  CHECK(memory.held_bytes == 84 * kMiBytes);
  CHECK_FALSE(pool.allocate(80 * kMiBytes).has_value());
  CHECK(pool.counters().retry_count == 2);
  FakeMemory other(100 * kMiBytes);
  LegacyPool older(other, false);
  REQUIRE(older.deallocate(older.allocate(40 * kMiBytes)->address));
  CHECK_FALSE(older.allocate(80 * kMiBytes).has_value());
  CHECK(other.asked.size() == 2);
}

}  // namespace allocmark::ggml

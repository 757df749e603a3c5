// The messages of PyTorch's releases, as `caching` writes them letter for letter, and the verdict
// on them against the exact bytes that they were written from.
#include <string>
#include <vector>

#include "allocators/caching/allocator.h"
#include "allocators/caching/async_allocator.h"
#include "base/random.h"
#include "harness/tools/why/message/remedies.h"
#include "harness/tools/why/message/verdict.h"
#include "tests/catch.h"
#include "tests/harness/why/message/find_messages.h"

using namespace allocmark;
using namespace allocmark::message;
using enum Quantity;

namespace {

// A magnitude first, then a value of it: small and large sizes alike.
std::uint64_t any_size(Random& random, std::uint64_t max) {
  const std::uint64_t shift = random.below(40);
  const std::uint64_t size_bytes = random.below((std::uint64_t{1} << (shift + 1)));
  return size_bytes % (max + 1);
}

caching::OutOfMemory any_failure(Random& random) {
  caching::OutOfMemory failure;
  const std::uint64_t total = (std::uint64_t{1} << 30) + any_size(random, std::uint64_t{300} << 30);
  const std::uint64_t reserved = any_size(random, total);
  failure.device = {.free_bytes = any_size(random, total - reserved), .total_bytes = total};
  failure.reserved_bytes = reserved;
  failure.allocated_bytes = reserved - any_size(random, reserved);
  failure.segment_bytes = 512 + any_size(random, total);
  failure.requested_bytes = failure.segment_bytes;
  if (random.below(4) == 0) failure.limit_bytes = reserved + any_size(random, total - reserved);
  const std::span<const caching::Rules> all = caching::all_rules();
  failure.rules = &all[random.below(all.size())];
  failure.expandable_segments = random.below(2) == 0;
  return failure;
}

void check_figure(const std::optional<Figure>& figure, std::uint64_t bytes) {
  REQUIRE(figure.has_value());
  CHECK(figure->low_bytes <= static_cast<std::int64_t>(bytes));
  CHECK(figure->high_bytes >= static_cast<std::int64_t>(bytes));
}

}  // namespace

TEST_CASE("every figure of every release's message is read, whatever its size") {
  Random random(11);
  for (int round = 0; round < 3000; ++round) {
    const caching::OutOfMemory failure = any_failure(random);
    const std::string text = out_of_memory_message(failure);
    INFO(text);
    const FoundMessages found = find_messages(text);
    REQUIRE(found.messages.size() == 1);
    const Message& message = found.messages[0];
    check_figure(message.of(Asked), failure.segment_bytes);
    check_figure(message.of(Total), failure.device.total_bytes);
    check_figure(message.of(Free), failure.device.free_bytes);
    check_figure(message.of(Allocated), failure.allocated_bytes);
    check_figure(message.of(Unallocated), failure.reserved_bytes - failure.allocated_bytes);
    if (failure.limit_bytes) check_figure(message.of(Allowed), *failure.limit_bytes);
    CHECK(message.of(Allowed).has_value() == failure.limit_bytes.has_value());
  }
}

TEST_CASE("no verdict is refuted by the bytes that the figures were rounded from") {
  Random random(12);
  std::vector<int> seen(11);
  for (int round = 0; round < 6000; ++round) {
    const caching::OutOfMemory failure = any_failure(random);
    const std::string text = out_of_memory_message(failure);
    const FoundMessages found = find_messages(text);
    REQUIRE(found.messages.size() == 1);
    const Verdict verdict = judge(found.messages[0]);
    INFO(text << "\n" << verdict.answer);
    ++seen[static_cast<std::size_t>(verdict.cause)];
    const std::uint64_t free = failure.device.free_bytes;
    const std::uint64_t both = free + failure.reserved_bytes - failure.allocated_bytes;
    const bool fits_free = free >= failure.segment_bytes;
    const bool fits_both = both >= failure.segment_bytes;
    // Below the process's own limit: what is left of it, and the cache.
    const std::uint64_t limit = failure.limit_bytes.value_or(~std::uint64_t{0});
    const std::uint64_t left = limit > failure.reserved_bytes ? limit - failure.reserved_bytes : 0;
    const std::uint64_t cached = failure.reserved_bytes - failure.allocated_bytes;
    const bool fits_limit = left >= failure.segment_bytes || left + cached >= failure.segment_bytes;
    // What the arithmetic excludes is never advised.
    if (!fits_both || fits_free || !fits_limit)
      CHECK(remedy_for(found.messages[0], verdict).setting.empty());
    switch (verdict.cause) {
      case Cause::TooBig:
        CHECK_FALSE(fits_both);
        break;
      case Cause::FragmentationPossible:
        CHECK(fits_both);
        CHECK_FALSE(fits_free);
        break;
      case Cause::OutsideLimit:
        CHECK(fits_free);
        break;
      case Cause::ProcessLimit:
        CHECK((fits_free || (fits_both && !fits_limit)));
        CHECK(failure.limit_bytes.has_value());
        break;
      case Cause::Borderline:
        CHECK(verdict.help == Help::Unknown);
        break;
      case Cause::Contradiction:
      case Cause::Spilled:
      case Cause::MissingFigures:
      case Cause::HostMemory:
      case Cause::PinnedMemory:
      case Cause::State:
        FAIL("these figures are those of a real allocator");
        break;
      case Cause::AddressSpace:
        break;
    }
  }
  for (const Cause cause :
       {Cause::TooBig, Cause::FragmentationPossible, Cause::OutsideLimit, Cause::ProcessLimit}) {
    INFO(to_string(cause));
    CHECK(seen[static_cast<std::size_t>(cause)] > 50);
  }
}

TEST_CASE("the driver pool's message is read in every release that writes it whole") {
  Random random(13);
  for (const caching::Rules& rules : caching::all_rules()) {
    caching::AsyncOutOfMemory failure{.requested_bytes = 7 << 20, .allocated_bytes = 900 << 20};
    failure.device = {.free_bytes = 3 << 20, .total_bytes = std::uint64_t{1} << 30};
    failure.rules = &rules;
    const FoundMessages found =
        find_messages("torch.OutOfMemoryError: " + out_of_memory_message(failure));
    INFO(rules.name());
    REQUIRE(found.messages.size() == 1);
    const Message& message = found.messages[0];
    if (rules.cuts_pool_text) {
      CHECK(message.form->family == Family::PyTorchPool);
      continue;
    }
    check_figure(message.of(Asked), 7 << 20);
    check_figure(message.of(Allocated), 900 << 20);
    CHECK_FALSE(message.of(Allowed).has_value());
  }
}

TEST_CASE("a magnitude that is changed changes the verdict as the sum does") {
  // The same message with one unit after another in each place.
  const std::vector<std::string> units = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  for (std::size_t asked = 0; asked < units.size(); ++asked) {
    for (std::size_t free = 0; free < units.size(); ++free) {
      for (std::size_t rest = 0; rest < units.size(); ++rest) {
        const std::string text = "CUDA out of memory. Tried to allocate 7 " + units[asked] +
                                 ". GPU 0 has a total capacity of 900 TiB of which 3 " +
                                 units[free] + " is free. Of the allocated memory 1 GiB is " +
                                 "allocated by PyTorch, and 2 " + units[rest] +
                                 " is reserved by PyTorch but unallocated.";
        INFO(text);
        const Verdict verdict = judge(find_messages(text).messages.at(0));
        const Cause expected = free > asked   ? Cause::OutsideLimit
                               : rest > asked ? Cause::FragmentationPossible
                                              : Cause::TooBig;
        CHECK(verdict.cause == expected);
      }
    }
  }
}

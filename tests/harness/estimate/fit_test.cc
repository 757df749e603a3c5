// Whether a card holds a job: what is outside of the allocator may be anything between two bounds,
// and between live and reserved only a replay tells.
#include <cstdint>
#include <vector>

#include "harness/shell/question/outside_memory.h"
#include "harness/tools/estimate/estimate_print.h"
#include "tests/catch.h"

using namespace allocmark;

namespace {

const OutsideMemory kOutside = {
    .context_bytes = 5, .modules_bytes = 3, .low_bytes = 6, .high_bytes = 10};
const JobEstimate kJob = {.live_bytes = 100};

CardFit fit_on(std::uint64_t card_bytes, const std::vector<RoomFacts>& rooms = {}) {
  return fit_of(kJob, {.reserved_bytes = 120, .rooms = rooms}, kOutside, card_bytes);
}

}  // namespace

TEST_CASE("a card that holds what is reserved and the most that is outside fits") {
  CHECK(fit_on(130) == CardFit::WithRoom);
  CHECK(fit_on(129) == CardFit::Unsure);  // if outside is less
  CHECK(fit_on(126) == CardFit::Unsure);
  CHECK(fit_on(125) == CardFit::No);
}

TEST_CASE("below what is reserved, a replay in that room decides") {
  const std::vector<RoomFacts> served = {{.room_bytes = 105, .oom_count = 0}};
  const std::vector<RoomFacts> failed = {{.room_bytes = 105, .oom_count = 2}};
  CHECK(fit_on(115, served) == CardFit::AfterFlush);  // 10 are outside
  CHECK(fit_on(111, served) == CardFit::Unsure);      // 6 are
  CHECK(fit_on(115, failed) == CardFit::No);
  CHECK(fit_on(115) == CardFit::No);
}

TEST_CASE("no setting serves in less than what is live, and none that cannot run") {
  CHECK(fit_on(105, {{.room_bytes = 95, .oom_count = 0}, {.room_bytes = 99, .oom_count = 0}}) ==
        CardFit::No);
  CHECK(fit_of(kJob, {.reserved_bytes = 120, .failure = "no address space"}, kOutside, 1000) ==
        CardFit::No);
}

TEST_CASE("the rooms to try are those of both bounds of each card, each once") {
  const std::uint64_t gib = std::uint64_t{1} << 30;
  const std::vector<CardRoom> cards = {{"sim:rtx-4090", "A", 24 * gib, 0},
                                       {"sim:rtx-3090", "B", 24 * gib, 0}};
  const OutsideMemory outside = outside_memory("sim:rtx-4090", {});
  CHECK(rooms_of(cards, {}) ==
        std::vector<std::uint64_t>{24 * gib - outside.high_bytes, 24 * gib - outside.low_bytes});
}

TEST_CASE("an H100's outside is measured, another card's is an H100's in a wider range") {
  const OutsideMemory h100 = outside_memory("sim:h100", {});
  CHECK(h100.total_bytes() == (std::uint64_t{767} << 20));
  CHECK(h100.low_bytes < h100.total_bytes());
  CHECK(h100.total_bytes() < h100.high_bytes);
  const OutsideMemory other = outside_memory("sim:rtx-4090", {});
  CHECK(other.total_bytes() == h100.total_bytes());
  CHECK(other.low_bytes < h100.low_bytes);
  CHECK(other.high_bytes > h100.high_bytes);
  CHECK(outside_memory("sim:h100", {.convolutions = true}).total_bytes() ==
        (std::uint64_t{771} << 20));
  const OutsideMemory two = outside_memory("sim:h100", {.process_count = 2});
  CHECK(two.total_bytes() == 2 * h100.total_bytes());
  CHECK(two.high_bytes == 2 * h100.high_bytes);
}

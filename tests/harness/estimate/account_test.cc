// What is live by kind and by phase, over events written by hand, so that every number can be added
// up here.
#include "harness/tools/estimate/account.h"

#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"

using namespace allocmark;

namespace {

Event alloc(std::uint64_t id, std::uint64_t size_bytes, TensorKind tensor) {
  return {.id = id, .size_bytes = size_bytes, .kind = EventKind::Alloc, .tensor = tensor};
}
Event free(std::uint64_t id) { return {.id = id, .kind = EventKind::Free}; }

std::uint64_t bytes_of(const PhasePeak& phase, MemoryUse use) {
  return phase.by_use.at(static_cast<std::size_t>(use));
}

}  // namespace

TEST_CASE(
    "the peak of each phase is counted by kind, what lives on from the phase before included") {
  MemoryAccount account({});
  account.add(alloc(1, 100, TensorKind::Parameter));
  account.enter(1);
  account.add(alloc(2, 30, TensorKind::Activation));
  account.add(alloc(3, 5, TensorKind::Workspace));
  account.add(free(3));
  account.enter(2);
  account.add(alloc(4, 100, TensorKind::Gradient));  // as large as the weight
  account.add(free(2));
  account.enter(3);
  account.add(alloc(5, 200, TensorKind::OptimizerState));
  const std::vector<PhasePeak> phases =
      account.phases({"load", "forward", "backward", "optimizer"});
  REQUIRE(phases.size() == 4);
  CHECK(phases[0].live_bytes == 100);
  CHECK(phases[1].live_bytes == 135);
  CHECK(bytes_of(phases[1], MemoryUse::Workspaces) == 5);
  CHECK(phases[2].live_bytes == 230);
  CHECK(bytes_of(phases[2], MemoryUse::Activations) == 30);
  CHECK(bytes_of(phases[2], MemoryUse::Gradients) == 100);
  CHECK(phases[3].live_bytes == 400);
  CHECK(bytes_of(phases[3], MemoryUse::Optimizer) == 200);
  CHECK(bytes_of(phases[3], MemoryUse::Activations) == 0);
  CHECK(account.peak_bytes() == 400);
  CHECK(account.peak_phase() == 3);
}

TEST_CASE("a gradient that is as large as no live weight is one of activations") {
  MemoryAccount account({});
  account.add(alloc(1, 64, TensorKind::Parameter));
  account.add(alloc(2, 48, TensorKind::Gradient));
  account.add(free(1));
  account.add(alloc(3, 64, TensorKind::Gradient));  // the weight is gone
  const PhasePeak load = account.phases({"load"}).front();
  CHECK(load.live_bytes == 112);
  CHECK(bytes_of(load, MemoryUse::Gradients) == 0);
  CHECK(bytes_of(load, MemoryUse::Activations) == 48);
  // But in the optimizer's step, where copies of many are joined.
  account.enter(1, true);
  account.add(alloc(4, 96, TensorKind::Gradient));
  CHECK(bytes_of(account.phases({"load", "optimizer"}).back(), MemoryUse::Gradients) == 96);
}

TEST_CASE("logits are found by their size") {
  MemoryAccount account({4000});
  account.add(alloc(1, 4000, TensorKind::Activation));
  account.add(alloc(2, 4000, TensorKind::Gradient));
  account.add(alloc(3, 4001, TensorKind::Activation));
  const PhasePeak load = account.phases({"load"}).front();
  CHECK(bytes_of(load, MemoryUse::Logits) == 8000);
  CHECK(bytes_of(load, MemoryUse::Activations) == 4001);
  CHECK(load.live_bytes == 12'001);
}

TEST_CASE(
    "the sizes of logits are those of all tokens, with and without the last, in two and four "
    "bytes") {
  const LogitsSizes sizes = logits_sizes_of("train:gpt2-124m,batch=2,seq=8");
  CHECK(sizes ==
        LogitsSizes{2 * 8 * 50257 * 2, 2 * 8 * 50257 * 4, 2 * 7 * 50257 * 2, 2 * 7 * 50257 * 4});
  CHECK(logits_sizes_of("train:vit-base").empty());
  CHECK(logits_sizes_of("infer:gpt2-124m").empty());
}

TEST_CASE("marks open phases by their label without its number") {
  PhaseNames phases(true);
  CHECK(phases.after("begin", 0) == 0);
  CHECK(phases.after("step0", 0) == 0);  // the forward's mark follows
  CHECK(phases.after("forward", 0) == 1);
  CHECK(phases.after("backward", 1) == 2);
  CHECK(phases.after("step1", 2) == 2);
  CHECK(phases.after("forward", 2) == 1);
  CHECK(phases.after("end", 1) == 1);
  // News of a server's requests, and meetings of ranks, are no phases.
  CHECK(phases.after("first_token", 1) == 1);
  CHECK(phases.after("collective:tensor0", 2) == 2);
  PhaseNames steps(false);
  CHECK(steps.after("step0", 0) == 1);
  CHECK(steps.after("step17", 1) == 1);
  CHECK(steps.names() == std::vector<std::string>{"load", "step"});
}

// A denoising UNet: parameters, what the ways keep and join, and what is refused.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "tests/workloads/kind_peak.h"
#include "workloads/open_workload.h"

using namespace allocmark;

namespace {

std::int64_t count_of(const std::string& workload, std::uint64_t size_bytes, TensorKind kind) {
  const std::vector<Event> events = read_all(*open_workload(workload, 1));
  return std::count_if(events.begin(), events.end(), [&](const Event& event) {
    return event.kind == EventKind::Alloc && event.size_bytes == size_bytes && event.tensor == kind;
  });
}

}  // namespace

TEST_CASE("a UNet has as many parameters as its modules") {
  // Counted with PyTorch from scripts/record/references/diffusion.py.
  CHECK(kind_peak("unet:steps=1,batch=2", TensorKind::Parameter) == 4ull * 25'838'595);
  CHECK(kind_peak("unet:channels=64/128/256/256,attention=0/0/1/0,image=128,steps=1,batch=2",
                  TensorKind::Parameter) == 4ull * 25'304'963);
}

TEST_CASE("the way up joins what the way down kept, and copies slices of gradients") {
  const std::string one = "unet:channels=64/128,attention=0/0,blocks=1,image=16,batch=2,steps=1,";
  // Joined: 128 + 64 channels of 8 x 8 pixels, after 128 + 128; then 128 + 64 of 16 x 16.
  const auto activations = [&](std::uint64_t channels, std::uint64_t side) {
    return count_of(one + "precision=fp32", 2 * channels * side * side * 4, TensorKind::Activation);
  };
  // Each with its norm and its activation besides.
  CHECK(activations(192, 8) == 3);
  CHECK(activations(192, 16) == 3);
  CHECK(count_of(one + "optimizer=sgd", 2ull * 192 * 16 * 16 * 2, TensorKind::Activation) >= 2);
}

TEST_CASE("a UNet refuses what does not fit its resolutions") {
  CHECK_NOTHROW(open_workload("unet:channels=64/64,attention=1/1,image=2", 1));
  CHECK(mentions(refusal_of("unet:channels=64/100"), "multiples of 64"));
  CHECK(mentions(refusal_of("unet:channels=64/64/64,image=30"), "multiple of 4"));
  CHECK(mentions(refusal_of("unet:attention=1"), "each of 3 channels"));
  CHECK(mentions(refusal_of("unet:batch=1"), "2"));
  CHECK(mentions(refusal_of("unet:precision=bf16"), "bf16_autocast"));
}

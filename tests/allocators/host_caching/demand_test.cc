// Goal: what users saw PyTorch pin is what `allocmark pinned` says. Method: sizes and figures of
// public reports, each figure within 1 %; the reports are named beside it.
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/caching/config.h"
#include "allocators/caching/release.h"
#include "allocators/host_caching/demand.h"
#include "base/bytes.h"
#include "tests/catch.h"

using namespace allocmark::host_caching;
using allocmark::kGiB;
using allocmark::kKiB;
using allocmark::kMiB;
using allocmark::caching::all_rules;
using allocmark::caching::parse_strict;
using allocmark::caching::require_rules;

namespace {

std::vector<Buffers> buffers_of(const std::vector<std::string>& words) {
  std::vector<Buffers> out;
  for (const std::string& word : words) {
    INFO(word);
    const std::optional<Buffers> buffers = parse_buffers(word);
    REQUIRE(buffers.has_value());
    out.push_back(*buffers);
  }
  return out;
}

std::uint64_t pinned(const std::vector<std::string>& words, std::string_view release,
                     std::string_view conf = "") {
  const auto config = parse_strict(conf, require_rules(release, "a test"));
  REQUIRE_FALSE(config.error.has_value());
  return pinned_need(buffers_of(words), config.settings).pinned_bytes;
}

}  // namespace

TEST_CASE("published figures of pinned memory hold within 1 %") {
  struct Report {
    std::string_view name;
    std::vector<std::string> buffers;
    double asked_gib;
    double pinned_gib;
    std::string_view release;  // that the report names, else one of its time
  };
  const std::vector<Report> reports = {
      {"sgl-project/sglang 36562, at cudaHostAlloc", {"20.4GiB"}, 20.4, 32, "2.11"},
      {"LMCache 1147 (its 2.7 rounds as 2.9)", {"5GiB"}, 5, 8, "2.9"},
      {"LMCache 1147", {"4.1GiB"}, 4.1, 8, "2.9"},
      {"LMCache 1147", {"4.0GiB"}, 4, 4, "2.9"},
      // Of each of 28 layers three tensors of 96, three of 36 and two of 9 MiB, which is its sum.
      {"AnimaLoraStudio 511", {"84x96MiB", "84x36MiB", "56x9MiB"}, 11.32, 16.63, "2.11"},
      {"wtdcode/vllm-backport 67", {"2.250GiB"}, 2.25, 4.008, "2.13"},
      {"wtdcode/vllm-backport 67", {"1.125GiB"}, 1.125, 2.0, "2.13"},
      {"wtdcode/vllm-backport 67", {"5x1.20GiB"}, 6.0, 10.01, "2.13"},
      {"vllm 53042, one of four ranks", {"24x2236817408B"}, 50.0, 96, "2.11"},
      {"sglang 39021, measured", {"5x1.20GiB"}, 6.0, 10.01, "2.11"},
      {"sglang 39021, its plan on a host of 60 GiB", {"34x1.2024GiB"}, 40.88, 68, "2.11"},
      {"vllm 58185, one w13_weight", {"4.5GiB"}, 4.5, 8, "2.11"},
      {"vllm 50094", {"6GiB"}, 6, 8, "2.11"},
      {"vllm 50094", {"10GiB"}, 10, 16, "2.11"},
      {"vllm 50094", {"12GiB"}, 12, 16, "2.11"},
  };
  for (const Report& report : reports) {
    INFO(report.name << " " << report.buffers.front());
    const double got_gib =
        static_cast<double>(pinned(report.buffers, report.release)) / static_cast<double>(kGiB);
    const double asked_gib =
        static_cast<double>(asked_bytes(buffers_of(report.buffers))) / static_cast<double>(kGiB);
    CHECK(std::abs(got_gib / report.pinned_gib - 1) < 0.01);
    CHECK(std::abs(asked_gib / report.asked_gib - 1) < 0.01);
  }
}

TEST_CASE("what a card was seen to pin is what the model pins") {
  // VmRSS of a process on an H200's host, PyTorch 2.11.0, 2026-11-26: 4194440 and 262148 KiB.
  CHECK(pinned({"2304MiB"}, "2.11") == 4096 * kMiB);
  CHECK(pinned({"154MiB"}, "2.11") == 256 * kMiB);
}

TEST_CASE("without rounding only what is asked is pinned, and never less") {
  const std::vector<std::string> words = {"5x1.20GiB", "2.25GiB", "3B"};
  const std::uint64_t asked = asked_bytes(buffers_of(words));
  for (const auto& rules : all_rules()) {
    INFO(rules.name());
    CHECK(pinned(words, rules.name()) == 14 * kGiB + 4);
    // Registering alone rounds all the same.
    CHECK(pinned(words, rules.name(), "pinned_use_cuda_host_register:True") == 14 * kGiB + 4);
    if (rules.minor < 13) continue;
    CHECK(pinned(words, rules.name(), "pinned_max_round_threshold_mb:1") == asked + 1);
    CHECK(pinned(words, rules.name(), "pinned_max_cached_size_mb:1") == asked + 1);
  }
  CHECK(pinned({"3x1MiB"}, "2.11", "pinned_reserve_segment_size_mb:2") == 3 * kMiB);
}

TEST_CASE("buffers are read as a size, with a count or without") {
  const auto read = [](std::string_view text) { return parse_buffers(text); };
  CHECK(read("5x1MiB")->count == 5);
  CHECK(read("5x1MiB")->size_bytes == kMiB);
  CHECK(read("2kB")->count == 1);
  CHECK(read("2kB")->size_bytes == 2000);
  for (const std::string_view bad : {"", "x", "5x", "x5GiB", "0x1GiB", "5", "-1x1GiB", "1.5x1GiB",
                                     "0B", "1000001x1B", "1000000x9000GiB", "5xx1GiB"}) {
    INFO(bad);
    CHECK_FALSE(read(bad).has_value());
  }
}

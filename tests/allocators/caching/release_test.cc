// Goal: where PyTorch's releases differ, `caching` follows the one that was asked for. Method: each
// rule alone, on a device that gives addresses in an order of the test's choice; what PyTorch
// itself does was seen with its own libraries (allocmark parity --live random --pytorch V).
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocators/caching/allocator.h"
#include "allocators/caching/async_allocator.h"
#include "allocators/caching/config.h"
#include "allocators/caching/explain.h"
#include "allocators/caching/release.h"
#include "base/bytes.h"
#include "base/error.h"
#include "tests/allocators/caching/fake_device.h"
#include "tests/catch.h"

using namespace allocmark::caching;
using allocmark::kGiB;
using allocmark::kMiB;

namespace {

const Rules& of(std::string_view release) { return require_rules(release, "a test"); }

Settings settings_of(std::string_view conf, std::string_view release) {
  const StrictConfig config = parse_strict(conf, of(release));
  INFO(release << " " << conf << ": " << (config.error ? to_string(*config.error) : ""));
  REQUIRE_FALSE(config.error.has_value());
  return config.settings;
}

struct ReleaseSetup {
  explicit ReleaseSetup(std::string_view release, std::string_view conf = "",
                        std::uint64_t capacity_bytes = 640 * kMiB)
      : device(640 * kMiB, capacity_bytes), allocator(device, settings_of(conf, release)) {}

  std::uint64_t take(std::uint64_t size_bytes) {
    const auto address = allocator.allocate(size_bytes, 0);
    REQUIRE(address.has_value());
    return *address;
  }
  void give(std::uint64_t address) { REQUIRE(allocator.deallocate(address)); }

  FakeDevice device;
  CachingAllocator allocator;
};

}  // namespace

TEST_CASE(
    "of two free blocks of a size, releases take that of the lower address or the older one") {
  for (const Rules& rules : all_rules()) {
    ReleaseSetup setup(rules.name());
    const std::uint64_t passing = setup.take(16 * kMiB);
    const std::uint64_t older = setup.take(16 * kMiB);
    setup.give(passing);
    setup.allocator.empty_cache();
    const std::uint64_t younger = setup.take(16 * kMiB);
    REQUIRE(younger < older);
    setup.give(younger);
    setup.give(older);
    INFO(rules.name());
    CHECK(setup.take(16 * kMiB) == (rules.tie_break == TieBreak::Address ? younger : older));
  }
}

TEST_CASE("in one segment only 2.12 looks at the age of the blocks") {
  for (const Rules& rules : all_rules()) {
    ReleaseSetup setup(rules.name());
    const std::uint64_t first = setup.take(5 * kMiB);
    setup.take(5 * kMiB / 2);
    const std::uint64_t older = setup.take(5 * kMiB / 2);
    setup.take(9 * kMiB);
    setup.give(first);
    // Cut off `first` now, so younger than `older`, which lies behind it.
    const std::uint64_t younger = setup.take(5 * kMiB / 2);
    setup.take(5 * kMiB / 2);
    REQUIRE(younger == first);
    REQUIRE(younger < older);
    setup.give(younger);
    setup.give(older);
    INFO(rules.name());
    CHECK(setup.take(5 * kMiB / 2) == (rules.minor == 12 ? older : younger));
  }
}

TEST_CASE("a key is refused by every release before its own, and says which that is") {
  CHECK_FALSE(parse_strict("throw_on_cudamalloc_oom:True", of("2.12")).error.has_value());
  const StrictConfig config = parse_strict("throw_on_cudamalloc_oom:True", of("2.11"));
  REQUIRE(config.error.has_value());
  CHECK(config.error->got == "a key since 2.12; you asked for 2.11");
  for (const Rules& rules : all_rules()) {
    for (const ConfigKey& key : config_keys()) {
      const std::string conf = std::string(key.name) + ":?";
      const bool newer = parse_strict(conf, rules).error->what ==
                         "a config key is newer than the release of PyTorch";
      const std::string pytorch = parse_pytorch(conf, rules).error;
      INFO(rules.name() << " " << conf << " " << pytorch);
      CHECK(newer == (key.since_minor > rules.minor));
      CHECK((pytorch.find("Unrecognized") != std::string::npos) == newer);
    }
  }
}

TEST_CASE("2.9 reads config strings in its own way") {
  const auto error = [](std::string_view conf) { return parse_pytorch(conf, of("2.9")).error; };
  CHECK(error("max_split_size_mb:20") ==
        "CachingAllocator option max_split_size_mb too small, must be > 20");
  CHECK(error("max_split_size_mb,30") == "Error parsing CachingAllocator settings, expected :");
  CHECK(error("nothing:1") == "Unrecognized CachingAllocator option: nothing");
  CHECK(error("garbage_collection_threshold:1") ==
        "garbage_collect_threshold too big, set it 0.0~1.0");
  CHECK(error("expandable_segments:true") ==
        "Expected a single True/False argument for expandable_segments");
  CHECK(parse_pytorch("max_split_size_mb:21", of("2.9")).settings.max_split_size_bytes ==
        21 * kMiB);
  constexpr std::string_view kIntervals = "roundup_power2_divisions:[1:2,4:8,>:16]";
  CHECK(parse_pytorch(kIntervals, of("2.9")).settings.roundup_power2_divisions[2] == 16);
  CHECK(settings_of(kIntervals, "2.9").roundup_power2_divisions[2] == 16);
  CHECK(settings_of(kIntervals, "2.10").roundup_power2_divisions[2] == 8);
  CHECK(parse_strict("max_split_size_mb:20", of("2.9")).error.has_value());
  CHECK_FALSE(parse_strict("max_split_size_mb:20", of("2.10")).error.has_value());
  for (const std::string_view large :
       {"max_split_size_mb:2147483648", "roundup_power2_divisions:4294967296",
        "roundup_power2_divisions:[1:4294967296]"}) {
    INFO(large);
    CHECK(error(large) == "stoi");
    REQUIRE(parse_strict(large, of("2.9")).error.has_value());
    CHECK(to_string(*parse_strict(large, of("2.9")).error).find("at most 2147483647") !=
          std::string::npos);
    CHECK_FALSE(parse_strict(large, of("2.10")).error.has_value());
  }
  CHECK_FALSE(parse_strict("max_split_size_mb:2147483647", of("2.9")).error.has_value());
}

TEST_CASE("a change of settings resets the non-split slack since 2.11 only") {
  for (const Rules& rules : all_rules()) {
    Settings settings =
        settings_of("max_split_size_mb:64,max_non_split_rounding_mb:40", rules.name());
    CHECK(change_like_pytorch(settings, "max_split_size_mb:64").empty());
    INFO(rules.name());
    CHECK(settings.max_non_split_rounding_bytes == (rules.minor < 11 ? 40 : 20) * kMiB);
  }
}

TEST_CASE("out-of-memory texts give the advice of their release") {
  const auto text = [](std::string_view release, std::string_view conf) {
    ReleaseSetup setup(release, conf, 100 * kMiB);
    REQUIRE_FALSE(setup.allocator.allocate(200 * kMiB, 0).has_value());
    return out_of_memory_message(*setup.allocator.last_failure());
  };
  constexpr std::string_view kOn = "expandable_segments:True";
  const auto has = [&](std::string_view release, std::string_view conf, std::string_view part) {
    const std::string all = text(release, conf);
    INFO(release << " " << conf << ": " << all);
    CHECK(all.find(part) != std::string::npos);
  };
  has("2.9", "", "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid");
  has("2.9", "", "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)");
  has("2.10", "", "try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid");
  has("2.13", kOn, "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid");
  CHECK(text("2.14", kOn).ends_with("is reserved by PyTorch but unallocated."));
  has("2.15", kOn, "over-reserving VA");
  has("2.15", "", "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid");
}

TEST_CASE("a limit that is taken away leaves the whole device as one in 2.9 only") {
  for (const Rules& rules : all_rules()) {
    ReleaseSetup setup(rules.name(), "", 100 * kMiB);
    setup.allocator.change_limit(50 * kMiB);
    setup.allocator.change_limit(std::nullopt);
    REQUIRE_FALSE(setup.allocator.allocate(200 * kMiB, 0).has_value());
    const std::string text = out_of_memory_message(*setup.allocator.last_failure());
    INFO(rules.name() << ": " << text);
    CHECK((text.find(" 640.00 MiB allowed; ") != std::string::npos) == (rules.minor == 9));
  }
}

TEST_CASE("the driver's pool names no device in the texts of 2.9, which end there") {
  for (const Rules& rules : all_rules()) {
    FakeDevice device(640 * kMiB, 100 * kMiB);
    AsyncAllocator allocator(device, 50 * kMiB, rules);
    REQUIRE_FALSE(allocator.allocate(60 * kMiB, 0).has_value());
    const std::string text = out_of_memory_message(*allocator.last_failure());
    INFO(rules.name() << ": " << text);
    if (rules.minor == 9) {
      CHECK(text == "Allocation on device ");
    } else {
      CHECK(text.starts_with("Allocation on device 0 would exceed allowed memory."));
    }
  }
}

TEST_CASE("since 2.14 the driver's pool waits for the request's stream alone, and tries again") {
  constexpr Stream kStream = 7;
  for (const Rules& rules : all_rules()) {
    FakeDevice device(640 * kMiB, 100 * kMiB);
    AsyncAllocator allocator(device, 0, rules);
    REQUIRE_FALSE(allocator.allocate(200 * kMiB, kStream).has_value());
    INFO(rules.name());
    CHECK(device.stream_waits == std::vector<Stream>(rules.minor < 14 ? 0 : 1, kStream));
    CHECK(device.device_wait_count == 0);
  }
}

TEST_CASE("a request above the reserve of an expandable segment fails, and the text says so") {
  ReleaseSetup setup("2.15", "expandable_segments:True,expandable_segments_reserve:0.1");
  setup.take(60 * kMiB);
  REQUIRE_FALSE(setup.allocator.allocate(100 * kMiB, 0).has_value());
  const std::string text = out_of_memory_message(*setup.allocator.last_failure());
  INFO(text);
  CHECK(text.find("exceeds the expandable-segment reserve of 64.00 MiB") != std::string::npos);
  CHECK(text.find("a segment is at least 100.00 MiB") != std::string::npos);
  // What no device of this size could hold is not the reserve's fault.
  REQUIRE_FALSE(setup.allocator.allocate(kGiB, 0).has_value());
  CHECK(out_of_memory_message(*setup.allocator.last_failure()).find("over-reserving VA") !=
        std::string::npos);
}

TEST_CASE(
    "throw_on_cudamalloc_oom rejects at once what is above a fraction set later, else nothing") {
  ReleaseSetup setup("2.12");
  Settings settings = setup.allocator.settings();
  REQUIRE(change_like_pytorch(settings,
                              "per_process_memory_fraction:0.25,"
                              "throw_on_cudamalloc_oom:True")
              .empty());
  setup.allocator.change_settings(settings);
  const std::uint64_t block = setup.take(100 * kMiB);
  setup.give(block);
  REQUIRE_FALSE(setup.allocator.allocate(120 * kMiB, 0).has_value());
  CHECK(setup.allocator.counters().num_oom_rejections == 1);
  CHECK(setup.allocator.counters().num_ooms == 0);
  CHECK(setup.allocator.counters().num_alloc_retries == 0);
  CHECK(out_of_memory_message(*setup.allocator.last_failure()).find("preemptively rejected") !=
        std::string::npos);

  // From the start the limit answers first, and gives the cache back.
  ReleaseSetup limited("2.12", "per_process_memory_fraction:0.25,throw_on_cudamalloc_oom:True");
  limited.give(limited.take(100 * kMiB));
  CHECK(limited.allocator.allocate(120 * kMiB, 0).has_value());
  CHECK(limited.allocator.counters().num_oom_rejections == 0);
  CHECK(limited.allocator.counters().num_alloc_retries == 1);
}

TEST_CASE("explain says since when a key is there, and what a release refuses") {
  const auto has = [](const std::string& text, std::string_view part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(explain_keys(of("2.11")),
      "keys of later releases, which it refuses\n  throw_on_cudamalloc_oom: since 2.12");
  has(explain_keys(of("2.13")), "pinned_max_cached_size_mb");
  has(explain_conf("large_segment_size_mb:32", of("2.13")),
      "other releases of PyTorch\n  large_segment_size_mb: since 2.11");
  has(explain_conf("large_segment_size_mb:32", of("2.10")), "a key since 2.11; you asked for 2.10");
  has(explain_conf("", of("2.10")), "20 MiB (fixed; a key since 2.11)");
  has(explain_conf("throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5"),
      "throw_on_cudamalloc_oom does nothing with a fraction that is set from the start");
}

TEST_CASE("a release is found by its number, with or without a patch") {
  CHECK(of("2.13").minor == 13);
  CHECK(of("2.13.1").minor == 13);
  CHECK(newest_rules().minor == 15);
  for (const std::string_view wrong :
       {"", "2", "2.", "2.8", "2.16", "3.13", "2.13.", "2.13x", "x"}) {
    INFO(wrong);
    CHECK(find_rules(wrong) == nullptr);
  }
  CHECK_THROWS_AS(of("2.8"), allocmark::UsageError);
}

TEST_CASE("a release is read as pip, torch.__version__ and people write it") {
  for (const auto& [text, number] :
       std::vector<std::pair<std::string, std::string>>{{"2.11.0+cu130", "2.11.0"},
                                                        {"v2.10", "2.10"},
                                                        {"V2.10.1", "2.10.1"},
                                                        {"torch==2.12.1", "2.12.1"},
                                                        {"pytorch 2.13", "2.13"},
                                                        {"2.11.0a0+gitabcdef", "2.11.0"},
                                                        {"2.9.0a0+34c6371d24.nv25.08", "2.9.0"},
                                                        {"2.12.0rc3", "2.12.0"},
                                                        {"2.13.0.dev20260601+cu130", "2.13.0"},
                                                        {"2.13.0.dev20260601", "2.13.0"},
                                                        {"2.11.0+rocm7.0", "2.11.0"},
                                                        {"2.8", "2.9"},
                                                        {"2.7.1+cu126", "2.9"},
                                                        {"2.4.1", "2.9"},
                                                        {"2.16", "2.15"},
                                                        {"2.16.0.dev20260901", "2.15"},
                                                        {"nightly", "2.15"}}) {
    INFO(text);
    const auto read = read_release(text);
    REQUIRE(read.has_value());
    CHECK(read->number == number);
  }
  for (const std::string_view wrong :
       {"", "2", "2.", "2.13x", "1.13.1", "2.3", "3.0", "x", "2.11 or so", "cu130", "+cu130"}) {
    INFO(wrong);
    CHECK_FALSE(read_release(wrong).has_value());
  }
}

TEST_CASE("a release that is not modelled says which one answers, and what differs") {
  CHECK(read_release("2.11.0+cu130")->note.empty());
  CHECK(read_release("2.8")->note.find("2.8 refuses graph_capture_record_stream_reuse.") !=
        std::string::npos);
  CHECK(read_release("2.5.1")->note.find("max_non_split_rounding_mb") != std::string::npos);
  CHECK(read_release("2.16.0.dev20260901")->note.find("2.15, the nearest") != std::string::npos);
  CHECK(read_release("2.13.0.dev20260601")->note.find("those of 2.12") != std::string::npos);
}

// The config string of the caching allocator: PyTorch mode against what PyTorch 2.11 said to 48
// strings, strict mode against the errors a person should see.
#include "allocators/caching/config.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/caching/explain.h"
#include "tests/catch.h"

using namespace allocmark;
using namespace allocmark::caching;

namespace {

// The recorder cut blanks off the ends of messages.
std::string without_trailing_blanks(std::string text) {
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

ErrorText strict_error(std::string_view conf) {
  const StrictConfig config = parse_strict(conf);
  INFO(conf);
  REQUIRE(config.error.has_value());
  return *config.error;
}

Settings strict(std::string_view conf) {
  const StrictConfig config = parse_strict(conf);
  INFO(conf << ": " << (config.error ? to_string(*config.error) : ""));
  REQUIRE_FALSE(config.error.has_value());
  return config.settings;
}

}  // namespace

TEST_CASE("PyTorch mode accepts and rejects what PyTorch 2.11 does, with its words") {
  std::ifstream file("tests/golden/caching/config_strings.json");
  REQUIRE(file.good());
  const nlohmann::json oracle = nlohmann::json::parse(file);
  CHECK(oracle.size() == 45);
  for (const auto& [conf, expected] : oracle.items()) {
    const PytorchConfig config = parse_pytorch(conf, recorded_rules());
    INFO(conf << ": " << config.error);
    CHECK(config.accepted() == expected.at("accepted").get<bool>());
    if (config.accepted()) continue;
    CHECK(without_trailing_blanks(config.error) == without_trailing_blanks(expected.at("error")));
    CHECK(config.aborts_process == expected.at("aborts_process").get<bool>());
  }
}

TEST_CASE("PyTorch mode keeps PyTorch's tolerance for junk") {
  CHECK(parse_pytorch("max_split_size_mb:30x").settings.max_split_size_bytes == 30 * kMiB);
  CHECK(parse_pytorch("max_split_size_mb:3 0").settings.max_split_size_bytes == 30 * kMiB);
  CHECK(parse_pytorch("max_split_size_mb,30").settings.max_split_size_bytes == 30 * kMiB);
  CHECK(parse_pytorch("max_split_size_mb:-1").settings.max_split_size_bytes == 0xFFFFFFFFFFF00000u);
  CHECK(parse_pytorch("max_split_size_mb:64,large_segment_size_mb:40")
            .settings.max_non_split_rounding_bytes == 40 * kMiB);
  CHECK(parse_pytorch("max_split_size_mb:30,large_segment_size_mb:40").error ==
        "CachingAllocator option max_split_size_mb too small, must be >= 40");
}

TEST_CASE("roundup_power2_divisions fills its table as PyTorch does") {
  using Table = decltype(Settings::roundup_power2_divisions);
  Table all_eight;
  all_eight.fill(8);
  Table from_second = all_eight;
  from_second[0] = 0;
  const Table skipping = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 4, 8, 8, 8, 8, 8};
  for (const auto& read : {+[](std::string_view conf) { return parse_pytorch(conf).settings; },
                           +[](std::string_view conf) { return strict(conf); }}) {
    CHECK(read("roundup_power2_divisions:8").roundup_power2_divisions == all_eight);
    CHECK(read("roundup_power2_divisions:[>:8]").roundup_power2_divisions == from_second);
    CHECK(read("roundup_power2_divisions:[256:1,1024:4,>:8]").roundup_power2_divisions == skipping);
    CHECK(read("roundup_power2_divisions:[]").roundup_power2_divisions == Table{});
  }
}

TEST_CASE("a change at run time resets some keys, keeps others, and is not rolled back") {
  Settings settings =
      parse_pytorch("large_segment_size_mb:40,expandable_segments:True,max_split_size_mb:64")
          .settings;
  CHECK(change_like_pytorch(settings, "garbage_collection_threshold:0.5").empty());
  CHECK(settings.large_segment_size_bytes == 40 * kMiB);
  CHECK(settings.expandable_segments);
  CHECK(settings.max_split_size_bytes == kUnlimited);
  CHECK(settings.garbage_collection_threshold == 0.5);
  CHECK(change_like_pytorch(settings, "max_split_size_mb:100,nothing:1") ==
        "Unrecognized key 'nothing' in Accelerator allocator config.");
  CHECK(settings.max_split_size_bytes == 100 * kMiB);
  CHECK(settings.garbage_collection_threshold == 0);
}

TEST_CASE("strict mode takes every key at its bounds") {
  CHECK(strict("").max_split_size_bytes == kUnlimited);
  CHECK(strict("max_split_size_mb:20").max_split_size_bytes == 20 * kMiB);
  CHECK(strict("max_split_size_mb:11,large_segment_size_mb:11").max_split_size_bytes == 11 * kMiB);
  CHECK(strict("large_segment_size_mb:64").max_non_split_rounding_bytes == 64 * kMiB);
  CHECK(strict("garbage_collection_threshold:0.001").garbage_collection_threshold == 0.001);
  CHECK(strict("per_process_memory_fraction:0").per_process_memory_fraction == 0);
  CHECK(strict("per_process_memory_fraction:1").per_process_memory_fraction == 1);
  CHECK(strict("backend:cudaMallocAsync").backend == PoolBackend::CudaMallocAsync);
  CHECK(strict("release_lock_on_hipmalloc:True").release_lock_on_cudamalloc);
  CHECK(strict("pinned_num_register_threads:128").pinned_num_register_threads == 128);
}

TEST_CASE("strict mode rejects what PyTorch swallows, with key, column and what is allowed") {
  struct Case {
    const char* conf;
    const char* where;
  };
  const Case cases[] = {
      {"max_split_size_mb:30x", "config string, key max_split_size_mb, column 19"},
      {"max_split_size_mb:-1", "config string, key max_split_size_mb, column 19"},
      {"max_split_size_mb:10", "config string, key max_split_size_mb, column 19"},
      {"max_split_size_mb:99999999999999999999", "config string, key max_split_size_mb, column 19"},
      {"large_segment_size_mb:10", "config string, key large_segment_size_mb, column 23"},
      {"expandable_segments:True,large_segment_size_mb:33",
       "config string, key large_segment_size_mb, column 48"},
      {"garbage_collection_threshold:nan",
       "config string, key garbage_collection_threshold, column 30"},
      {"garbage_collection_threshold:1",
       "config string, key garbage_collection_threshold, column 30"},
      {"per_process_memory_fraction:1.5",
       "config string, key per_process_memory_fraction, column 29"},
      {"expandable_segments:true", "config string, key expandable_segments, column 21"},
      {"backend:foo", "config string, key backend, column 9"},
      {"roundup_power2_divisions:3", "config string, key roundup_power2_divisions, column 26"},
      {"roundup_power2_divisions:[256:1,100:2]",
       "config string, key roundup_power2_divisions, column 33"},
      {"roundup_power2_divisions:[256:3]",
       "config string, key roundup_power2_divisions, column 27"},
      {"roundup_power2_divisions:[256]", "config string, key roundup_power2_divisions, column 27"},
      {"roundup_power2_divisions:[256:1,256:2]",
       "config string, key roundup_power2_divisions, column 33"},
      {"roundup_power2_divisions:[65536:1]",
       "config string, key roundup_power2_divisions, column 27"},
      {"roundup_power2_divisions:[256:1,]",
       "config string, key roundup_power2_divisions, column 33"},
      {"pinned_num_register_threads:3",
       "config string, key pinned_num_register_threads, column 29"},
      {"pinned_reserve_segment_size_mb:0",
       "config string, key pinned_reserve_segment_size_mb, column 32"},
      {"backend:cudaMallocAsync,max_split_size_mb:64",
       "config string, key max_split_size_mb, column 25"},
  };
  for (const Case& item : cases) {
    const ErrorText error = strict_error(item.conf);
    INFO(item.conf);
    CHECK(error.where == item.where);
    CHECK_FALSE((error.wanted.empty() && error.next.empty()));
  }
  CHECK(strict_error("max_split_size_mb:30,large_segment_size_mb:40").next ==
        "large_segment_size_mb is 40 here");
}

TEST_CASE("explain tells effective values, and what is inert or in conflict") {
  const auto contains = [](std::string_view conf, std::string_view part) {
    const std::string text = explain_conf(conf);
    INFO(conf << "\n" << text);
    CHECK(text.find(part) != std::string::npos);
  };
  contains("", "max_split_size_mb             unlimited");
  contains("max_split_size_mb:128", "max_split_size_mb             128 MiB");
  contains("garbage_collection_threshold:0.8", "does nothing unless a memory limit is set");
  contains("garbage_collection_threshold:0.8,expandable_segments:True",
           "expandable segments are never collected");
  contains("expandable_segments:True,max_split_size_mb:128", "does not limit splitting");
  contains("max_non_split_rounding_mb:64", "does nothing without max_split_size_mb");
  contains("roundup_power2_divisions:1", "1 means off");
  contains("roundup_power2_divisions:[256:1,1024:4]", "512 MiB");
  contains("pinned_use_cuda_host_register:True", "no effect on device memory");
  contains("graph_capture_record_stream_reuse:True",
           "before the capture ends, caching when it has ended");
  contains("pinned_use_cuda_host_register:True,pinned_num_register_threads:8",
           "malloc and cudaHostRegister; pages touched by 8 threads");
  contains("pinned_max_round_threshold_mb:64", "requests of up to 64 MiB");
  contains("pinned_max_round_threshold_mb:64", "serves only requests that are not larger");
  contains("pinned_max_cached_size_mb:32", "kept when freed               blocks of up to 32 MiB");
  contains("pinned_max_cached_size_mb:32", "requests of up to 32 MiB");
  contains("pinned_reserve_segment_size_mb:512", "512 MiB, at the first request");
  contains("pinned_use_background_threads:True", "a thread, every 100 us");
  contains("backend:cudaMallocAsync", "stream-ordered pool");
  contains("backend:cudaMallocAsync,max_split_size_mb:64", "PyTorch 2.15 accepts this string");
  contains("max_split_size_mb:128;garbage_interval:5", "PyTorch 2.15 aborts when it is imported");
  contains("garbage_collection_threshold:0.9,per_process_memory_fraction:0.5", "50% of the device");
}

TEST_CASE("explain names the requests below the limit whose segment is not") {
  const auto lines = [](std::string_view conf, std::string_view release) {
    std::string text;
    for (const std::string& one : conf_effects(conf, require_rules(release, "test")))
      text += one + "\n";
    return text;
  };
  const auto has = [](const std::string& text, std::string_view part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  for (const std::string_view release : {"2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15"}) {
    has(lines("max_split_size_mb:25", release),
        "above 24 MiB and below 25 MiB gets a segment of 26 MiB");
  }
  has(lines("max_split_size_mb:128", "2.15"),
      "above 126 MiB and below 128 MiB gets a segment of 128 MiB");
  has(lines("max_split_size_mb:20", "2.15"),
      "above 1 MiB and below 10 MiB gets a segment of 20 MiB");
  has(lines("max_split_size_mb:64,large_segment_size_mb:64", "2.11"),
      "above 1 MiB and below 10 MiB gets a segment of 64 MiB");
  CHECK(lines("max_split_size_mb:64,large_segment_size_mb:32", "2.11").find("above 1 MiB") ==
        std::string::npos);
  has(lines("max_split_size_mb:25,roundup_power2_divisions:4", "2.15"), "roundup_power2_divisions");
  CHECK(lines("", "2.15").empty());
  CHECK(lines("max_split_size_mb:25,expandable_segments:True", "2.15").empty());
  has(explain_conf("max_split_size_mb:25"),
      "which requests make the cache grow\n  a request above");
}

TEST_CASE("explain says what each pinned key does, since when, and which do nothing") {
  const auto lines = [](std::string_view conf, std::string_view release) {
    return explain_conf(conf, require_rules(release, "test"));
  };
  const auto has = [](const std::string& text, std::string_view part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  const std::string keys = explain_keys(require_rules("2.10", "test"));
  has(keys, "pinned_reserve_segment_size_mb: an integer above 0\n    pinned at the first request");
  has(keys, "pinned_free_catch_all: since 2.12\n");
  has(keys, "pinned_max_cached_size_mb: since 2.13\n");
  has(lines("pinned_num_register_threads:8", "2.11"), "threads does nothing without pinned_use");
  CHECK(lines("pinned_num_register_threads:8,pinned_use_cuda_host_register:True", "2.11")
            .find("does nothing without") == std::string::npos);
  // A segment that one call does not register.
  constexpr std::string_view kRefused = "does not pin 512 GiB or more";
  const auto registered = [&](std::string_view megabytes) {
    return lines("pinned_use_cuda_host_register:True,pinned_reserve_segment_size_mb:" +
                     std::string(megabytes),
                 "2.15");
  };
  has(registered("524288"), kRefused);
  CHECK(registered("524287").find(kRefused) == std::string::npos);
  CHECK(lines("pinned_reserve_segment_size_mb:524288", "2.15").find(kRefused) == std::string::npos);
  constexpr std::string_view kNoPower = "is no power of two: requests above 64 and up to 100 MiB";
  has(lines("pinned_max_cached_size_mb:100", "2.14"), kNoPower);
  for (const std::string_view conf :
       {"pinned_max_cached_size_mb:128", "pinned_max_cached_size_mb:0",
        "pinned_max_cached_size_mb:100,"
        "pinned_max_round_threshold_mb:64"}) {
    INFO(conf);
    CHECK(lines(conf, "2.14").find("is no power of two") == std::string::npos);
  }
}

TEST_CASE("a config string that overruns pinned memory is dangerous in the releases that do so") {
  const auto dangers = [](std::string_view conf, std::string_view release) {
    return conf_dangers(conf, require_rules(release, "test"));
  };
  constexpr std::string_view kPair =
      "pinned_max_round_threshold_mb:128,pinned_max_cached_size_mb:1024";
  for (const std::string_view release : {"2.13", "2.13.0"}) {
    INFO(release);
    REQUIRE(dangers(kPair, release).size() == 1);
    const std::string text = dangers(kPair, release).front();
    INFO(text);
    CHECK(text.find("PyTorch 2.13 ") == 0);
    CHECK(text.find("PR 192722") != std::string::npos);
    CHECK(text.find("pinned_max_cached_size_mb:128") != std::string::npos);
    CHECK(explain_conf(kPair, require_rules(release, "test")).find("danger\n") !=
          std::string::npos);
    // What is not named is unlimited.
    CHECK(dangers("pinned_max_round_threshold_mb:128", release).size() == 1);
    CHECK(dangers("pinned_max_cached_size_mb:64", release).empty());
    CHECK(dangers("pinned_max_round_threshold_mb:128,pinned_max_cached_size_mb:128", release)
              .empty());
    CHECK(dangers("", release).empty());
  }
  // A release that does no harm says which ones do.
  const std::string newest = explain_conf(kPair, require_rules("2.15", "test"));
  INFO(newest);
  CHECK(newest.find("danger in 2.13: this string overruns pinned") != std::string::npos);
  CHECK(explain_conf("max_split_size_mb:64", require_rules("2.15", "test")).find("danger") ==
        std::string::npos);
  CHECK(dangers(kPair, "2.15").empty());
  CHECK(dangers(kPair, "2.14").empty());
  CHECK(dangers(kPair, "2.12").empty());  // knows neither key
}

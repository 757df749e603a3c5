// What values that PyTorch refuses, or takes for something else, were meant to be.
#include "allocators/caching/meant_value.h"

#include <string>
#include <string_view>

#include "tests/catch.h"

using allocmark::caching::meant_value;

namespace {

bool says(std::string_view key, std::string_view value, std::string_view part) {
  const std::string text = meant_value(key, value);
  INFO(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE("a size with a unit is the number of MiB") {
  for (const char* value : {"128MB", "128mb", "128MiB", "128 MB", "128M"}) {
    INFO(value);
    CHECK(says("max_split_size_mb", value, "max_split_size_mb:128?"));
  }
  CHECK(says("large_segment_size_mb", "0.5GiB", "large_segment_size_mb:512?"));
  CHECK(says("max_non_split_rounding_mb", "1g", ":1024?"));
  for (const char* value : {"128", "12", "many", "1.5MB", "-5MB", ""}) {
    INFO(value);
    CHECK(meant_value("max_split_size_mb", value).empty());
  }
}

TEST_CASE("shares, booleans, backends and divisions have their own words") {
  CHECK(says("garbage_collection_threshold", "80%", "garbage_collection_threshold:0.8?"));
  CHECK(says("per_process_memory_fraction", "90", "per_process_memory_fraction:0.9?"));
  CHECK(meant_value("garbage_collection_threshold", "1.5").empty());
  CHECK(
      says("expandable_segments", "true", "case-sensitive: did you mean expandable_segments:True"));
  CHECK(says("expandable_segments", "0", "expandable_segments:False?"));
  CHECK(says("pinned_use_background_threads", "maybe", "case-sensitive"));
  CHECK(says("backend", "async", "backend:cudaMallocAsync?"));
  CHECK(says("backend", "default", "backend:native?"));
  CHECK(says("roundup_power2_divisions", "3", ":2 or roundup_power2_divisions:4?"));
}

}  // namespace

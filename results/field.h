// One row of the field table: what a stored value is called and what it means. Rows stand in
// results/fields.h; results/schema.json and the tables of results/DEFINITIONS.md are made from
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace allocmark {

struct Field {
  std::string name;               // as stored; units and qualifiers last, so the name says the unit
  std::string_view meaning = {};  // Markdown: what it is, its range, when it is null
  std::uint32_t since_minor = 0;  // the MINOR of the schema that added it; older lines lack it
  std::string row = {};           // the table's row that several fields share: "{a,b}_count"
  std::string_view choices = {};  // of a text: all it can be, "skip,stop"; empty: anything
  bool is_signed = false;         // of a real: it may be below 0

  // Walkers that need the name alone take a text.
  operator const std::string&() const { return name; }  // NOLINT(google-explicit-constructor)
};

// Seven fields of one latency: its samples, and quantiles, largest value and mean.
struct LatencyFields {
  std::string name;  // "allocate_host_latency"
  std::string row;   // "{allocate,deallocate}_{,host_,driver_}latency"
  std::string_view count_meaning, meaning;
};

}  // namespace allocmark

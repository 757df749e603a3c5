// Which allocators of a plan run with which config strings. Texts of the command line flow in;
// pairs that fit flow out, with what was left out, and a UsageError for what fits nowhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace allocmark {

// What the plan needs to know about an allocator: its part of the registry entry, without CUDA
// types.
struct PlanAllocator {
  std::string name;
  std::vector<std::string> conf_keys;
  std::vector<std::string> argument_keys = {};  // as in the registry
  std::function<std::optional<ErrorText>(std::string_view)> check_conf;
  // What else stands against it on a simulated device; may be null.
  std::function<std::optional<ErrorText>(std::string_view)> check_simulated = nullptr;
};

// "NAME=CONF" in its two parts. Config strings hold no '=' before their first key, so all else is a
// config string for any allocator, whose name is then empty.
struct ScopedText {
  std::string_view allocator, conf;
};
[[nodiscard]] ScopedText split_scope(std::string_view text);

// A config string with the allocators it may go to.
struct ScopedConf {
  std::string allocator;  // empty = any that accepts it
  std::string conf;       // empty = unset
  std::string text;       // as given
};

// An allocator that was asked for; `conf` where it came with a config string of its own.
struct Chosen {
  const PlanAllocator* allocator = nullptr;
  std::optional<std::string> conf;
  friend bool operator==(const Chosen&, const Chosen&) = default;
};

// "NAME=CONF" or "CONF", as of --conf.
[[nodiscard]] ScopedConf parse_scope(const std::string& text,
                                     const std::vector<PlanAllocator>& known);
// "NAME" or "NAME:VALUE,VALUE", as of --allocator.
[[nodiscard]] Chosen parse_allocator(const std::string& text,
                                     const std::vector<PlanAllocator>& known);

// The confs each chosen allocator is run with, in the order given. Every conf finds at least one.
struct Pairing {
  std::vector<std::vector<std::string>> confs;  // by index of the chosen allocator
  std::uint64_t left_out_count = 0;             // pairs
  std::vector<std::string> takers;              // "'max_split_size_mb:32' only with caching"
};

[[nodiscard]] Pairing pair_confs(const std::vector<Chosen>& chosen,
                                 const std::vector<ScopedConf>& confs);
// An allocator that is nothing without a config string is not left out in silence.
void require_needed_confs(const Pairing& pairing, const std::vector<Chosen>& chosen);

}  // namespace allocmark

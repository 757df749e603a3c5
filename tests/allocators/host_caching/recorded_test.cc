// Goal: every block and every counter is what PyTorch's own cache of pinned memory gave. Method:
// the recording of scripts/measure/host_probe.py (its head says what a line holds) is done again on
// a machine that only counts; streams sleep where the recording says that they did.
#include <zlib.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "allocators/caching/config.h"
#include "allocators/caching/release.h"
#include "allocators/host_caching/counting_driver.h"
#include "allocators/host_caching/host_cache.h"
#include "base/bytes.h"
#include "tests/catch.h"

using namespace allocmark::host_caching;
using allocmark::kMiB;
using allocmark::caching::change_like_pytorch;
using allocmark::caching::parse_strict;
using allocmark::caching::require_rules;
using allocmark::caching::Settings;
using nlohmann::json;

namespace {

constexpr const char* kRecording = "tests/golden/host_caching/torch_2.11.0_h200.jsonl.gz";

std::string read_all(const char* path) {
  gzFile file = gzopen(path, "rb");
  REQUIRE(file != nullptr);
  std::string result;
  std::array<char, 1 << 16> buffer{};
  int count = 0;
  while ((count = gzread(file, buffer.data(), buffer.size())) > 0)
    result.append(buffer.data(), static_cast<std::size_t>(count));
  gzclose(file);
  REQUIRE(count == 0);
  return result;
}

// One process of the recording, done again.
class Session {
 public:
  explicit Session(const json& head) : name_(head.at("session")) {
    const std::string conf = head.at("conf").is_null() ? "" : std::string(head.at("conf"));
    const auto config =
        parse_strict(conf, require_rules(head.at("torch").get<std::string>().substr(0, 6), name_));
    REQUIRE_FALSE(config.error.has_value());
    settings_ = config.settings;
    cache_.emplace(driver_, settings_);
  }

  // Empty where the model did what the line says, else what differs.
  std::string step(const json& line) {
    for (Stream stream = 0; stream < 2; ++stream) {
      const bool is_asleep = (line.at("before").get<unsigned>() >> stream & 1) != 0;
      if (!is_asleep) driver_.release(stream);
    }
    const std::string operation = line.at("o");
    std::string difference = operation == "alloc" ? allocate(line) : "";
    if (operation != "alloc") act(operation, line);
    // When PyTorch's thread looks is the machine's choice, not the cache's: the recording says it.
    if (line.at("s").contains("active_requests.freed")) cache_->background_pass();
    for (const auto& [name, value] : line.at("s").items()) counters_[name] = value;
    for (const auto& [name, value] : cache_->statistics()) {
      if (counters_.at(name) == value) continue;
      difference += " " + name + ": " + std::to_string(value) + ", recorded " +
                    std::to_string(counters_.at(name));
    }
    return difference;
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t counter_count() const { return counters_.size(); }
  [[nodiscard]] std::size_t reused_count() const { return reused_count_; }

 private:
  std::string allocate(const json& line) {
    const std::uint64_t pins = driver_.pin_calls();
    const std::int64_t blocks = counter("num_host_alloc");
    const PinnedBlock block = cache_->allocate(line.at("n"));
    const Address recorded = line.at("p");
    tensors_[line.at("t")] = block.address;
    if (block.address == 0) return recorded == 0 ? "" : "no block";
    if (counter("num_host_alloc") == blocks) {
      ++reused_count_;
      return places_.at(block.address) == recorded ? "" : "another block is reused";
    }
    places_[block.address] = recorded;
    if (driver_.pin_calls() > pins && settings_.pinned_reserve_segment_size_mb == 0) return "";
    // Of the reserved segment: places in it are equal, too.
    if (!segment_) segment_ = {{block.address, recorded}};
    if (driver_.pin_calls() > pins && block.address != segment_->first) return "";
    return block.address - segment_->first == recorded - segment_->second
               ? ""
               : "another place in the segment";
  }

  void act(const std::string& operation, const json& line) {
    if (operation == "copy") {
      REQUIRE(cache_->use(tensors_.at(line.at("t")), line.at("q")));
    } else if (operation == "free") {
      cache_->deallocate(tensors_.extract(tensors_.find(line.at("t"))).mapped());
    } else if (operation == "sleep") {
      driver_.hold(line.at("q"));
    } else if (operation == "wait") {
      driver_.release(0);
      driver_.release(1);
    } else if (operation == "empty") {
      cache_->empty_cache();
    } else if (operation == "reset_peak") {
      cache_->reset_peak();
    } else if (operation == "reset_accumulated") {
      cache_->reset_accumulated();
    } else if (operation == "set") {
      REQUIRE(change_like_pytorch(settings_, std::string(line.at("conf"))).empty());
      cache_->change(settings_);
    } else if (operation == "capture") {
      graph_ = line.at("g").get<std::uint64_t>() + 1;
      cache_->begin_capture(graph_);
    } else if (operation == "captured") {
      cache_->end_capture();
    } else if (operation == "drop") {
      cache_->release_pool(graph_);
    } else {
      REQUIRE(operation == "sync");
    }
  }

  std::int64_t counter(std::string_view wanted) const {
    for (const auto& [name, value] : cache_->statistics()) {
      if (name == wanted) return value;
    }
    return 0;
  }

  std::string name_;
  Settings settings_;
  CountingDriver driver_;
  std::optional<HostCache> cache_;
  std::map<int, Address> tensors_;                      // of the recording, to places of ours
  std::map<Address, Address> places_;                   // ours, to those of the recording
  std::optional<std::pair<Address, Address>> segment_;  // the first place in it, ours and recorded
  std::map<std::string, std::int64_t> counters_;
  std::uint64_t graph_ = 0;
  std::size_t reused_count_ = 0;
};

}  // namespace

TEST_CASE("every block and counter is the one that PyTorch 2.11 gave on an H200") {
  std::istringstream lines(read_all(kRecording));
  std::optional<Session> session;
  std::size_t step_count = 0, session_count = 0, reused_count = 0;
  for (std::string text; std::getline(lines, text);) {
    const json line = json::parse(text);
    if (line.contains("session")) {
      session.emplace(line);
      ++session_count;
      continue;
    }
    REQUIRE(session.has_value());
    if (line.contains("end")) {
      CHECK(session->counter_count() == 20);
      reused_count += session->reused_count();
      continue;
    }
    const std::string difference = session->step(line);
    ++step_count;
    if (difference.empty()) continue;
    FAIL(session->name() << ", line " << text.substr(0, 200) << ": " << difference);
  }
  CHECK(session_count == 11);
  CHECK(step_count == 34'266);
  CHECK(reused_count == 3'982);
}

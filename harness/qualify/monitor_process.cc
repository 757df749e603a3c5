// See monitor_process.h.
#include "harness/qualify/monitor_process.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>

#include <nlohmann/json.hpp>
#include "base/error.h"
#include "base/json_text.h"

namespace allocmark::qualify {
namespace {

constexpr std::chrono::seconds kMonitorPatience{10};

}  // namespace

MonitorProcess::MonitorProcess(const TestSpec& spec, const ChildPlan& plan)
    : gpu_count_(spec.gpus.size()) {
  try {
    child_ = std::make_unique<ChildProcess>(child_command(spec, plan));
  } catch (const Error&) {
    // Said in the header.
  }
}

void MonitorProcess::advance() {
  if (child_ == nullptr || outcome_) return;
  outcome_ = child_->advance();
}

std::map<int, std::map<std::string, double>> MonitorProcess::end() {
  std::map<int, std::map<std::string, double>> seen;
  if (child_ == nullptr) return seen;
  // It tells of every GPU as soon as it has started, which may take longer than short tests.
  const auto patience = std::chrono::steady_clock::now() + kMonitorPatience;
  while (!outcome_ && line_count() < gpu_count_ && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    advance();
  }
  child_->end();
  while (!outcome_) advance();
  std::string_view rest = outcome_->result;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto json = parse_json(line);
    // The last line may be cut short, and a monitor that failed tells about itself.
    if (!json.is_object() || !json.contains("gpu") || !json.contains("values")) continue;
    seen[json["gpu"].get<int>()] = json["values"].get<std::map<std::string, double>>();
  }
  return seen;
}

std::size_t MonitorProcess::line_count() const {
  const std::string& text = child_->result_so_far();
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace allocmark::qualify

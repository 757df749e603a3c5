// See outliers.h.
#include "harness/tools/qualify/fleet/outliers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/json_text.h"
#include "base/median.h"
#include "harness/tools/qualify/judge.h"

namespace allocmark::fleet {
namespace {

using qualify::Figure;
using qualify::GpuReport;
using qualify::Verdict;

constexpr const char* kAllLatencies = "latency, mean over all calls";

KindKey kind_of(const qualify::Report& report, const GpuReport& gpu) {
  std::string machine = report.node.machine_type;
  if (machine.empty() && !report.environment.empty()) {
    const auto environment = parse_json(report.environment);
    const auto processor = environment.find("cpu_model");
    if (processor != environment.end() && processor->is_string()) machine = *processor;
  }
  return {.model = gpu.facts.name,
          .machine = machine,
          .driver = report.node.driver_version,
          .level = report.level};
}

struct Sample {
  NodeRow* row;
  const GpuReport* gpu;
  double value;
};

// Figures that are the same on machines that are the same, and which way is worse.
struct Judged {
  bool is_judged = false, low_is_worse = false;
  double value = 0;
};

Judged judged_value(const Figure& figure) {
  if (!figure.value) return {};
  if (figure.measured_ns) {
    return {.is_judged = *figure.measured_ns > 0, .value = *figure.measured_ns};
  }
  if (figure.note == "GB/s" || figure.threshold == "capacity.share" ||
      figure.threshold == "capacity.total_of_baseline") {
    return {.is_judged = *figure.value > 0, .low_is_worse = true, .value = *figure.value};
  }
  return {.is_judged = figure.threshold.ends_with(".contention") && *figure.value > 0,
          .value = *figure.value};
}

class Comparison {
 public:
  explicit Comparison(const OutlierLimits& limits) : limits_(limits) {}

  void add(NodeRow& row, const GpuReport& gpu) {
    for (const qualify::TestResult& test : gpu.tests) {
      for (const Figure& figure : test.figures) {
        const Judged judged = judged_value(figure);
        if (!judged.is_judged) continue;
        // Larger is worse from here on.
        const double sign = judged.low_is_worse ? -1 : 1;
        measures_[{test.test, figure.name, figure.measured_ns.has_value()}].push_back(
            {&row, &gpu, sign * std::log(judged.value)});
      }
    }
  }

  void finish() {
    for (const auto& [key, samples] : measures_) {
      const auto& [test, name, is_time] = key;
      judge_measure(test + ", " + name, samples, limits_.one);
      if (is_time) add_to_means(samples);
    }
    std::vector<Sample> means;
    for (const auto& [gpu, sum] : sums_) {
      means.push_back({sum.row, gpu, sum.distance / static_cast<double>(sum.count)});
    }
    judge_measure(kAllLatencies, means, limits_.all);
  }

  [[nodiscard]] std::size_t measure_count() const { return measures_.size(); }

 private:
  struct Sum {
    NodeRow* row = nullptr;
    double distance = 0;
    std::size_t count = 0;
  };

  static double middle_of(const std::vector<Sample>& samples) {
    std::vector<double> values;
    for (const Sample& sample : samples) values.push_back(sample.value);
    return median(std::move(values));
  }

  void add_to_means(const std::vector<Sample>& samples) {
    const double middle = middle_of(samples);
    for (const Sample& sample : samples) {
      Sum& sum = sums_[sample.gpu];
      sum.row = sample.row;
      sum.distance += sample.value - middle;
      ++sum.count;
    }
  }

  void judge_measure(const std::string& name, const std::vector<Sample>& samples,
                     const OutlierBounds& bounds) const {
    if (samples.size() < limits_.gpu_count_min) return;
    constexpr double kNormal = 1.4826;  // median distance to standard deviation, where normal
    const double middle = middle_of(samples);
    std::vector<double> distances;
    for (const Sample& sample : samples) distances.push_back(std::abs(sample.value - middle));
    const double spread = std::max(kNormal * median(distances), limits_.spread_min);
    for (const Sample& sample : samples) {
      const double z = (sample.value - middle) / spread;
      const double factor = std::exp(sample.value - middle);
      if (z <= bounds.warn_z || factor <= bounds.warn_factor) continue;
      const bool fails = z > bounds.fail_z && factor > bounds.fail_factor;
      sample.row->outliers.push_back({.gpu = sample.gpu->facts.label,
                                      .measure = name,
                                      .value = std::exp(std::abs(sample.value)),
                                      .median = std::exp(std::abs(middle)),
                                      .factor = factor,
                                      .z = z,
                                      .verdict = fails ? Verdict::Fail : Verdict::Warn});
    }
  }

  const OutlierLimits& limits_;
  std::map<std::tuple<std::string, std::string, bool>, std::vector<Sample>> measures_;
  std::map<const GpuReport*, Sum> sums_;
};

struct Member {
  NodeRow* row;
  const GpuReport* gpu;
};

// A figure that most GPUs of a kind have in a test must be there in all, but where the test failed
// or was not carried through.
void find_left_out(const std::vector<Member>& all) {
  std::map<std::string, std::size_t> whole;  // GPUs by test
  std::map<std::pair<std::string, std::string>, std::size_t> having;
  const auto is_whole = [](const qualify::TestResult& test) {
    return test.verdict != Verdict::Fail && !qualify::leaves_open(test) &&
           !test.reason.starts_with(qualify::kCutShort);
  };
  const auto names_of = [](const qualify::TestResult& test) {
    std::set<std::string> names;
    for (const Figure& figure : test.figures) names.insert(figure.name);
    return names;
  };
  for (const Member& member : all) {
    for (const qualify::TestResult& test : member.gpu->tests) {
      if (!is_whole(test)) continue;
      ++whole[test.test];
      for (const std::string& name : names_of(test)) ++having[{test.test, name}];
    }
  }
  for (const Member& member : all) {
    for (const qualify::TestResult& test : member.gpu->tests) {
      if (!is_whole(test)) continue;
      const std::set<std::string> names = names_of(test);
      for (auto found = having.lower_bound({test.test, ""});
           found != having.end() && found->first.first == test.test; ++found) {
        const auto& [key, count] = *found;
        if (2 * count <= whole[test.test] || names.contains(key.second)) continue;
        member.row->status = NodeStatus::Damaged;
        member.row->problem =
            fmt::format("{} of {} has no '{}', which {} of {} GPUs of its kind have", test.test,
                        member.gpu->facts.label, key.second, count, whole[test.test]);
      }
    }
  }
}

}  // namespace

std::vector<Kind> find_outliers(std::vector<NodeRow>& rows, const OutlierLimits& limits) {
  std::map<KindKey, std::vector<Member>> members;
  for (NodeRow& row : rows) {
    if (row.status != NodeStatus::Judged || !row.report) continue;
    for (const GpuReport& gpu : row.report->gpus) {
      members[kind_of(*row.report, gpu)].push_back({&row, &gpu});
    }
  }
  std::vector<Kind> kinds;
  for (const auto& [key, all] : members) {
    std::set<const NodeRow*> nodes;
    Comparison comparison(limits);
    for (const Member& member : all) {
      nodes.insert(member.row);
      comparison.add(*member.row, *member.gpu);
    }
    const bool enough = all.size() >= limits.gpu_count_min;
    if (enough) {
      comparison.finish();
      find_left_out(all);
    }
    kinds.push_back({.key = key,
                     .gpu_count = all.size(),
                     .node_count = nodes.size(),
                     .measure_count = comparison.measure_count(),
                     .is_compared = enough});
  }
  for (NodeRow& row : rows) {
    std::ranges::stable_sort(row.outliers, [](const Outlier& a, const Outlier& b) {
      return std::tie(a.verdict, a.z) > std::tie(b.verdict, b.z);
    });
  }
  return kinds;
}

std::string limits_text(const OutlierLimits& limits) {
  return fmt::format(
      "WARN where z > {} and {} times the median, FAIL where z > {} and {} times; the mean over "
      "all calls of a GPU: z > {} and {} times, z > {} and {} times; z on a logarithmic scale, its "
      "unit 1.4826 median distances, at least {:.0f} %; at least {} GPUs of a kind",
      limits.one.warn_z, limits.one.warn_factor, limits.one.fail_z, limits.one.fail_factor,
      limits.all.warn_z, limits.all.warn_factor, limits.all.fail_z, limits.all.fail_factor,
      limits.spread_min * 100, limits.gpu_count_min);
}

}  // namespace allocmark::fleet

// The page of two traces (fidelity.h).
#include "harness/tools/fidelity/fidelity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 260;
constexpr double kLeft = 70;
constexpr double kBottom = 28;
constexpr double kTop = 8;

constexpr std::string_view kStyle =
    "body{font:14px system-ui,sans-serif;margin:2em;max-width:1040px}"
    "pre{background:#f4f4f4;padding:1em;overflow:auto}"
    "svg{width:100%;height:auto}text{font:11px system-ui,sans-serif;fill:#444}"
    ".r{stroke:#444;fill:none;stroke-width:1.5}.g{stroke:#d55e00;fill:none;stroke-width:1.2}"
    ".rb{fill:#444;opacity:.35}.gb{fill:#d55e00;opacity:.55}.a{stroke:#999;stroke-width:1}";

double y_of(double share) { return kTop + (kHeight - kTop - kBottom) * (1 - share); }

std::string axes(const std::string& highest) {
  return fmt::format(
      "<line class=a x1={0} y1={1} x2={0} y2={2} /><line class=a x1={0} y1={2} x2={3} y2={2} />"
      "<text x={4} y={5} text-anchor=end>{6}</text><text x={4} y={2} text-anchor=end>0</text>",
      kLeft, kTop, y_of(0), kWidth, kLeft - 6, kTop + 10, xml_text(highest));
}

std::string svg(const std::string& inside) {
  return fmt::format("<svg viewBox='0 0 {} {}' role=img>{}</svg>\n", kWidth, kHeight, inside);
}

std::string curve(const std::vector<std::uint64_t>& points, std::uint64_t highest,
                  std::string_view style) {
  std::string path;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double x = kLeft + (kWidth - kLeft) * static_cast<double>(i) /
                                 static_cast<double>(std::max<std::size_t>(points.size() - 1, 1));
    const double y = y_of(static_cast<double>(points[i]) / static_cast<double>(highest));
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x, y);
  }
  return fmt::format("<path class={} d='{}' />", style, path);
}

std::string curves(const TraceShape& reference, const TraceShape& generated) {
  const std::uint64_t highest =
      std::max<std::uint64_t>({reference.requested_bytes_peak, generated.requested_bytes_peak, 1});
  return svg(axes(format_bytes(highest)) + curve(reference.live_bytes_curve, highest, "r") +
             curve(generated.live_bytes_curve, highest, "g") +
             fmt::format("<text x={} y={}>first event</text><text x={} y={} text-anchor=end>last "
                         "event</text>",
                         kLeft, kHeight - 8, kWidth, kHeight - 8));
}

// A histogram's part that has values in either trace.
struct Bins {
  std::span<const std::uint64_t> reference, generated;
  std::size_t first = 0, last = 0;
};

Bins used_bins(std::span<const std::uint64_t> reference, std::span<const std::uint64_t> generated) {
  Bins bins{.reference = reference, .generated = generated};
  const auto used = [&](std::size_t i) { return reference[i] != 0 || generated[i] != 0; };
  bins.last = reference.size() - 1;
  while (bins.first < bins.last && !used(bins.first)) ++bins.first;
  while (bins.last > bins.first && !used(bins.last)) --bins.last;
  return bins;
}

std::vector<double> shares(std::span<const std::uint64_t> values) {
  double sum = 0;
  for (const std::uint64_t value : values) sum += static_cast<double>(value);
  std::vector<double> out;
  for (const std::uint64_t value : values) {
    out.push_back(sum == 0 ? 0 : static_cast<double>(value) / sum);
  }
  return out;
}

// Bars of both, one over the other; `label` names a bin or gives nothing.
template <typename Label>
std::string bars(const Bins& bins, Label label) {
  const std::vector<double> reference = shares(bins.reference);
  const std::vector<double> generated = shares(bins.generated);
  double highest = 0;
  for (std::size_t i = bins.first; i <= bins.last; ++i) {
    highest = std::max({highest, reference[i], generated[i]});
  }
  if (highest == 0) highest = 1;
  const double step = (kWidth - kLeft) / static_cast<double>(bins.last - bins.first + 1);
  std::string inside = axes(fmt::format("{:.1f} %", highest * 100));
  const auto bar = [&](double value, double x, double width, std::string_view style) {
    const double y = y_of(value / highest);
    if (value > 0) {
      inside += fmt::format("<rect class={} x={:.1f} y={:.1f} width={:.1f} height={:.1f} />", style,
                            x, y, width, y_of(0) - y);
    }
  };
  for (std::size_t i = bins.first; i <= bins.last; ++i) {
    const double x = kLeft + step * static_cast<double>(i - bins.first);
    bar(reference[i], x, step * 0.9, "rb");
    bar(generated[i], x + step * 0.2, step * 0.5, "gb");
    const std::string name = label(i);
    if (!name.empty()) {
      inside += fmt::format("<text x={:.1f} y={}>{}</text>", x, kHeight - 8, xml_text(name));
    }
  }
  return svg(inside);
}

}  // namespace

std::string fidelity_page(const TraceShape& reference, const TraceShape& generated,
                          const std::string& table) {
  const Bins sizes = used_bins(reference.size_bin_bytes, generated.size_bin_bytes);
  const Bins lifetimes = used_bins(reference.lifetime_bin_counts, generated.lifetime_bin_counts);
  const std::string title =
      fmt::format("{} and {}", xml_text(reference.name), xml_text(generated.name));
  return fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><title>{0}</title><style>{1}</style>\n"
      "<h1>{0}</h1><p>Grey: the reference. Orange: generated.</p><pre>{2}</pre>\n"
      "<h2>Live requested bytes over the trace</h2>{3}"
      "<h2>Requested bytes by size of the request, in eighths of an octave</h2>{4}"
      "<h2>Blocks by the allocs and frees that they lived through, in octaves</h2>{5}</html>\n",
      title, kStyle, xml_text(table), curves(reference, generated),
      bars(sizes,
           [](std::size_t i) {
             return i % 16 == 0 ? format_bytes(std::uint64_t{1} << (i / 8)) : std::string();
           }),
      bars(lifetimes, [](std::size_t i) {
        return i + 1 == kLifetimeBinCount ? std::string("never freed")
                                          : fmt::format("{}", std::uint64_t{1} << i);
      }));
}

}  // namespace allocmark

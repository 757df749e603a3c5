// The rules are those of the CUDA programming guide's table of environment variables. What it
// leaves open (numbers with a tail, lists of both kinds, repeats) is as torch.cuda reads the
// variable to agree with the driver.
#include "harness/simcuda/shim/visible_devices.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>

namespace simcuda {
namespace {

// The number that the entry begins with, as strtoul takes it: "1st" is 1.
std::optional<int> device_of_number(std::string_view entry, std::size_t device_count) {
  entry.remove_prefix(std::min(entry.find_first_not_of(" \t"), entry.size()));
  if (entry.starts_with('+')) entry.remove_prefix(1);
  std::size_t device = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), device);
  if (error != std::errc{} || device >= device_count) return std::nullopt;
  return static_cast<int>(device);
}

std::optional<int> device_of_uuid(std::string_view entry, std::span<const std::string> uuids) {
  if (!entry.starts_with("GPU-")) return std::nullopt;
  const auto is_meant = [&](const std::string& uuid) { return uuid.starts_with(entry); };
  if (std::ranges::count_if(uuids, is_meant) != 1) return std::nullopt;
  return static_cast<int>(std::ranges::find_if(uuids, is_meant) - uuids.begin());
}

}  // namespace

std::vector<int> visible_devices(std::string_view text, std::span<const std::string> uuids) {
  const bool are_uuids = text.starts_with("GPU-");
  std::vector<int> devices;
  while (true) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view entry = text.substr(0, end);
    const std::optional<int> device =
        are_uuids ? device_of_uuid(entry, uuids) : device_of_number(entry, uuids.size());
    if (!device) return devices;
    if (std::ranges::find(devices, *device) != devices.end()) return {};
    devices.push_back(*device);
    if (end == text.size()) return devices;
    text.remove_prefix(end + 1);
  }
}

}  // namespace simcuda

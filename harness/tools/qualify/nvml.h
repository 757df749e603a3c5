// What NVML knows about a GPU's health: a reading by name, or why there is none. The library is
// loaded at run time (libnvidia-ml.so.1) and never linked; nothing is ever set through it. The
// functions and structures are those of NVML's public interface, declared here because the toolkit
// of a build machine may lack nvml.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace allocmark::qualify {

struct NvmlReading {
  std::optional<double> value = {};
  std::string problem;          // why there is no value
  bool is_unsupported = false;  // because this GPU does not have it
};

// Bits of NVML's reasons for lowered clocks that are faults, not modes: hardware slowdown, software
// and hardware thermal slowdown, power brake.
inline constexpr std::uint64_t kHarmfulThrottleBits = 0x8 | 0x20 | 0x40 | 0x80;

class Nvml {
 public:
  // Loads and starts it; problem() says why it is of no use.
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] NvmlReading device_count() const;
  // "580.159.04"; empty where it does not say.
  [[nodiscard]] std::string driver_version() const;

  // Chooses the GPU for the readings, by its PCI address as cudaDeviceGetPCIBusId gives it. Empty
  // where it is there, else why not.
  [[nodiscard]] std::string select(const std::string& pci_bus_id);

  // Readings of the chosen GPU: used_bytes, other_processes, ecc_on, ecc_corrected,
  // ecc_uncorrected, retired, remap_pending, remap_failed, throttle_bits, celsius, sm_mhz,
  // sm_mhz_max, pcie_width, pcie_width_max, power_limit_mw, power_limit_default_mw. A name that is
  // not among them is a fault of ours.
  [[nodiscard]] NvmlReading read(const std::string& name) const;
  [[nodiscard]] static const std::vector<std::string>& names();
  // All readings that have a value.
  [[nodiscard]] std::map<std::string, double> read_all() const;

  // Of the chosen GPU; empty where it has none, or does not tell.
  [[nodiscard]] std::string serial() const { return text("nvmlDeviceGetSerial"); }
  [[nodiscard]] std::string vbios() const { return text("nvmlDeviceGetVbiosVersion"); }

  // Asks the driver to tell about critical Xid events of the chosen GPU from now on. Empty where it
  // will, else why not.
  [[nodiscard]] std::string watch_events();
  // Waits for the next event, up to the time; nothing where none came.
  struct Event {
    const void* gpu = nullptr;  // handle()
    std::uint64_t xid = 0;
  };
  [[nodiscard]] std::optional<Event> next_event(std::uint32_t timeout_ms);
  [[nodiscard]] const void* handle() const { return gpu_; }

 private:
  template <typename Function>
  [[nodiscard]] Function find(const char* name) const;
  [[nodiscard]] NvmlReading failed(int error) const;
  [[nodiscard]] std::string text(const char* function) const;
  template <typename Number>
  [[nodiscard]] NvmlReading number(const char* function) const;
  template <typename Number, typename Argument>
  [[nodiscard]] NvmlReading number(const char* function, Argument argument) const;
  [[nodiscard]] NvmlReading used_bytes() const;
  [[nodiscard]] NvmlReading other_processes() const;
  [[nodiscard]] NvmlReading ecc_on() const;
  [[nodiscard]] NvmlReading ecc_errors(int kind) const;
  [[nodiscard]] NvmlReading remapped(int which) const;
  [[nodiscard]] NvmlReading throttle_bits() const;

  void* library_ = nullptr;
  void* gpu_ = nullptr;
  void* events_ = nullptr;
  std::string problem_;
};

}  // namespace allocmark::qualify

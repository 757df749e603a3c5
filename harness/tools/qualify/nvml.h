// What NVML knows about a GPU's health: a reading by name, or why there is none. The library is
// loaded at run time (libnvidia-ml.so.1) and never linked; nothing is ever set through it. The
// functions and structures are those of NVML's public interface, declared here because the toolkit
// of a build machine may lack nvml.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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
  // Loads and starts it; where that fails, every reading says why.
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] NvmlReading device_count() const;
  // "580.159.04"; empty where it does not say.
  [[nodiscard]] std::string driver_version() const;

  // Chooses the GPU for the readings, by its PCI address as cudaDeviceGetPCIBusId gives it. Empty
  // where it is there, else why not.
  [[nodiscard]] std::string select(const std::string& pci_bus_id);

  // A reading of the chosen GPU, by a name of readers(). Another name is a fault of ours.
  [[nodiscard]] NvmlReading read(std::string_view name) const;
  // All readings that have a value.
  [[nodiscard]] std::map<std::string, double> read_all() const;

  // Of the chosen GPU; empty where it has none, or does not tell.
  [[nodiscard]] std::string serial() const;
  [[nodiscard]] std::string vbios() const;

  // Asks the driver to tell about critical Xid events of the chosen GPU from now on. Empty where it
  // will, else why not.
  [[nodiscard]] std::string watch_events();
  // Waits for the next event, up to the time: its Xid; nothing where none came.
  [[nodiscard]] std::optional<std::uint64_t> next_xid(std::uint32_t timeout_ms);

 private:
  // A function that takes the GPU, an argument or none, and a place for a number; or one of ours.
  struct Reader {
    std::string_view name;
    const char* function = nullptr;
    std::optional<int> argument = {};
    NvmlReading (Nvml::*read)() const = nullptr;
  };
  [[nodiscard]] static std::span<const Reader> readers();

  // What NVML's function of that name returns, with arguments of exactly its types.
  template <typename... Arguments>
  [[nodiscard]] int call(const char* function, Arguments... arguments) const;
  [[nodiscard]] NvmlReading failed(int error) const;
  // What a call wrote to `value`.
  template <typename Number>
  [[nodiscard]] NvmlReading answer(int error, const Number& value) const;
  // Of a function that takes the GPU, these arguments and a place for a number.
  template <typename Number, typename... Arguments>
  [[nodiscard]] NvmlReading number(const char* function, Arguments... arguments) const;
  // Of a function that takes these arguments and a place for a text.
  template <typename... Arguments>
  [[nodiscard]] std::string text(const char* function, Arguments... arguments) const;
  [[nodiscard]] NvmlReading used_bytes() const;
  [[nodiscard]] NvmlReading other_processes() const;
  [[nodiscard]] NvmlReading ecc_on() const;
  template <int kKind>
  [[nodiscard]] NvmlReading ecc_errors() const;
  template <std::size_t kWhich>
  [[nodiscard]] NvmlReading remapped() const;
  [[nodiscard]] NvmlReading throttle_bits() const;

  void* library_ = nullptr;
  void* gpu_ = nullptr;
  void* events_ = nullptr;
  std::string problem_;
};

}  // namespace allocmark::qualify

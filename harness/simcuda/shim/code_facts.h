// What an image of device code says about its kernels and variables, without running any of it. In:
// a binary of one architecture (ELF), PTX, or a fat binary. Out: kernels with their registers,
// memory and parameters, and variables with their first bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simcuda {

struct ParameterFacts {
  std::size_t offset_bytes = 0;
  std::size_t size_bytes = 0;
};

struct KernelFacts {
  std::string name;
  int register_count = 0;  // 0: not known
  int shared_bytes = 0;    // static
  int local_bytes = 0;     // of one thread
  int threads_max = 0;     // of a block, by __launch_bounds__; 0: not said
  std::vector<ParameterFacts> parameters;
};

struct VariableFacts {
  std::string name;
  std::size_t size_bytes = 0;
  std::vector<unsigned char> first_bytes;  // the rest is zero
};

struct CodeFacts {
  enum class Kind : std::uint8_t {
    None,    // no image of device code
    Unread,  // packed (fat_binary.h): nothing else is known
    Read,
  };
  Kind kind = Kind::None;
  int architecture = 0;  // 90: 9.0
  int constant_bytes = 0;
  std::vector<KernelFacts> kernels;
  std::vector<VariableFacts> variables;
};

// `data` begins an image, which says how long it is.
[[nodiscard]] CodeFacts read_code(const void* data);

}  // namespace simcuda

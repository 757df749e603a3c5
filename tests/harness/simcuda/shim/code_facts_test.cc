// Facts of device code, against a binary and a fat binary that nvcc made of code_facts_kernels.cu.
#include "harness/simcuda/shim/code_facts.h"

#include <cuda_runtime_api.h>
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/catch.h"

namespace {

using simcuda::CodeFacts;
using simcuda::KernelFacts;
using simcuda::read_code;
using simcuda::VariableFacts;

CodeFacts read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  REQUIRE(bytes.size() > 64);
  return read_code(bytes.c_str());
}

KernelFacts kernel(const CodeFacts& facts, std::string_view name) {
  const auto found = std::find_if(facts.kernels.begin(), facts.kernels.end(),
                                  [&](const KernelFacts& one) { return one.name == name; });
  REQUIRE(found != facts.kernels.end());
  return *found;
}

VariableFacts variable(const CodeFacts& facts, std::string_view name) {
  const auto found = std::find_if(facts.variables.begin(), facts.variables.end(),
                                  [&](const VariableFacts& one) { return one.name == name; });
  REQUIRE(found != facts.variables.end());
  return *found;
}

TEST_CASE("a binary says what its kernels take, and what its variables begin with") {
  for (const char* path : {ALLOCMARK_CUBIN, ALLOCMARK_FATBIN}) {
    INFO(path);
    const CodeFacts facts = read_file(path);
    REQUIRE(facts.kind == CodeFacts::Kind::Read);
    CHECK(facts.architecture == 90);
    CHECK(facts.constant_bytes == 64);
    CHECK(facts.kernels.size() == 3);
    const KernelFacts shared = kernel(facts, "with_shared");
    CHECK(shared.shared_bytes == 256);
    CHECK(shared.threads_max == 256);
    CHECK(shared.local_bytes == 0);
    CHECK(shared.register_count > 0);
    REQUIRE(shared.parameters.size() == 3);
    CHECK(shared.parameters[1].offset_bytes == 8);
    CHECK(shared.parameters[1].size_bytes == 1);
    CHECK(shared.parameters[2].offset_bytes == 16);
    CHECK(shared.parameters[2].size_bytes == 8);
    const KernelFacts local = kernel(facts, "with_local");
    CHECK(local.local_bytes >= 800);
    CHECK(local.shared_bytes == 0);
    CHECK(local.register_count > shared.register_count);
    CHECK(kernel(facts, "empty").parameters.empty());
    CHECK(variable(facts, "counter").first_bytes == std::vector<unsigned char>{7, 0, 0, 0});
    CHECK(variable(facts, "zeros").size_bytes == 400);
    CHECK(variable(facts, "zeros").first_bytes.empty());
    CHECK(variable(facts, "table").size_bytes == 64);
  }
}

TEST_CASE("a binary whose records name no table of symbols is read by the one that it has") {
  std::ifstream file(ALLOCMARK_CUBIN, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  constexpr Elf64_Word kRecords = 0x70000000;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    char* const place = bytes.data() + header.e_shoff + i * sizeof section;
    std::memcpy(&section, place, sizeof section);
    if (section.sh_type == kRecords) section.sh_link = 0;
    std::memcpy(place, &section, sizeof section);
  }
  const CodeFacts facts = read_code(bytes.c_str());
  CHECK(kernel(facts, "with_local").local_bytes >= 800);
  CHECK(kernel(facts, "with_shared").register_count > 0);
}

TEST_CASE("PTX says so too, but for registers and memory of kernels") {
  const CodeFacts facts = read_code(
      "/* a { in a comment */ .version 8.0 .target sm_86 .address_size 64\n"
      ".global .align 8 .f64 halves[2] = {0d3FE0000000000000, 0d3FE0000000000000};\n"
      ".global .s16 below = -2; // } \n"
      ".extern .shared .align 16 .b8 dynamic[];\n"
      ".func (.param .b32 out) helper(.param .b32 in) { ret; }\n"
      ".visible .entry _Z1fv() .maxntid 32 { { ret; } }\n");
  REQUIRE(facts.kind == CodeFacts::Kind::Read);
  CHECK(facts.architecture == 86);
  REQUIRE(facts.kernels.size() == 1);
  CHECK(facts.kernels[0].name == "_Z1fv");
  CHECK(facts.kernels[0].threads_max == 32);
  CHECK(facts.variables.size() == 2);
  CHECK(variable(facts, "halves").size_bytes == 16);
  CHECK(variable(facts, "halves").first_bytes ==
        std::vector<unsigned char>{0, 0, 0, 0, 0, 0, 0xe0, 0x3f, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f});
  CHECK(variable(facts, "below").first_bytes == std::vector<unsigned char>{0xfe, 0xff});
}

TEST_CASE("the host's programs and text are no device code") {
  CHECK(read_file("/proc/self/exe").kind == CodeFacts::Kind::None);
  CHECK(read_code("text that is long enough for a header").kind == CodeFacts::Kind::None);
}

#if CUDART_VERSION >= 13000
TEST_CASE("PTX that Zstandard packed is read, and a damaged one is none") {
  std::ifstream file(ALLOCMARK_PACKED, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::size_t frame = bytes.find("\x28\xb5\x2f\xfd");
  REQUIRE(frame != std::string::npos);
  const CodeFacts facts = read_code(bytes.data());
  REQUIRE(facts.kind == CodeFacts::Kind::Read);
  CHECK(facts.architecture == 90);
  CHECK(facts.kernels.size() == 3);
  CHECK(kernel(facts, "with_shared").parameters.size() == 3);
  CHECK(variable(facts, "table").size_bytes == 64);
  std::string cut = bytes;
  cut[16 + 16] = static_cast<char>(cut[16 + 16] - 1);  // packed bytes
  CHECK(read_code(cut.data()).kind == CodeFacts::Kind::Unread);
  std::string longer = bytes;
  longer[16 + 56] = static_cast<char>(longer[16 + 56] + 1);  // unpacked bytes
  CHECK(read_code(longer.data()).kind == CodeFacts::Kind::Unread);
  bytes[frame] = 0;
  CHECK(read_code(bytes.data()).kind == CodeFacts::Kind::Unread);
}
#endif

// A fat binary whose one PTX is packed as LZ4 packs it: `text`, then its last character `again`
// times more by a match, then two lines. `distance` of the match is 1 where nothing is damaged.
std::string packed_fat(const std::string& text, unsigned again, unsigned char distance) {
  std::string block(1, static_cast<char>(0xf0 | (again - 4)));
  block += static_cast<char>(text.size() - 15);
  block += text;
  block += {static_cast<char>(distance), 0};
  block += std::string("\x20\n\n", 3);
  const auto number = [](std::uint64_t value, std::size_t size_bytes) {
    return std::string(reinterpret_cast<const char*>(&value), size_bytes);
  };
  constexpr std::uint64_t kEntryBytes = 64;
  const std::string entry = number(1, 2) + number(0x101, 2) + number(kEntryBytes, 4) +
                            number(block.size(), 8) + number(block.size(), 4) +
                            std::string(20, '\0') + number(0x2011, 8) + number(0, 8) +
                            number(text.size() + again + 2, 8) + block;
  return number(0xba55ed50, 4) + number(1, 2) + number(16, 2) + number(entry.size(), 8) + entry;
}

TEST_CASE("PTX that LZ4 packed is read, and a damaged one is none") {
  const std::string ptx =
      ".version 8.0\n.target sm_90\n.visible .entry packed_kernel()\n{ ret; }\n";
  REQUIRE(ptx.size() < 15 + 255);
  const CodeFacts facts = read_code(packed_fat(ptx, 10, 1).data());
  REQUIRE(facts.kind == CodeFacts::Kind::Read);
  REQUIRE(facts.kernels.size() == 1);
  CHECK(facts.kernels.front().name == "packed_kernel");
  for (const int distance : {0, 200})
    CHECK(read_code(packed_fat(ptx, 10, static_cast<unsigned char>(distance)).data()).kind ==
          CodeFacts::Kind::Unread);
  std::string cut = packed_fat(ptx, 10, 1);
  cut[16 + 16] = 20;  // packed bytes
  CHECK(read_code(cut.data()).kind == CodeFacts::Kind::Unread);
}

}  // namespace

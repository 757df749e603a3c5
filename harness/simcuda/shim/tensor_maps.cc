// Descriptors of tensors for kernels that copy tiles of them. In: a tensor, and a box in it. Out:
// 128 bytes with the same facts in an order of our own, which no kernel reads here. What is refused
// is what an H200 refused (driver 580.159.04): 40,000 random questions, no difference.
#include "harness/simcuda/shim/call.h"

#if CUDA_VERSION >= 12000

#include <cstring>

#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

// Kinds of elements with a higher number, and swizzles, came after Hopper.
constexpr std::array<std::uint8_t, 13> kElementBits = {8,  16, 32, 32, 64, 64, 16,
                                                       32, 64, 16, 32, 32, 32};
constexpr std::uint32_t kRankMax = 5;

struct Tiled {
  void* address = nullptr;
  unsigned type = 0;
  std::uint32_t rank = 0;
  const cuuint64_t* sizes = nullptr;
  const cuuint64_t* strides_bytes = nullptr;  // of all dimensions but the first
  const cuuint32_t* box = nullptr;
  const cuuint32_t* steps = nullptr;
  unsigned interleave = 0;
  unsigned swizzle = 0;
  unsigned promotion = 0;
  unsigned fill = 0;

  [[nodiscard]] bool is_float() const {
    return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
  }
  [[nodiscard]] std::uint64_t row_bits() const {
    return std::uint64_t{box[0]} * kElementBits.at(type);
  }
  [[nodiscard]] std::uint64_t alignment_bytes() const {
    return interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
  }
};

bool has_known_kinds(const Tiled& map) {
  return map.type < kElementBits.size() && map.interleave <= CU_TENSOR_MAP_INTERLEAVE_32B &&
         map.swizzle <= CU_TENSOR_MAP_SWIZZLE_128B &&
         map.promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
         map.fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA &&
         (map.fill == 0 || map.is_float());
}

bool has_right_sizes(const Tiled& map) {
  constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 32;
  constexpr std::uint64_t kStrideEnd = std::uint64_t{1} << 40;
  for (std::uint32_t i = 0; i < map.rank; ++i) {
    if (map.sizes[i] == 0 || map.sizes[i] > kSizeMax) return false;
    if (i + 1 == map.rank) break;
    if (map.strides_bytes[i] >= kStrideEnd || map.strides_bytes[i] % map.alignment_bytes() != 0) {
      return false;
    }
  }
  return true;
}

// By the manual the first step is ignored without interleaving; the GPU wants it right all the
// same. A box's steps shorten it before its bytes are counted, down to nothing.
bool has_right_box(const Tiled& map) {
  constexpr std::uint32_t kBoxMax = 256;
  constexpr std::uint32_t kStepMax = 8;
  constexpr std::uint64_t kBoxMaxBits = std::uint64_t{228 * 1024} * 8;
  std::uint64_t box_bits = kElementBits.at(map.type);
  for (std::uint32_t i = 0; i < map.rank; ++i) {
    if (map.box[i] == 0 || map.box[i] > kBoxMax) return false;
    if (map.steps[i] == 0 || map.steps[i] > kStepMax) return false;
    box_bits *= map.box[i] / map.steps[i];
  }
  return map.row_bits() % (16 * 8) == 0 && box_bits <= kBoxMaxBits;
}

// Rows of the box fit into the swizzle's span of shared memory, where they are not interleaved.
bool has_right_swizzle(const Tiled& map) {
  if (map.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      map.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE) {
    return true;
  }
  const std::uint64_t span_bytes = map.swizzle == CU_TENSOR_MAP_SWIZZLE_32B   ? 32
                                   : map.swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64
                                                                              : 128;
  return map.row_bits() <= span_bytes * 8;
}

// What a descriptor says here; the address comes first.
struct Encoded {
  std::uint64_t address = 0;
  std::array<std::uint64_t, kRankMax - 1> strides_bytes{};
  std::array<std::uint32_t, kRankMax> last_places{};
  std::array<std::uint8_t, kRankMax> last_box_places{};
  std::array<std::uint8_t, kRankMax> steps{};
  std::uint8_t rank = 0;
  std::uint8_t type = 0;
  std::uint8_t interleave = 0;
  std::uint8_t swizzle = 0;
  std::uint8_t promotion = 0;
  std::uint8_t fill = 0;
};
static_assert(sizeof(Encoded) <= sizeof(CUtensorMap));

cudaError_t encode(CUtensorMap* result, const Tiled& map) {
  constexpr std::uint64_t kResultAlignment = 64;
  if (result == nullptr || number(result) % kResultAlignment != 0 || map.rank == 0 ||
      map.rank > kRankMax || map.sizes == nullptr || map.box == nullptr || map.steps == nullptr ||
      (map.rank > 1 && map.strides_bytes == nullptr) || !has_known_kinds(map) ||
      (map.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && map.rank < 3) || map.address == nullptr ||
      number(map.address) % map.alignment_bytes() != 0 || !has_right_sizes(map) ||
      !has_right_box(map) || !has_right_swizzle(map)) {
    return cudaErrorInvalidValue;
  }
  Encoded encoded{.address = number(map.address),
                  .rank = static_cast<std::uint8_t>(map.rank),
                  .type = static_cast<std::uint8_t>(map.type),
                  .interleave = static_cast<std::uint8_t>(map.interleave),
                  .swizzle = static_cast<std::uint8_t>(map.swizzle),
                  .promotion = static_cast<std::uint8_t>(map.promotion),
                  .fill = static_cast<std::uint8_t>(map.fill)};
  for (std::uint32_t i = 0; i < map.rank; ++i) {
    encoded.last_places.at(i) = static_cast<std::uint32_t>(map.sizes[i] - 1);
    encoded.last_box_places.at(i) = static_cast<std::uint8_t>(map.box[i] - 1);
    encoded.steps.at(i) = static_cast<std::uint8_t>(map.steps[i]);
    if (i + 1 < map.rank) encoded.strides_bytes.at(i) = map.strides_bytes[i];
  }
  *result = {};
  std::memcpy(static_cast<void*>(result), &encoded, sizeof encoded);
  return cudaSuccess;
}

cudaError_t replace_address(CUtensorMap* map, void* address) {
  Encoded encoded;
  if (map == nullptr || address == nullptr) return cudaErrorInvalidValue;
  std::memcpy(&encoded, static_cast<const void*>(map), sizeof encoded);
  const Tiled facts{.type = encoded.type, .interleave = encoded.interleave};
  if (number(address) % facts.alignment_bytes() != 0) return cudaErrorInvalidValue;
  encoded.address = number(address);
  std::memcpy(static_cast<void*>(map), &encoded, sizeof encoded);
  return cudaSuccess;
}

}  // namespace

SIMCUDA_DRIVER(cuTensorMapEncodeTiled,
               (CUtensorMap * result, CUtensorMapDataType type, cuuint32_t rank, void* address,
                const cuuint64_t* sizes, const cuuint64_t* strides_bytes, const cuuint32_t* box,
                const cuuint32_t* steps, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                CUtensorMapFloatOOBfill fill),
               (number(result), static_cast<std::uint64_t>(type), rank, number(address)),
               encode(result, {.address = address,
                               .type = static_cast<unsigned>(type),
                               .rank = rank,
                               .sizes = sizes,
                               .strides_bytes = strides_bytes,
                               .box = box,
                               .steps = steps,
                               .interleave = static_cast<unsigned>(interleave),
                               .swizzle = static_cast<unsigned>(swizzle),
                               .promotion = static_cast<unsigned>(promotion),
                               .fill = static_cast<unsigned>(fill)}))
SIMCUDA_DRIVER(cuTensorMapReplaceAddress, (CUtensorMap * map, void* address),
               (number(map), number(address)), replace_address(map, address))

}  // namespace simcuda

#endif

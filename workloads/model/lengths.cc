// The quantiles below were computed from the Azure Public Dataset, "AzureLLMInferenceTrace" 2023
// (Patel et al., Splitwise, ISCA 2024), licensed CC-BY 4.0: 0, 1, 2 ... 99, 99.9 and 100 percent.
#include "workloads/model/lengths.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace allocmark {
namespace {

constexpr std::size_t kQuantileCount = 102;
constexpr std::array<std::uint32_t, kQuantileCount> kCodeContext = {
    3,    17,   35,   50,   62,   75,   88,   97,   109,  130,  147,  162,  179,  193,  209,
    232,  253,  283,  319,  352,  385,  423,  469,  501,  539,  578,  604,  651,  698,  745,
    770,  816,  848,  880,  908,  938,  969,  997,  1027, 1049, 1075, 1105, 1133, 1174, 1205,
    1261, 1296, 1346, 1377, 1417, 1469, 1500, 1555, 1600, 1642, 1690, 1724, 1774, 1823, 1874,
    1909, 1964, 2024, 2077, 2128, 2164, 2226, 2284, 2329, 2387, 2433, 2480, 2546, 2615, 2672,
    2745, 2805, 2896, 2975, 3066, 3193, 3295, 3452, 3599, 3714, 3923, 4107, 4320, 4559, 4759,
    5194, 5636, 5961, 6194, 6585, 7315, 7431, 7435, 7436, 7436, 7437, 7437};
constexpr std::array<std::uint32_t, kQuantileCount> kCodeGenerated = {
    6,  6,  6,  6,  6,  6,  6,  6,  6,  7,  7,  7,  7,   7,   7,   7,   8,   8,   8,  8,  8,
    8,  9,  9,  9,  9,  9,  9,  9,  9,  9,  10, 10, 10,  10,  10,  10,  11,  11,  11, 11, 11,
    12, 12, 12, 12, 12, 13, 13, 13, 13, 13, 13, 14, 14,  14,  14,  15,  15,  15,  16, 16, 16,
    17, 17, 18, 18, 19, 19, 19, 20, 21, 21, 22, 23, 24,  25,  26,  27,  28,  29,  31, 32, 34,
    37, 39, 42, 45, 48, 52, 55, 60, 65, 72, 79, 90, 105, 128, 172, 252, 831, 1899};
constexpr std::array<std::uint32_t, kQuantileCount> kConvContext = {
    2,    29,   91,   161,  181,  181,  191,  197,  201,  203,  207,  212,  222,  242,  317,
    372,  375,  378,  381,  384,  387,  390,  392,  394,  395,  396,  398,  399,  400,  402,
    403,  405,  406,  408,  411,  414,  419,  424,  433,  456,  703,  863,  903,  946,  972,
    984,  994,  1002, 1009, 1014, 1020, 1025, 1031, 1036, 1041, 1045, 1050, 1055, 1060, 1065,
    1071, 1076, 1081, 1086, 1092, 1097, 1102, 1109, 1116, 1122, 1130, 1139, 1147, 1160, 1171,
    1189, 1215, 1249, 1311, 1314, 1315, 1321, 1369, 1508, 1690, 1877, 2032, 2221, 2402, 2584,
    2735, 3292, 4073, 4076, 4079, 4083, 4086, 4090, 4098, 4142, 6212, 14050};
constexpr std::array<std::uint32_t, kQuantileCount> kConvGenerated = {
    7,   16,  24,  32,  38,  41,  44,  47,  49,  52,  54,  57,  59,  62,  64,  67,  69,
    71,  73,  75,  77,  79,  81,  82,  84,  85,  86,  87,  89,  90,  91,  92,  93,  94,
    95,  96,  97,  99,  100, 101, 103, 105, 107, 108, 110, 113, 116, 118, 122, 125, 129,
    133, 137, 141, 145, 151, 156, 161, 163, 169, 177, 182, 190, 202, 216, 217, 237, 371,
    375, 378, 384, 387, 390, 393, 394, 395, 396, 396, 397, 398, 400, 402, 404, 407, 410,
    411, 414, 415, 417, 420, 424, 428, 429, 433, 442, 451, 468, 509, 540, 601, 954, 1000};
constexpr std::array<std::int32_t, kQuantileCount> kNormal = {
    -215648, -152460, -134594, -123260, -114733, -107797, -101894, -96717, -92083, -87868, -83988,
    -80382,  -77004,  -73819,  -70800,  -67924,  -65173,  -62532,  -59989, -57534, -55156, -52850,
    -50606,  -48421,  -46288,  -44203,  -42162,  -40161,  -38197,  -36267, -34367, -32496, -30651,
    -28830,  -27031,  -25252,  -23492,  -21748,  -20020,  -18305,  -16603, -14912, -13231, -11559,
    -9894,   -8235,   -6582,   -4933,   -3287,   -1643,   0,       1643,   3287,   4933,   6582,
    8235,    9894,    11559,   13231,   14912,   16603,   18305,   20020,  21748,  23492,  25252,
    27031,   28830,   30651,   32496,   34367,   36267,   38197,   40161,  42162,  44203,  46288,
    48421,   50606,   52850,   55156,   57534,   59989,   62532,   65173,  67924,  70800,  73819,
    77004,   80382,   83988,   87868,   92083,   96717,   101894,  107797, 114733, 123260, 134594,
    152460,  202521,  215648};
// kNormal holds the standard normal distribution's quantiles times 65536.

// 2^(1/2), 2^(1/4), 2^(1/8) ... times 2^32.
constexpr std::array<std::uint64_t, 16> kRootsOfTwo = {
    6074000999, 5107605667, 4683695047, 4485121743, 4389014833, 4341736423, 4318288543, 4306612133,
    4300785773, 4297875550, 4296421177, 4295694174, 4295330720, 4295149004, 4295058149, 4295012722};

// Linear between the quantiles around a uniform draw of one part in a million.
template <typename Value>
std::int64_t draw(const std::array<Value, kQuantileCount>& quantiles, Random* random) {
  const auto part = static_cast<std::int64_t>(random->below(1'000'000));
  const std::size_t index = part < 990'000   ? static_cast<std::size_t>(part / 10'000)
                            : part < 999'000 ? 99
                                             : 100;
  const std::int64_t begin = index <= 99 ? static_cast<std::int64_t>(index) * 10'000 : 999'000;
  const std::int64_t end = index < 99 ? begin + 10'000 : index == 99 ? 999'000 : 1'000'000;
  const auto low = static_cast<std::int64_t>(quantiles[index]);
  const auto high = static_cast<std::int64_t>(quantiles[index + 1]);
  return low + (high - low) * (part - begin) / (end - begin);
}

// median * 2^(exponent / 65536).
std::uint64_t scaled(std::uint64_t median, std::int64_t exponent) {
  __extension__ using Wide = unsigned __int128;
  const std::int64_t whole = exponent >> 16;
  const std::uint64_t fraction = static_cast<std::uint64_t>(exponent & 0xFFFF);
  std::uint64_t factor = std::uint64_t{1} << 32;
  for (std::size_t i = 0; i < kRootsOfTwo.size(); ++i) {
    if ((fraction >> (15 - i) & 1) != 0) {
      factor = static_cast<std::uint64_t>((static_cast<Wide>(factor) * kRootsOfTwo[i]) >> 32);
    }
  }
  const Wide product = static_cast<Wide>(median) * factor;
  return static_cast<std::uint64_t>(whole >= 0 ? (product << whole) >> 32
                                               : product >> (32 - whole));
}

// `normal` of the standard normal distribution, times 65536.
std::uint64_t lognormal(const LengthSettings& settings, std::int64_t normal) {
  // 94548 / 65536 is log2(e). With sigma at most 300 percent the exponent stays below 16.
  const std::int64_t exponent =
      normal * static_cast<std::int64_t>(settings.sigma_percent) / 100 * 94'548 / 65'536;
  return scaled(settings.median, exponent);
}

}  // namespace

RequestLengths draw_lengths(const LengthSettings& settings, Random* random) {
  const bool is_longest =
      settings.longest_percent > 0 && random->below(100) < settings.longest_percent;
  const auto pick = [&](const auto& quantiles) {
    return is_longest ? std::int64_t{quantiles.back()} : draw(quantiles, random);
  };
  std::uint64_t context = 0, generated = 0;
  switch (settings.source) {
    case LengthSource::Conversation:
      context = static_cast<std::uint64_t>(pick(kConvContext));
      generated = static_cast<std::uint64_t>(pick(kConvGenerated));
      break;
    case LengthSource::Code:
      context = static_cast<std::uint64_t>(pick(kCodeContext));
      generated = static_cast<std::uint64_t>(pick(kCodeGenerated));
      break;
    case LengthSource::Lognormal:
      context = lognormal(settings, pick(kNormal));
      generated = lognormal(settings, pick(kNormal));
      break;
  }
  return {.context = std::clamp<std::uint64_t>(context, 1, settings.context_max),
          .generated = std::min(generated, settings.generated_max)};
}

}  // namespace allocmark

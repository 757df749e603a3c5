// The tables below were computed from the Azure Public Dataset, "AzureLLMInferenceTrace" 2023
// (Patel et al., Splitwise, ISCA 2024), licensed CC-BY 4.0. How close the processes come to the
// traces is in workloads/FIDELITY.md.
#include "workloads/serving/arrivals.h"

#include <array>

#include "workloads/serving/fixed_math.h"

namespace allocmark {
namespace {

// Quantiles of gaps at 0, 1, 2 ... 99, 99.1, 99.2 ... 99.9 and 100 percent.
constexpr std::size_t kPointCount = 110;

// Code, us. The trace is cut into blocks of 32 gaps and these into four classes by their mean:
// moods of the server's users, in which gaps are drawn independently.
constexpr std::uint64_t kMoodGapCount = 32;
constexpr std::array<std::uint32_t, kPointCount> kCodeFast = {
    6,      22,     40,     54,     63,     73,     81,     95,     110,    125,    146,
    164,    186,    210,    234,    268,    562,    725,    783,    812,    847,    874,
    907,    934,    968,    1013,   1030,   1053,   1087,   1125,   1177,   1217,   1323,
    1481,   1670,   1776,   1853,   1925,   1981,   2038,   2181,   2312,   2477,   2637,
    2884,   3044,   3218,   3420,   3577,   3790,   3964,   4119,   4375,   4818,   5138,
    5426,   6014,   6641,   7514,   9619,   13305,  19370,  27508,  31004,  33710,  36439,
    38895,  41847,  45749,  49818,  53589,  56684,  59181,  63723,  66648,  74212,  80643,
    88239,  91110,  92018,  92689,  93289,  94258,  94878,  95286,  95794,  96404,  96994,
    97572,  98225,  98773,  99312,  100222, 100996, 102494, 106114, 155558, 192985, 198285,
    238370, 294335, 297733, 300987, 303571, 308278, 380437, 395720, 406828, 501367, 599707};
constexpr std::array<std::uint32_t, kPointCount> kCodeBusy = {
    6,      13,     34,     53,     78,     86,     103,    121,    139,    159,    183,
    226,    277,    673,    815,    885,    935,    985,    1043,   1095,   1209,   1407,
    1771,   1962,   2137,   2408,   2762,   3044,   3288,   3596,   4024,   4500,   4888,
    5438,   6026,   6948,   8552,   10972,  13958,  16763,  19695,  23360,  27064,  29553,
    32795,  36169,  40302,  44928,  50590,  54631,  59560,  63481,  67692,  71959,  75824,
    79428,  83616,  88527,  90628,  91857,  92942,  93667,  94618,  95105,  95872,  96421,
    96940,  97535,  98115,  98522,  98975,  99466,  99812,  100086, 100282, 100831, 101304,
    102212, 103360, 105475, 110545, 119526, 129873, 139154, 156126, 166398, 181057, 192448,
    195997, 198112, 200070, 201949, 204635, 223936, 256095, 296119, 300294, 331133, 397355,
    600214, 604922, 622247, 685350, 701437, 708922, 809304, 874955, 910904, 990730, 2205491};
constexpr std::array<std::uint32_t, kPointCount> kCodeCalm = {
    6,       24,      48,      65,      82,      110,     135,     156,     194,     253,
    593,     833,     952,     1046,    1147,    1375,    1615,    2048,    2284,    2590,
    2967,    3242,    3764,    4269,    5008,    5872,    7511,    8842,    12019,   17353,
    21466,   25050,   30403,   38659,   48381,   57176,   65370,   71411,   76706,   80693,
    86737,   90699,   92142,   93521,   94471,   95220,   95901,   96538,   97048,   97539,
    97894,   98382,   98800,   99152,   99598,   99893,   100260,  100687,  101128,  101545,
    102149,  103047,  103962,  106529,  113439,  120233,  128132,  138634,  153377,  166358,
    175150,  186758,  192762,  195526,  196966,  198292,  199403,  199956,  200842,  203109,
    208171,  223863,  243308,  266330,  280470,  293420,  298090,  299947,  302877,  311971,
    339188,  388855,  400432,  426206,  463104,  499836,  575985,  659896,  799545,  1200800,
    1428244, 1590749, 1665211, 1867731, 1999265, 2019727, 2288335, 2548510, 3407566, 3803663};
constexpr std::array<std::uint32_t, kPointCount> kCodeIdle = {
    6,         24,       50,       74,       88,       111,      142,      171,      211,
    287,       644,      816,      883,      965,      1047,     1123,     1218,     1438,
    1659,      1889,     2084,     2261,     2527,     2877,     3171,     3517,     4069,
    4711,      5408,     6017,     7001,     8235,     12154,    16764,    21948,    30685,
    37843,     45026,    50241,    57650,    63927,    71857,    79193,    85132,    89092,
    91347,     92561,    93306,    94168,    94854,    95556,    96237,    96923,    97700,
    98212,     98694,    99054,    99457,    99844,    100187,   100713,   101287,   101760,
    102484,    103110,   104057,   107111,   116947,   124212,   132967,   141799,   159425,
    174123,    187487,   193338,   195846,   197694,   198741,   199951,   200875,   202972,
    214575,    234772,   260692,   281938,   296691,   300565,   316674,   358982,   392550,
    402036,    468296,   502067,   599444,   701037,   905872,   1697948,  3179858,  9883824,
    38367119,  40110066, 41339642, 45328648, 50378481, 65145876, 79185114, 89755957, 132390324,
    163301179, 217168952};
constexpr std::array<const std::array<std::uint32_t, kPointCount>*, 4> kMoods = {
    &kCodeFast, &kCodeBusy, &kCodeCalm, &kCodeIdle};
// The mean of all of the trace's gaps, us. The tables' own mean, straight lines between their
// points, is 0.6 % above it.
constexpr std::uint64_t kCodeMeanGapUs = 389'652;

// Conversation: gaps times the rate of their minute, in millionths of a mean gap, and requests in
// each minute.
constexpr std::array<std::uint32_t, kPointCount> kConvGap = {
    14,      2945,    8328,    15026,   25433,   37599,   47776,   58947,   70506,   82471,
    94075,   105717,  117785,  129038,  141193,  153183,  165741,  175993,  188454,  200341,
    213488,  226429,  238427,  251504,  265172,  277726,  291073,  305937,  320859,  333766,
    347543,  361154,  374886,  389245,  404647,  421491,  434457,  450186,  466313,  483876,
    500061,  514298,  531567,  550904,  566503,  582825,  601748,  620540,  638951,  658850,
    679989,  701300,  722451,  744634,  765927,  788257,  811492,  836487,  862855,  888323,
    912324,  937347,  963028,  988795,  1017908, 1048261, 1075351, 1108374, 1141008, 1174730,
    1211156, 1241854, 1280446, 1313952, 1352493, 1394704, 1435297, 1477632, 1525628, 1573100,
    1618029, 1672005, 1724065, 1781662, 1839425, 1900423, 1965437, 2034929, 2120964, 2202145,
    2311836, 2432366, 2550174, 2690183, 2860747, 3042470, 3276963, 3598991, 3985319, 4720978,
    4811333, 4952710, 5092589, 5212988, 5468786, 5668832, 6025775, 6338072, 7409067, 13734743};
constexpr std::array<std::uint16_t, 58> kConvMinutes = {
    191, 265, 329, 353, 307, 273, 268, 261, 322, 298, 301, 302, 345, 326, 283,
    279, 280, 308, 343, 351, 351, 343, 408, 396, 386, 398, 432, 480, 476, 453,
    448, 507, 438, 413, 423, 418, 465, 311, 329, 316, 333, 355, 319, 360, 334,
    375, 330, 249, 221, 249, 265, 280, 256, 254, 242, 260, 246, 225};
constexpr std::uint64_t kConvMeanGapUs = 180'818;
constexpr std::uint64_t kMinuteUs = 60'000'000;

// Linear between the points around a uniform draw of one part in a million.
std::uint64_t draw(const std::array<std::uint32_t, kPointCount>& points, Random* random) {
  const std::uint64_t part = random->below(1'000'000);
  const bool in_tail = part >= 990'000;
  const std::uint64_t width = in_tail ? 1'000 : 10'000;
  const std::uint64_t begin = in_tail ? 990'000 : 0;
  const std::uint64_t step = (part - begin) / width;
  const auto index = static_cast<std::size_t>((in_tail ? 99 : 0) + step);
  const std::uint64_t low = points[index];
  return low + (points[index + 1] - low) * (part - begin - step * width) / width;
}

}  // namespace

std::uint64_t own_rate_per_minute(ArrivalSource source) {
  if (source == ArrivalSource::Code) return kMinuteUs / kCodeMeanGapUs;
  if (source == ArrivalSource::Conversation) return kMinuteUs / kConvMeanGapUs;
  return 0;
}

Arrivals::Arrivals(const ArrivalSettings& settings, std::uint64_t seed)
    : settings_(settings), random_(seed), mean_gap_ns_(60'000'000'000 / settings.per_minute) {
  if (settings_.source == ArrivalSource::Conversation) {
    minute_ = static_cast<std::size_t>(random_.below(kConvMinutes.size()));
  }
}

std::uint64_t Arrivals::code_gap_us() {
  if (left_in_block_ == 0) {
    left_in_block_ = kMoodGapCount;
    mood_ = static_cast<std::size_t>(random_.below(kMoods.size()));
  }
  --left_in_block_;
  return draw(*kMoods[mood_], &random_);
}

// The gap is a number of mean gaps, walked through minutes of different rates.
std::uint64_t Arrivals::conversation_gap_us() {
  std::uint64_t left = draw(kConvGap, &random_);  // millionths of a mean gap
  std::uint64_t gap_us = 0;
  while (true) {
    const std::uint64_t rate = kConvMinutes[minute_];
    const std::uint64_t until_end = (kMinuteUs - minute_us_) * rate / 60;
    if (left < until_end) {
      const std::uint64_t step_us = left * 60 / rate;
      minute_us_ += step_us;
      return gap_us + step_us;
    }
    left -= until_end;
    gap_us += kMinuteUs - minute_us_;
    minute_us_ = 0;
    minute_ = (minute_ + 1) % kConvMinutes.size();
  }
}

std::uint64_t Arrivals::next_ns() {
  switch (settings_.source) {
    case ArrivalSource::Poisson:
      now_ns_ += multiply_q32(draw_exponential_q32(&random_), mean_gap_ns_);
      break;
    case ArrivalSource::Gamma: {
      const std::uint64_t shape =
          scale(kQ32One, 10'000, settings_.cv_percent * settings_.cv_percent);
      now_ns_ += scale(draw_gamma_q32(shape, &random_), mean_gap_ns_, shape);
      break;
    }
    case ArrivalSource::Code:
      trace_us_ += code_gap_us();
      now_ns_ = scale(trace_us_, mean_gap_ns_, kCodeMeanGapUs);
      break;
    case ArrivalSource::Conversation:
      trace_us_ += conversation_gap_us();
      now_ns_ = scale(trace_us_, mean_gap_ns_, kConvMeanGapUs);
      break;
  }
  return now_ns_;
}

}  // namespace allocmark

// See release_conf.h.
#include "allocators/rmm/release_conf.h"

#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/rmm/resource.h"
#include "base/bytes.h"

namespace allocmark::rmm {
namespace {

constexpr ConfRange kMegabytes{.lowest = 0, .highest = kTiB / kMiB};
constexpr ConfRange kExponents{.lowest = 8, .highest = 30};

void read_initial_bytes(ConfReader& reader, const ConfPair& pair, ReleaseConf& conf) {
  conf.initial_bytes = reader.number(pair, {.lowest = 0, .highest = kTiB});
  if (*conf.initial_bytes % kAlignmentBytes != 0) reader.fail(pair, "a multiple of 256");
}

// Whether the chosen resource knows the key.
bool fits(std::string_view key, const ReleaseConf& conf) {
  const bool fixed = conf.resource == ResourceKind::FixedSize;
  const bool binning = conf.resource == ResourceKind::Binning;
  const bool pooled = conf.resource == ResourceKind::Pool || conf.on_pool;
  if (key == "resource" || key == "limit_mb") return true;
  if (key == "upstream") return fixed || binning;
  if (key == "initial_mb" || key == "initial_bytes")
    return pooled || conf.resource == ResourceKind::Arena ||
           conf.resource == ResourceKind::CudaAsync;
  if (key == "max_mb") return pooled;
  if (key == "block_kb" || key == "block_count") return fixed;
  if (key == "release_threshold_mb") return conf.resource == ResourceKind::CudaAsync;
  return binning;
}

void check_sizes(ConfReader& reader, const ConfPair& last, const ReleaseConf& conf) {
  if (conf.initial_bytes && conf.bytes_max && *conf.initial_bytes > *conf.bytes_max)
    reader.fail(last, "initial size <= max_mb");
  if (conf.bin_exponent_min > conf.bin_exponent_max) reader.fail(last, "min_bin <= max_bin");
  if (conf.resource == ResourceKind::Arena && conf.initial_bytes.value_or(kMiB) < kMiB)
    reader.fail(last, "an arena of at least 1 MiB");
}

void check_keys(ConfReader& reader, const std::vector<ConfPair>& pairs, ReleaseConf& conf) {
  // As the plugin of `rmm` has it.
  if (std::ranges::find(pairs, "upstream", &ConfPair::key) == pairs.end())
    conf.on_pool = conf.resource == ResourceKind::Binning;
  for (const ConfPair& pair : pairs) {
    if (!fits(pair.key, conf)) reader.fail(pair, "a key of the chosen resource");
  }
  if (!pairs.empty()) check_sizes(reader, pairs.back(), conf);
}

}  // namespace

ConfFormat<ReleaseConf> release_conf_format() {
  using Conf = ReleaseConf;
  return {
      .keys = {word_key("resource", &Conf::resource,
                        {"pool", "arena", "binning", "fixed_size", "cuda", "cuda_async"}),
               word_key("upstream", &Conf::on_pool, {"cuda", "pool"}),
               number_key("initial_mb", &Conf::initial_bytes, kMegabytes, kMiB),
               {"initial_bytes", read_initial_bytes},
               number_key("max_mb", &Conf::bytes_max, kMegabytes, kMiB),
               number_key("limit_mb", &Conf::limit_bytes, kMegabytes, kMiB),
               number_key("block_kb", &Conf::block_bytes, {.lowest = 1, .highest = kGiB / kKiB},
                          kKiB),
               number_key("block_count", &Conf::block_count, {.lowest = 1, .highest = 1'000'000}),
               number_key("min_bin", &Conf::bin_exponent_min, kExponents),
               number_key("max_bin", &Conf::bin_exponent_max, kExponents),
               number_key("release_threshold_mb", &Conf::threshold_bytes, kMegabytes, kMiB)},
      .check = check_keys};
}

}  // namespace allocmark::rmm

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

void read_sizes(ConfReader& reader, const ConfPair& pair, ReleaseConf* conf) {
  if (pair.key == "initial_mb") {
    conf->initial_bytes = reader.number(pair, kMegabytes) * kMiB;
  } else if (pair.key == "initial_bytes") {
    conf->initial_bytes = reader.number(pair, {.lowest = 0, .highest = kTiB});
    if (*conf->initial_bytes % kAlignmentBytes != 0) reader.fail(pair, "a multiple of 256");
  } else if (pair.key == "max_mb") {
    conf->bytes_max = reader.number(pair, kMegabytes) * kMiB;
  } else if (pair.key == "limit_mb") {
    conf->limit_bytes = reader.number(pair, kMegabytes) * kMiB;
  } else if (pair.key == "block_kb") {
    conf->block_bytes = reader.number(pair, {.lowest = 1, .highest = kGiB / kKiB}) * kKiB;
  } else if (pair.key == "block_count") {
    conf->block_count = reader.number(pair, {.lowest = 1, .highest = 1'000'000});
  } else if (pair.key == "release_threshold_mb") {
    conf->threshold_bytes = reader.number(pair, kMegabytes) * kMiB;
  } else if (pair.key == "min_bin") {
    conf->bin_exponent_min = static_cast<std::uint32_t>(reader.number(pair, kExponents));
  } else if (pair.key == "max_bin") {
    conf->bin_exponent_max = static_cast<std::uint32_t>(reader.number(pair, kExponents));
  }
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

void read_keys(ConfReader& reader, const std::vector<ConfPair>& pairs, ReleaseConf& conf) {
  std::optional<bool> on_pool;
  for (const ConfPair& pair : pairs) {
    if (pair.key == "resource") {
      conf.resource = static_cast<ResourceKind>(
          reader.word(pair, {"pool", "arena", "binning", "fixed_size", "cuda", "cuda_async"}));
    } else if (pair.key == "upstream") {
      on_pool = reader.word(pair, {"cuda", "pool"}) == 1;
    } else {
      read_sizes(reader, pair, &conf);
    }
  }
  // As the plugin of `rmm` has it.
  conf.on_pool = on_pool.value_or(conf.resource == ResourceKind::Binning);
  for (const ConfPair& pair : pairs) {
    if (!fits(pair.key, conf)) reader.fail(pair, "a key of the chosen resource");
  }
  if (!pairs.empty()) check_sizes(reader, pairs.back(), conf);
}

}  // namespace

std::vector<std::string> release_conf_keys() {
  return {"resource",
          "upstream",
          "initial_mb",
          "initial_bytes",
          "max_mb",
          "limit_mb",
          "block_kb",
          "block_count",
          "min_bin",
          "max_bin",
          "release_threshold_mb"};
}

ConfResult<ReleaseConf> read_release_conf(std::string_view text) {
  return read_pairs(text, release_conf_keys(), ReleaseConf{}, read_keys);
}

}  // namespace allocmark::rmm

// The keys of PyTorch's snapshots that mean something to us; all others are read over.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace allocmark {

enum class SnapshotKey : std::uint8_t {
  None,
  Action,
  Addr,
  Address,
  Blocks,
  Device,
  DeviceFree,
  Filename,
  Frames,
  History,
  InternalMetadata,
  IsExpandable,
  Line,
  Name,
  PoolId,
  RealSize,
  RequestedSize,
  SegmentPoolId,
  SegmentType,
  Size,
  Stage,
  State,
  Stream,
  TimeUs,
  TotalSize,
};

// By key; None has no name.
inline constexpr std::array<std::string_view, 25> kSnapshotKeyNames = {"",
                                                                       "action",
                                                                       "addr",
                                                                       "address",
                                                                       "blocks",
                                                                       "device",
                                                                       "device_free",
                                                                       "filename",
                                                                       "frames",
                                                                       "history",
                                                                       "internal_metadata",
                                                                       "is_expandable",
                                                                       "line",
                                                                       "name",
                                                                       "pool_id",
                                                                       "real_size",
                                                                       "requested_size",
                                                                       "segment_pool_id",
                                                                       "segment_type",
                                                                       "size",
                                                                       "stage",
                                                                       "state",
                                                                       "stream",
                                                                       "time_us",
                                                                       "total_size"};

}  // namespace allocmark

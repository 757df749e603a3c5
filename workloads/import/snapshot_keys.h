// The keys of PyTorch's snapshots that mean something to us; all others are read over.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

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

inline constexpr std::array<std::pair<std::string_view, SnapshotKey>, 24> kSnapshotKeys = {{
    {"action", SnapshotKey::Action},
    {"addr", SnapshotKey::Addr},
    {"address", SnapshotKey::Address},
    {"blocks", SnapshotKey::Blocks},
    {"device", SnapshotKey::Device},
    {"device_free", SnapshotKey::DeviceFree},
    {"filename", SnapshotKey::Filename},
    {"frames", SnapshotKey::Frames},
    {"history", SnapshotKey::History},
    {"internal_metadata", SnapshotKey::InternalMetadata},
    {"is_expandable", SnapshotKey::IsExpandable},
    {"line", SnapshotKey::Line},
    {"name", SnapshotKey::Name},
    {"pool_id", SnapshotKey::PoolId},
    {"real_size", SnapshotKey::RealSize},
    {"requested_size", SnapshotKey::RequestedSize},
    {"segment_pool_id", SnapshotKey::SegmentPoolId},
    {"segment_type", SnapshotKey::SegmentType},
    {"size", SnapshotKey::Size},
    {"stage", SnapshotKey::Stage},
    {"state", SnapshotKey::State},
    {"stream", SnapshotKey::Stream},
    {"time_us", SnapshotKey::TimeUs},
    {"total_size", SnapshotKey::TotalSize},
}};

}  // namespace allocmark

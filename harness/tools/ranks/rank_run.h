// One rank while it replays: its device, allocator, streams and place in the schedule. All of it is
// made, used and destroyed on the rank's own thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "allocators/backend/backend.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/tools/ranks/rank_trace.h"
#include "harness/tools/ranks/ranks.h"
#include "harness/tools/ranks/schedule.h"
#include "harness/tools/ranks/watched_backend.h"

namespace allocmark {

// Written by the rank that waits for another: turns keep ranks apart.
struct RankWaits {
  std::uint64_t wait_ns = 0, delay_ns = 0;
};

struct RankPlace {
  const RanksSpec* spec = nullptr;
  const BackendEntry* entry = nullptr;
  const RankTrace* trace = nullptr;
  Backend* shared_backend = nullptr;  // of all ranks, which has a state per device; or null
  Schedule* schedule = nullptr;
  std::vector<RankWaits>* waits = nullptr;
  std::uint32_t index = 0;  // of the rank and its device
};

class RankRun {
 public:
  // Takes the device, makes streams, holds memory back. The calling thread is the rank's.
  explicit RankRun(const RankPlace& place);
  RankRun(const RankRun&) = delete;

  // Replays to the end, to the first failure, or to a meeting that never happens.
  [[nodiscard]] RankRow run();

 private:
  void mark(const ReplayStep& step);
  void note_failure(std::uint64_t asked_bytes);
  // False where the others never come.
  [[nodiscard]] bool meet(const ReplayStep& step);
  void note_stall(const std::string& label, const Arrival& arrival);
  // The rank's work on its streams goes on at that time.
  void go_on_at(std::uint64_t time_ns, std::uint32_t stream);
  [[nodiscard]] std::uint64_t now_ns() const;
  // When all work that the rank has queued is done.
  [[nodiscard]] std::uint64_t work_end_ns() const;
  void note_reserved();
  void finish();
  [[nodiscard]] std::uint64_t used_bytes_max() const;

  RankPlace place_;
  SimcuApi simcu_;
  const RankSpec& own_;
  std::unique_ptr<StreamSet> streams_;
  std::unique_ptr<DeviceWork> work_;
  cudaEvent_t met_ = nullptr;
  Ballast ballast_;
  std::unique_ptr<Backend> own_backend_;
  Backend* backend_ = nullptr;
  std::unique_ptr<WatchedBackend> watched_;
  std::unique_ptr<Replayer> replayer_;
  std::uint64_t begin_ns_ = 0;
  std::uint64_t used_bytes_begin_ = 0;
  std::string step_;
  RankRow row_;
};

}  // namespace allocmark

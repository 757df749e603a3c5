// Launches of executable graphs. In: a plan and a stream. Out: its work on the device's queue, with
// the effect on memory of each node in the plan's order, and the memory that it needs.
//
// Nodes that no dependency orders overlap, so that a graph takes as long as its longest path.
// Where a node is more than work (an event, a host function, a gate, a free), all that came earlier
// in the plan is ordered before it.
#include <algorithm>
#include <mutex>

#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/graph.h"
#include "harness/simcuda/shim/host_functions.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

class GraphRun {
 public:
  GraphRun(ThreadState& thread, SimulatedDevice& device, StreamId stream)
      : thread_(thread), device_(device), stream_(stream) {}

  cudaError_t run(const GraphPlan& plan) {
    static_cast<void>(run_nodes(plan, {}));
    flush();
    return error_;
  }

 private:
  // When a node ends: after so much time since the last flush, or before that flush.
  struct Moment {
    std::uint64_t flush_count = 0;
    std::uint64_t after_ns = 0;
    auto operator<=>(const Moment&) const = default;
  };

  Moment run_nodes(const GraphPlan& plan, Moment begin) {
    Moment last = begin;
    std::vector<Moment> ends;
    for (const PlannedNode& node : plan.nodes) {
      Moment start = begin;
      for (const std::uint32_t before : node.dependencies) start = std::max(start, ends[before]);
      ends.push_back(run_node(*node.work, plan, start));
      last = std::max(last, ends.back());
    }
    return last;
  }

  Moment run_node(const NodeWork& work, const GraphPlan& plan, Moment start) {
    switch (work.kind) {
      case NodeKind::Empty:
        return start;
      case NodeKind::Work: {
        const NodeRun done = work.run();
        note(done.error);
        if (start.flush_count != flush_count_) start = {.flush_count = flush_count_};
        start.after_ns += done.duration_ns;
        longest_ns_ = std::max(longest_ns_, start.after_ns);
        has_work_ = true;
        has_kernel_ |= work.type == cudaGraphNodeTypeKernel;
        return start;
      }
      case NodeKind::Allocate: {
        const std::lock_guard lock(device_.mutex);
        if (!device_.core.graph_memory().begin_block(plan.arena, work.block)) {
          note(cudaErrorInvalidValue);
        }
        return start;
      }
      case NodeKind::Child:
        return run_nodes(*work.child, start);
      default:
        flush();
        note(do_in_order(work));
        return {.flush_count = flush_count_};
    }
  }

  cudaError_t do_in_order(const NodeWork& work) {
    if (work.kind == NodeKind::HostFunction) {
      return enqueue_host_function(thread_, device_, stream_, {work.function, work.data});
    }
    const std::lock_guard lock(device_.mutex);
    StreamOrder& order = device_.core.streams();
    if (work.kind == NodeKind::Free) {
      const bool freed =
          device_.core.graph_memory().end_block(work.block.lo, stream_, thread_.now_ns());
      return freed ? cudaSuccess : cudaErrorInvalidValue;
    }
    if (work.kind == NodeKind::Gate) {
      return to_error(order.launch_gated(stream_, work.gate, thread_.now_ns()).status);
    }
    SimEvent& event = *work.event;
    if (!event.live || event.id != work.event_id || event.device != &device_) {
      return cudaErrorInvalidResourceHandle;
    }
    if (work.kind == NodeKind::WaitEvent) {
      return to_error(order.wait(stream_, event.id, thread_.now_ns()));
    }
    event.capture_id = 0;
    return to_error(order.record(event.id, stream_, thread_.now_ns()));
  }

  // What has been gathered becomes one piece of work of the stream.
  void flush() {
    ++flush_count_;
    if (!has_work_) return;
    const std::lock_guard lock(device_.mutex);
    StreamOrder& order = device_.core.streams();
    const Outcome outcome = has_kernel_ ? order.launch(stream_, longest_ns_, thread_.now_ns())
                                        : order.copy(stream_, longest_ns_, thread_.now_ns());
    charge_work(thread_, device_, outcome.work);
    note(to_error(outcome.status));
    has_work_ = false;
    has_kernel_ = false;
    longest_ns_ = 0;
  }

  void note(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }

  ThreadState& thread_;
  SimulatedDevice& device_;
  StreamId stream_;
  std::uint64_t flush_count_ = 0;
  std::uint64_t longest_ns_ = 0;
  bool has_work_ = false;
  bool has_kernel_ = false;
  cudaError_t error_ = cudaSuccess;
};

// What a launch needs of an executable graph, which another thread may destroy meanwhile.
struct Launchable {
  std::shared_ptr<const GraphPlan> plan;
  std::uint64_t flags = 0;
  EventId last_end = 0;  // 0: no launch on this device yet
};

Launchable find_launchable(cudaGraphExec_t handle, const SimulatedDevice& device) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphExec* const exec = resolve_exec(handle);
  if (exec == nullptr) return {};
  return {.plan = exec->plan,
          .flags = exec->flags,
          .last_end = exec->last_device == &device ? exec->last_end : 0};
}

// Memory is put behind the graph's addresses, ordered behind its last launch. With the lock.
cudaError_t prepare(ThreadState& thread, SimulatedDevice& device, StreamId stream,
                    const Launchable& what) {
  if (what.last_end != 0) {
    static_cast<void>(device.core.streams().wait(stream, what.last_end, thread.now_ns()));
  }
  if (what.plan->arena == 0) return cudaSuccess;
  const Outcome mapped = device.core.graph_memory().map(what.plan->arena, stream, thread.now_ns());
  charge_work(thread, device, mapped.work);
  if (mapped.work.chunks_mapped != 0) {
    thread.charge(CostId::MallocAsyncChunks, mapped.work.chunks_mapped, device.core.used_bytes());
  }
  return to_error(mapped.status);
}

// Blocks that an earlier launch left. With the lock.
cudaError_t check_unfreed(ThreadState& thread, SimulatedDevice& device, StreamId stream,
                          const Launchable& what) {
  for (const Range range : what.plan->unfreed) {
    GraphMemory& memory = device.core.graph_memory();
    if (memory.find_block(range.lo).empty()) continue;
    if ((what.flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) == 0) return cudaErrorInvalidValue;
    static_cast<void>(memory.end_block(range.lo, stream, thread.now_ns()));
  }
  return cudaSuccess;
}

// The next launch comes behind this one.
void note_end(ThreadState& thread, SimulatedDevice& device, StreamId stream, cudaGraphExec_t handle,
              const Launchable& what) {
  const std::lock_guard graph_lock(graph_mutex());
  SimGraphExec* const exec = resolve_exec(handle);
  const std::lock_guard lock(device.mutex);
  if (what.plan->arena != 0) device.core.graph_memory().ran(what.plan->arena, stream);
  if (exec == nullptr || exec->plan != what.plan) return;  // destroyed, or updated, meanwhile
  StreamOrder& order = device.core.streams();
  if (exec->last_end == 0) {
    exec->last_end = order.create_event();
    exec->last_device = &device;
  }
  if (exec->last_device == &device) {
    static_cast<void>(order.record(exec->last_end, stream, thread.now_ns()));
  }
}

// Children of children multiply.
constexpr std::size_t kChildNodesMax = 10'000;

// Counts no further than one beyond the limit.
std::size_t count_nodes(const GraphPlan& plan, std::size_t limit) {
  std::size_t count = 0;
  for (const PlannedNode& node : plan.nodes) {
    ++count;
    if (node.work->child != nullptr && count <= limit) {
      count += count_nodes(*node.work->child, limit - count);
    }
    if (count > limit) break;
  }
  return count;
}

bool is_elsewhere(const GraphPlan& plan, const SimulatedDevice& device) {
  return plan.device != nullptr && plan.device != &device;
}

}  // namespace

cudaError_t check_child(ThreadState& thread, const GraphPlan& plan, const SimulatedDevice* device) {
  if (plan.has_memory_nodes || device == nullptr || is_elsewhere(plan, *device)) {
    return explain(thread, cudaErrorNotSupported,
                   "simcuda: a graph with memory nodes, or of another device, is no child");
  }
  if (count_nodes(plan, kChildNodesMax) > kChildNodesMax) {
    return explain(thread, cudaErrorNotSupported, "simcuda: a child has at most 10000 nodes");
  }
  return cudaSuccess;
}

namespace {

cudaError_t launch_graph(ThreadState& thread, cudaGraphExec_t exec, StreamRef ref) {
  SimulatedDevice& device = *ref.device;
  const Launchable what = find_launchable(exec, device);
  if (what.plan == nullptr) return cudaErrorInvalidValue;
  if (is_elsewhere(*what.plan, device)) {
    return explain(thread, cudaErrorNotSupported,
                   "simcuda: a graph is launched on another device than it was made for");
  }
  const TickScope ticks(thread);
  thread.charge(CostId::Launch);
  {
    const std::lock_guard lock(device.mutex);
    cudaError_t error = check_unfreed(thread, device, ref.id, what);
    if (error == cudaSuccess) error = prepare(thread, device, ref.id, what);
    if (error != cudaSuccess) return error;
  }
  const cudaError_t error = GraphRun(thread, device, ref.id).run(*what.plan);
  note_end(thread, device, ref.id, exec, what);
  return error;
}

cudaError_t launch_in_stream(ThreadState& thread, cudaGraphExec_t exec, cudaStream_t stream) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  if (ref.captured) [[unlikely]] {
    const Launchable what = find_launchable(exec, *ref.device);
    if (what.plan == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = check_child(thread, *what.plan, ref.device);
        error != cudaSuccess) {
      return error;
    }
    if (const Captured captured = capture_work(
            ref, {.kind = NodeKind::Child, .type = cudaGraphNodeTypeGraph, .child = what.plan})) {
      return *captured;
    }
  }
  return launch_graph(thread, exec, ref);
}

}  // namespace

cudaError_t upload_graph(ThreadState& thread, cudaGraphExec_t exec, cudaStream_t stream) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  const Launchable what = find_launchable(exec, *ref.device);
  if (what.plan == nullptr) return cudaErrorInvalidValue;
  if (is_elsewhere(*what.plan, *ref.device)) {
    return explain(thread, cudaErrorNotSupported,
                   "simcuda: a graph is uploaded to another device than it was made for");
  }
  if (const Captured captured = capture_forbids(ref)) return *captured;
  const std::lock_guard lock(ref.device->mutex);
  for (const Range range : what.plan->unfreed) {
    if (!ref.device->core.graph_memory().find_block(range.lo).empty()) return cudaSuccess;
  }
  thread.charge(CostId::Launch);
  return prepare(thread, *ref.device, ref.id, what);
}

SIMCUDA_TWINS(cudaGraphLaunch, cuGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream),
              (number(exec), number(stream)), launch_in_stream(thread, exec, stream))
SIMCUDA_TWINS(cudaGraphUpload, cuGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream),
              (number(exec), number(stream)), upload_graph(thread, exec, stream))

}  // namespace simcuda

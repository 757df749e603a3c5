// What cudaStreamSynchronize, cudaEventSynchronize and cudaDeviceSynchronize share: the calling
// thread's clock reaches the end of the work, and pools release what has become free.
#pragma once

#include <mutex>
#include <string>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/host_functions.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {

// `operation` asks the core, repeatedly where a gate is closed.
template <class Operation>
cudaError_t synchronize(ThreadState& thread, SimulatedDevice& device, CostId cost,
                        Operation operation) {
  const TickScope ticks(thread);
  std::unique_lock lock(device.mutex);
  const Outcome outcome = wait_for_gates(device, lock, operation);
  charge_work(thread, device, outcome.work);
  thread.charge(cost);
  lock.unlock();
  if (outcome.status == Status::Blocked) {
    return explain(
        thread, cudaErrorLaunchTimeout,
        "work waits for a gate that nobody opened in " + std::to_string(kGateWaitSeconds) + " s");
  }
  run_ready_host_functions(device, thread);
  return to_error(outcome.status);
}

}  // namespace simcuda

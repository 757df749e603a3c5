#include "harness/simcuda/shim/simulated_device.h"

#include <algorithm>
#include <utility>

#include "harness/simcuda/shim/charge_pinning.h"
#include "harness/simcuda/shim/handle_arena.h"
#include "harness/simcuda/shim/host_memory.h"
#include "harness/simcuda/shim/jumps.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

template <class T>
HandleArena<T>& arena() {
  return made_once<HandleArena<T>>();
}

// An object that was given back on this device, else a new one.
template <class T>
T* spare_or_new(std::vector<T*>* spare, SimulatedDevice* device) {
  if (!spare->empty()) {
    T* const object = spare->back();
    spare->pop_back();
    return object;
  }
  T* const object = arena<T>().add();
  if (object != nullptr) object->device = device;
  return object;
}

// Null where the handle is none of ours, or stale.
template <class T, class Handle>
T* live_object(Handle handle) {
  T* const object = arena<T>().find(handle);
  return object != nullptr && object->live ? object : nullptr;
}

DeviceConfig make_config(const Profile& profile, const MemoryContents& contents,
                         const DeviceSetup& setup) {
  DeviceConfig config = h200_config(setup.start);
  config.total_bytes = profile.total_bytes;
  config.free_bytes_initial = profile.free_bytes_initial;
  config.page_limit = profile.page_limit;
  config.chunk_limit = profile.chunk_limit;
  // The driver's first range ends 32 MiB above the base.
  config.base_address = contents.heap_window().hi - kChunkBytes;
  config.lowest_heap_address = contents.heap_window().lo;
  config.area_address = contents.area_window().lo;
  config.area_end_address = contents.area_window().hi;
  config.area_hole.lo += contents.area_moved_bytes();
  config.area_hole.hi += contents.area_moved_bytes();
  config.host_bytes = host_total_bytes();
  if (setup.capacity_bytes != 0) {
    config = with_usable_bytes(config, setup.capacity_bytes);
  } else if (setup.total_bytes != 0) {
    config = with_total_bytes(config, setup.total_bytes);
  }
  return with_shared_host(config, setup.host);
}

// A card without memory of its own says that it is integrated.
Profile of_setup(Profile profile, const DeviceSetup& setup) {
  if (setup.host.is_one_pool) profile.attributes[cudaDevAttrIntegrated] = 1;
  return profile;
}

std::uint64_t memory_bytes(const Profile& profile, const DeviceSetup& setup) {
  const std::uint64_t context_bytes = profile.total_bytes - profile.free_bytes_initial;
  if (setup.capacity_bytes != 0) return setup.capacity_bytes + context_bytes;
  return setup.total_bytes != 0 ? setup.total_bytes : profile.total_bytes;
}

}  // namespace

SimulatedDevice::SimulatedDevice(DevicePlace place, const Profile& device_profile,
                                 const DeviceSetup& setup)
    : node_index(place.index),
      index(place.index),
      profile(of_setup(device_profile, setup)),
      contents(place, memory_bytes(device_profile, setup)),
      core(make_config(device_profile, contents, setup)),
      cleaner(device_profile.clean_bytes_per_us),
      shared(place.index, contents, core),
      limits(device_profile.limits) {
  default_pool = new_pool(kDefaultPool);
  current_pool = default_pool;
}

void SimulatedDevice::set_index(int cuda_index) {
  index = cuda_index;
  default_pool->identity.location_id = cuda_index;
}

OwnNullStream::OwnNullStream()
    : thread_(this_thread()), before_(std::exchange(thread_.null_stream, cudaStreamPerThread)) {}

OwnNullStream::~OwnNullStream() { thread_.null_stream = static_cast<cudaStream_t>(before_); }

SimStream* SimulatedDevice::new_stream(StreamId id) {
  static std::atomic<std::uint64_t> next_number{
      13};  // the first stream of a process gets 13 on a real device
  SimStream* const stream = spare_or_new(&spare_streams_, this);
  if (stream == nullptr) return nullptr;
  if (stream->number == 0) streams_.push_back(stream);
  stream->id = id;
  stream->flags = 0;
  stream->priority = 0;
  stream->number = next_number++;
  stream->captured = false;
  stream->live = true;
  return stream;
}

SimEvent* SimulatedDevice::new_event(EventId id) {
  SimEvent* const event = spare_or_new(&spare_events_, this);
  if (event == nullptr) return nullptr;
  event->id = id;
  event->flags = 0;
  event->capture_id = 0;
  event->live = true;
  return event;
}

SimPool* SimulatedDevice::new_pool(PoolId id) {
  SimPool* const pool = arena<SimPool>().add();
  if (pool == nullptr) return nullptr;
  pool->device = this;
  pool->id = id;
  pool->identity.location_id = index;
  pool->live = true;
  return pool;
}

SimStream* SimulatedDevice::stream_handle(StreamId id) {
  for (SimStream* const stream : streams_) {
    if (stream->live && stream->id == id) return stream;
  }
  return nullptr;
}

void SimulatedDevice::recycle(SimStream* stream) {
  stream->live = false;
  spare_streams_.push_back(stream);
}

void SimulatedDevice::recycle(SimEvent* event) {
  event->live = false;
  spare_events_.push_back(event);
}

void SimulatedDevice::reset(std::uint64_t now_ns) {
  arena<SimStream>().for_each([&](SimStream& stream) {
    if (stream.device != this || !stream.live) return;
    static_cast<void>(core.destroy_stream(stream.id, now_ns));
    recycle(&stream);
  });
  arena<SimEvent>().for_each([&](SimEvent& event) {
    if (event.device != this || !event.live) return;
    static_cast<void>(core.streams().destroy_event(event.id));
    recycle(&event);
  });
  host_functions.clear();
  shared.end_all();
  for (const Range& range : core.free_heap()) contents.discard(range);
  limits = profile.limits;
}

Range SimulatedDevice::live_range(std::uint64_t address, std::uint64_t wanted_bytes) const {
  const MemoryBlock block = core.find(address);
  if (block.kind == MemoryKind::None) return {};
  Range range = block.range;
  if (block.kind == MemoryKind::Mapped) {
    auto& virtual_memory =
        const_cast<Device&>(core).virtual_memory();  // find() is const, the accessor is not
    while (range.hi - address < wanted_bytes) {
      const Mapping next = virtual_memory.find(range.hi);
      if (next.handle == 0) break;
      range.hi = next.range.hi;
    }
  }
  return range;
}

void* SimulatedDevice::view(std::uint64_t address, std::uint64_t size_bytes) {
  const Range range = live_range(address, size_bytes);
  if (range.empty() || size_bytes > range.hi - address) return nullptr;
  if (core.find(address).kind == MemoryKind::Mapped) {
    std::uint64_t at = address;
    do {
      const Mapping mapping = core.virtual_memory().find(at);
      if (!contents.attach(mapping)) return nullptr;
      at = mapping.range.hi;
    } while (at < address + size_bytes);
  }
  return contents.mirror(address, size_bytes);
}

void SimulatedDevice::drop_if_unused(MemoryHandle handle) {
  const auto found = handles.find(handle);
  if (found != handles.end() && found->second.reference_count == 0 &&
      found->second.mapping_count == 0) {
    contents.drop_handle(handle, found->second.size_bytes);
    handles.erase(found);
  }
}

SimulatedDevice* current_device(const ThreadState& thread) { return device_at(thread.device); }

StreamRef resolve_stream(ThreadState& thread, cudaStream_t stream) {
  const bool is_handle =
      stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
  if (!is_handle && thread.context == nullptr) return {.error = cudaErrorDeviceUninitialized};
  if (stream == nullptr) stream = thread.null_stream;
  if (stream == nullptr || stream == cudaStreamLegacy) {
    SimulatedDevice* const device = current_device(thread);
    promise_before(thread, device);
    return {.device = device,
            .captured = device != nullptr &&
                        device->blocking_capture_count.load(std::memory_order_relaxed) != 0};
  }
  if (stream == cudaStreamPerThread) {
    const std::size_t index = static_cast<std::size_t>(thread.device);
    if (thread.per_thread_streams.size() <= index) {
      thread.per_thread_streams.resize(index + 1);
    }
    if (live_object<SimStream>(thread.per_thread_streams[index]) == nullptr) {
      SimulatedDevice& device = *current_device(thread);
      const std::lock_guard lock(device.mutex);
      SimStream* made =
          device.new_stream(device.core.streams().create_stream(StreamKind::Blocking));
      if (made == nullptr) return {};
      thread.per_thread_streams[index] = reinterpret_cast<cudaStream_t>(made);
    }
    stream = thread.per_thread_streams[index];
  }
  const SimStream* const object = live_object<SimStream>(stream);
  if (object != nullptr) {
    promise_before(thread, object);
    promise_before(thread, object->device);
  }
  return object == nullptr ? StreamRef{}
                           : StreamRef{.device = object->device,
                                       .id = object->id,
                                       .stream = object,
                                       .captured = object->captured};
}

SimEvent* resolve_event(cudaEvent_t event) { return live_object<SimEvent>(event); }

SimPool* resolve_any_pool(cudaMemPool_t pool) { return live_object<SimPool>(pool); }

SimPool* resolve_pool(cudaMemPool_t pool) {
  SimPool* const object = resolve_any_pool(pool);
  return object == nullptr || object->is_imported ? nullptr : object;
}

SimulatedDevice* device_of_address(std::uint64_t address) {
  for (int i = 0; i < device_count(); ++i) {
    SimulatedDevice* device = device_at(i);
    if (device->contents.holds(address)) return device;
  }
  return nullptr;
}

cudaError_t to_error(Status status) {
  switch (status) {
    case Status::Ok:
      return cudaSuccess;
    case Status::OutOfMemory:
      return cudaErrorMemoryAllocation;
    case Status::InvalidValue:
      return cudaErrorInvalidValue;
    case Status::InvalidHandle:
      return cudaErrorInvalidResourceHandle;
    case Status::NotReady:
      return cudaErrorNotReady;
    case Status::Blocked:
      return cudaErrorLaunchTimeout;
  }
  return cudaErrorUnknown;
}

Status work_until(const ThreadState& thread, SimulatedDevice& device, StreamId stream,
                  std::uint64_t end_ns) {
  StreamOrder& order = device.core.streams();
  const Finish now = order.stream_finish(stream, thread.now_ns());
  const std::uint64_t begin_ns = std::max(now.finish_ns, thread.now_ns());
  if (now.status == Status::Ok && end_ns <= begin_ns) return Status::Ok;
  const std::uint64_t from_ns = now.status == Status::Ok ? begin_ns : thread.now_ns();
  return order.copy(stream, end_ns - std::min(end_ns, from_ns), thread.now_ns()).status;
}

void charge_work(ThreadState& thread, SimulatedDevice& device, const Work& work) {
  thread.advance_to(work.host_wait_until_ns);
  if (work.chunks_returned != 0) {
    thread.charge(CostId::ReleaseChunks, work.chunks_returned);
  }
  if (work.host_chunks_returned != 0) {
    const std::uint64_t each_ns =
        pinning_ns(PinCall::ReturnChunk, work.host_chunks_returned * kChunkBytes);
    charge_pinning(thread, PinCall::ReturnChunk, work.host_chunks_returned * each_ns);
  }
  note_pages(thread, device, thread.now_ns());
}

void note_pages(ThreadState& thread, SimulatedDevice& device, std::uint64_t moved_at_ns) {
  const std::uint64_t usable_bytes = device.core.config().page_limit * kPageBytes;
  const std::optional<std::uint64_t> clean_at_ns =
      device.cleaner.follow(device.core.used_bytes(), usable_bytes, moved_at_ns);
  if (clean_at_ns) {
    thread.charge(CostId::WaitForClean);
    thread.advance_to(*clean_at_ns);
  }
}

}  // namespace simcuda

// See user_objects.h.
#include "harness/simcuda/shim/user_objects.h"

#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "harness/simcuda/shim/graph.h"
#include "harness/simcuda/shim/handle_arena.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct UserObjects {
  std::mutex mutex;
  ReusedObjects<SimUserObject> objects;
  std::vector<std::pair<cudaHostFn_t, void*>> ended;  // destructors that are to be called
  std::uint64_t newest_number = 0;

  void release(SimUserObject& object, std::int64_t count) {
    object.reference_count -= count;
    if (object.reference_count != 0) return;
    ended.emplace_back(object.destroy, object.pointer);
    objects.give_back(object);
  }
  // Adds so many references, or takes them, for each one that is held.
  void change(const UserReferences& references, int sign) {
    for (const auto& [number, held] : references) {
      if (held.object->number == number) release(*held.object, -sign * held.count);
    }
  }
};
UserObjects& user_objects() { return made_once<UserObjects>(); }

constexpr unsigned kReferencesMax = std::numeric_limits<int>::max();
bool is_count(unsigned count) { return count != 0 && count <= kReferencesMax; }

cudaError_t create(cudaUserObject_t* result, void* pointer, cudaHostFn_t destroy, unsigned count,
                   unsigned flags) {
  if (result == nullptr || destroy == nullptr || !is_count(count) ||
      flags != cudaUserObjectNoDestructorSync) {
    return cudaErrorInvalidValue;
  }
  UserObjects& all = user_objects();
  const std::lock_guard lock(all.mutex);
  SimUserObject* const object = all.objects.add();
  if (object == nullptr) return cudaErrorMemoryAllocation;
  *object = {.live = true,
             .number = ++all.newest_number,
             .reference_count = count,
             .destroy = destroy,
             .pointer = pointer};
  *result = reinterpret_cast<cudaUserObject_t>(object);
  return cudaSuccess;
}

cudaError_t take(cudaUserObject_t handle, unsigned count) {
  UserObjects& all = user_objects();
  const std::lock_guard lock(all.mutex);
  SimUserObject* const object = all.objects.find(handle);
  if (object == nullptr || !is_count(count)) return cudaErrorInvalidValue;
  object->reference_count += count;
  return cudaSuccess;
}

cudaError_t give_back(cudaUserObject_t handle, unsigned count) {
  {
    UserObjects& all = user_objects();
    const std::lock_guard lock(all.mutex);
    SimUserObject* const object = all.objects.find(handle);
    if (object == nullptr || !is_count(count)) return cudaErrorInvalidValue;
    all.release(*object, count);
  }
  run_destructors();
  return cudaSuccess;
}

cudaError_t retain_in_graph(cudaGraph_t graph, cudaUserObject_t handle, unsigned count,
                            unsigned flags) {
  const std::lock_guard graph_lock(graph_mutex());
  SimGraph* const found = resolve_graph(graph);
  UserObjects& all = user_objects();
  const std::lock_guard lock(all.mutex);
  SimUserObject* const object = all.objects.find(handle);
  if (found == nullptr || object == nullptr || !is_count(count) ||
      (flags & ~unsigned{cudaGraphUserObjectMove}) != 0) {
    return cudaErrorInvalidValue;
  }
  if (flags == 0) object->reference_count += count;
  HeldReferences& held = found->user_objects[object->number];
  held = {.object = object, .count = held.count + count};
  return cudaSuccess;
}

cudaError_t release_from_graph(cudaGraph_t graph, cudaUserObject_t handle, unsigned count) {
  {
    const std::lock_guard graph_lock(graph_mutex());
    SimGraph* const found = resolve_graph(graph);
    UserObjects& all = user_objects();
    const std::lock_guard lock(all.mutex);
    SimUserObject* const object = all.objects.find(handle);
    if (found == nullptr || object == nullptr || !is_count(count)) return cudaErrorInvalidValue;
    HeldReferences& held = found->user_objects[object->number];
    held = {.object = object, .count = held.count - count};
    if (held.count == 0) found->user_objects.erase(object->number);
    all.release(*object, count);
  }
  run_destructors();
  return cudaSuccess;
}

}  // namespace

void retain_all(const UserReferences& references) {
  const std::lock_guard lock(user_objects().mutex);
  user_objects().change(references, 1);
}

void release_all(const UserReferences& references) {
  const std::lock_guard lock(user_objects().mutex);
  user_objects().change(references, -1);
}

void run_destructors() {
  std::vector<std::pair<cudaHostFn_t, void*>> ended;
  {
    const std::lock_guard lock(user_objects().mutex);
    ended.swap(user_objects().ended);
  }
  for (const auto& [destroy, pointer] : ended) destroy(pointer);
}

SIMCUDA_TWINS(cudaUserObjectCreate, cuUserObjectCreate,
              (cudaUserObject_t * object, void* pointer, cudaHostFn_t destroy, unsigned int count,
               unsigned int flags),
              (number(pointer), count, flags), create(object, pointer, destroy, count, flags))
SIMCUDA_TWINS(cudaUserObjectRetain, cuUserObjectRetain,
              (cudaUserObject_t object, unsigned int count), (number(object), count),
              take(object, count))
SIMCUDA_TWINS(cudaUserObjectRelease, cuUserObjectRelease,
              (cudaUserObject_t object, unsigned int count), (number(object), count),
              give_back(object, count))
SIMCUDA_TWINS(cudaGraphRetainUserObject, cuGraphRetainUserObject,
              (cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags),
              (number(graph), number(object), count, flags),
              retain_in_graph(graph, object, count, flags))
SIMCUDA_TWINS(cudaGraphReleaseUserObject, cuGraphReleaseUserObject,
              (cudaGraph_t graph, cudaUserObject_t object, unsigned int count),
              (number(graph), number(object), count), release_from_graph(graph, object, count))

}  // namespace simcuda

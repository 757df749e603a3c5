// The list of all backends. A new one is its own file, one line here and one in CMakeLists.txt.
#include "allocators/registry.h"

#include <string>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/caching/caching.h"
#include "allocators/plugins/pluggable.h"
#include "allocators/plugins/rmm.h"
#include "allocators/plugins/torch.h"
#include "allocators/simple/async.h"
#include "allocators/simple/cub.h"
#include "allocators/simple/native.h"
#include "allocators/simple/null.h"
#include "allocators/simple/thrust_pool.h"
#include "allocators/stitch/vmm_stitch.h"
#include "base/nearest.h"

namespace allocmark {

std::span<const BackendEntry> backend_registry() {
  // Made at the first call, so that no order of static constructors matters.
  static const std::vector<BackendEntry> entries = {
      null_entry(),         //
      native_entry(),       //
      async_entry(),        //
      caching_entry(),      //
      torch_entry(),        //
      cub_entry(),          //
      thrust_pool_entry(),  //
      rmm_entry(),          //
      vmm_stitch_entry(),   //
      pluggable_entry(),
  };
  return entries;
}

const BackendEntry& find_backend(std::string_view name) {
  std::vector<std::string> names;
  for (const BackendEntry& entry : backend_registry()) {
    if (entry.name == name) {
      return entry;
    }
    names.emplace_back(entry.name);
  }
  throw UsageError({.what = "there is no allocator '" + std::string(name) + "'",
                    .where = {},
                    .wanted = {},
                    .got = {},
                    .next = suggest(name, names) + "; 'allocmark list allocators' shows all"});
}

}  // namespace allocmark

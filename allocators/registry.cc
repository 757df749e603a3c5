// The list of all backends. A new one is its own file, one line here and one in CMakeLists.txt.
#include "allocators/registry.h"

#include <string>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/bfc/bfc.h"
#include "allocators/caching/caching.h"
#include "allocators/caching/release.h"
#include "allocators/conf/conf.h"
#include "allocators/cupy/cupy.h"
#include "allocators/ggml/ggml.h"
#include "allocators/pinned/pinned.h"
#include "allocators/planned/planned.h"
#include "allocators/plugins/pluggable.h"
#include "allocators/plugins/rmm.h"
#include "allocators/plugins/torch.h"
#include "allocators/rmm/releases.h"
#include "allocators/simple/async.h"
#include "allocators/simple/cub.h"
#include "allocators/simple/thrust_pool.h"
#include "allocators/stitch/vmm_stitch.h"
#include "allocators/xla/xla_vmm.h"
#include "base/error.h"
#include "base/nearest.h"

namespace allocmark {

// Of allocators/simple/, each at the end of the file of its name.
BackendEntry host_pool_entry();
BackendEntry native_entry();
BackendEntry null_entry();

std::span<const BackendEntry> backend_registry() {
  // Made at the first call, so that no order of static constructors matters.
  static const std::vector<BackendEntry> entries = {
      null_entry(),          //
      native_entry(),        //
      async_entry(),         //
      caching_entry(),       //
      torch_entry(),         //
      cub_entry(),           //
      thrust_pool_entry(),   //
      rmm_entry(),           //
      vmm_stitch_entry(),    //
      bfc_tf_entry(),        //
      bfc_xla_entry(),       //
      bfc_ort_entry(),       //
      xla_vmm_entry(),       //
      cupy_entry(),          //
      ggml_legacy_entry(),   //
      ggml_vmm_entry(),      //
      planned_entry(),       //
      host_caching_entry(),  //
      host_exact_entry(),    //
      host_pool_entry(),     //
      cupy_pinned_entry(),   //
      rmm_pinned_entry(),    //
      pluggable_entry(),
  };
  return entries;
}

std::span<const BackendEntry> release_registry() {
  static const std::vector<BackendEntry> entries = [] {
    std::vector<BackendEntry> all = caching_releases();
    for (BackendEntry& entry : torch_releases()) all.push_back(std::move(entry));
    for (BackendEntry& entry : rmm_releases()) all.push_back(std::move(entry));
    for (BackendEntry& entry : host_caching_releases()) all.push_back(std::move(entry));
    return all;
  }();
  return entries;
}

std::string suggest_backend(std::string_view name) {
  const std::string_view family = family_of(name);
  std::vector<std::string> names;
  for (const BackendEntry& entry : release_registry()) {
    if (family_of(entry.name) == family) names.push_back(entry.name);
  }
  const bool of_release = name != family;
  if (of_release && family == "torch") {
    std::string next = "a release is fetched by: scripts/build/fetch_torch.sh 2.13.0; here: ";
    for (const std::string& one : names) next += one + " ";
    return next + (names.empty() ? "none" : "");
  }
  if (of_release && family == "caching") {
    if (const auto read = caching::read_release(name.substr(family.size() + 1))) {
      return "did you mean '" + std::string(family) + "@" +
             caching::require_rules(read->number, "a release").name() + "'?" +
             (read->note.empty() ? "" : " " + read->note) +
             "; 'allocmark list allocators' shows all";
    }
  }
  if (!of_release || names.empty()) {
    names.clear();
    for (const BackendEntry& entry : backend_registry()) names.push_back(entry.name);
  }
  return suggest(name, names) + "; 'allocmark list allocators' shows all";
}

const BackendEntry* known_backend(std::string_view name) {
  for (const std::span<const BackendEntry> entries : {backend_registry(), release_registry()}) {
    for (const BackendEntry& entry : entries) {
      if (entry.name == name) return &entry;
    }
  }
  return nullptr;
}

const BackendEntry& find_backend(std::string_view name) {
  if (const BackendEntry* const entry = known_backend(name)) return *entry;
  throw UsageError(
      {.what = "there is no allocator '" + std::string(name) + "'", .next = suggest_backend(name)});
}

std::string read_conf(const BackendEntry& entry, std::string_view text) {
  std::string conf = conf_of_user(text);
  if (auto error = entry.check_conf(conf))
    throw UsageError(told_conf_error(std::move(*error), "--conf", text, entry.name));
  return conf;
}

void check_serves_device(const BackendEntry& entry, std::string_view asker) {
  if (entry.capabilities.side == MemorySide::Device) return;
  throw UsageError({.what = std::string(asker) + " is about memory of a device",
                    .where = "--allocator",
                    .wanted = "an allocator of a device's memory",
                    .got = entry.name + ", which pins memory of the host",
                    .next = "use: allocmark run, or allocmark pinned"});
}

void check_runs_here(const BackendEntry& entry, std::string_view conf) {
  static_cast<void>(read_conf(entry, conf));
  if (const std::string reason = entry.unavailable_reason(); !reason.empty()) {
    throw EnvironmentError({.what = entry.name + " cannot run here",
                            .where = "--allocator",
                            .got = reason,
                            .next = "see: allocmark list allocators"});
  }
}

}  // namespace allocmark

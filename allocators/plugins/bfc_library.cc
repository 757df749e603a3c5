// See bfc_library.h.
#include "allocators/plugins/bfc_library.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "allocators/plugins/plugin_library.h"
#include "base/error.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders() {
  if (const char* const named = std::getenv("ALLOCMARK_TENSORFLOW_RELEASES");
      named != nullptr && *named != '\0')
    return {named};
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  return {bin.parent_path() / "tensorflow", bin.parent_path().parent_path() / "tensorflow"};
}

[[noreturn]] void refuse_bfc_plugin(const std::string& plugin_path, const std::string& got) {
  throw EnvironmentError({.what = "the plugin over TensorFlow's allocator cannot be used",
                          .where = plugin_path,
                          .got = got,
                          .next = "make it again: scripts/build/fetch_tensorflow.sh"});
}

const AllocmarkBfcPlugin* open(const std::string& plugin_path, const std::string& rules) {
  const PluginTable loaded =
      load_plugin_table(plugin_path, "allocmark_bfc_plugin", ALLOCMARK_BFC_PLUGIN_VERSION);
  if (loaded.table == nullptr) refuse_bfc_plugin(plugin_path, loaded.problem);
  const auto* const plugin = static_cast<const AllocmarkBfcPlugin*>(loaded.table);
  if (plugin->rules != rules)
    refuse_bfc_plugin(plugin_path, "it has the rules " + std::string(plugin->rules));
  return plugin;
}

AllocmarkBfcSource source_of(bfc::Source& source) {
  return {.context = &source,
          .take = [](void* context, std::uint64_t alignment_bytes, std::uint64_t size_bytes,
                     std::uint64_t* received_bytes) -> std::uint64_t {
            const auto region =
                static_cast<bfc::Source*>(context)->take(alignment_bytes, size_bytes);
            if (!region) return 0;
            *received_bytes = region->size_bytes;
            return region->address;
          },
          .give =
              [](void* context, std::uint64_t address, std::uint64_t size_bytes) {
                static_cast<bfc::Source*>(context)->give(
                    {.address = address, .size_bytes = size_bytes});
              }};
}

void copy_policy(const bfc::EndPolicy& policy, int (&end)[3]) {
  end[0] = policy.descending ? 1 : 0;
  end[1] = policy.hole == bfc::Split::Exact ? 1 : 0;
  end[2] = policy.gap == bfc::Split::Exact ? 1 : 0;
}

}  // namespace

std::string bfc_plugin_path(const std::string& rules) {
  for (const fs::path& folder : folders()) {
    const fs::path file = folder / rules / "liballocmark_bfc.so";
    std::error_code error;
    if (fs::is_regular_file(file, error)) return file.string();
  }
  return {};
}

BfcLibrary::BfcLibrary(const std::string& plugin_path, const std::string& rules,
                       const bfc::HeapOptions& options, bfc::Source& source)
    : plugin_(open(plugin_path, rules)) {
  AllocmarkBfcOptions plain{.limit_bytes = options.limit_bytes,
                            .fragmentation_fraction = options.fragmentation_fraction,
                            .allow_growth = options.allow_growth ? 1 : 0,
                            .garbage_collection = options.garbage_collection ? 1 : 0,
                            .joins_regions = options.joins_regions ? 1 : 0,
                            .timestamps = options.timestamps ? 1 : 0,
                            .spatial_partitioning = options.spatial_partitioning ? 1 : 0,
                            .lower = {},
                            .upper = {}};
  copy_policy(options.lower, plain.lower);
  copy_policy(options.upper, plain.upper);
  const AllocmarkBfcSource functions = source_of(source);
  allocator_ = plugin_->create(&plain, &functions);
}

BfcLibrary::~BfcLibrary() { plugin_->destroy(allocator_); }

std::optional<std::uint64_t> BfcLibrary::allocate(const bfc::Request& request) {
  const AllocmarkBfcRequest plain{.size_bytes = request.size_bytes,
                                  .alignment_bytes = request.alignment_bytes,
                                  .freed_before = request.freed_before,
                                  .upper_end = request.end == bfc::End::Upper ? 1 : 0};
  const std::uint64_t address = plugin_->allocate(allocator_, &plain);
  return address == 0 ? std::nullopt : std::optional(address);
}

void BfcLibrary::deallocate(std::uint64_t address) { plugin_->deallocate(allocator_, address); }
void BfcLibrary::clear_peaks() { plugin_->clear_peaks(allocator_); }
void BfcLibrary::set_safe_frontier(std::uint64_t count) {
  plugin_->set_safe_frontier(allocator_, count);
}

AllocmarkBfcChunk BfcLibrary::chunk_of(std::uint64_t address) const {
  AllocmarkBfcChunk chunk{};
  plugin_->chunk(allocator_, address, &chunk);
  return chunk;
}

AllocmarkBfcCounters BfcLibrary::counters() const {
  AllocmarkBfcCounters counters{};
  plugin_->counters(allocator_, &counters);
  return counters;
}

std::vector<AllocmarkBfcMapped> BfcLibrary::map() const {
  std::vector<AllocmarkBfcMapped> chunks;
  plugin_->map(allocator_, &chunks, [](void* context, const AllocmarkBfcMapped* chunk) {
    static_cast<std::vector<AllocmarkBfcMapped>*>(context)->push_back(*chunk);
  });
  return chunks;
}

}  // namespace allocmark

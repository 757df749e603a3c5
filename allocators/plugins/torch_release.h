// Which PyTorch a plugin of `torch` was built against, told without loading it, and the releases
// that scripts/build/fetch_torch.sh put beside the program. Files in, names out; nothing is loaded.
#pragma once

#include <string>
#include <vector>

namespace allocmark {

// What every plugin carries as text (torch_plugin.cc).
struct TorchIdentity {
  std::string version;        // "2.13.0"; empty where the file is missing or no plugin of ours
  std::string library_id;     // build id of the libc10_cuda.so that it was built against
  int interface_version = 0;  // ALLOCMARK_TORCH_PLUGIN_VERSION of its time; 0: not told
};
[[nodiscard]] TorchIdentity torch_identity(const std::string& plugin_path);

struct TorchRelease {
  std::string version;      // "2.13.0", the name of its folder
  std::string plugin_path;  // where its plugin is, or would be
};

// Folders in which releases are looked for: what ALLOCMARK_TORCH_RELEASES names, else `torch`
// beside the program's own folder and beside its build folder.
[[nodiscard]] std::vector<std::string> torch_release_folders();

// Every release that is there, by version.
[[nodiscard]] std::vector<TorchRelease> fetched_torch_releases();

// "2.13.0": three numbers with dots.
[[nodiscard]] bool is_torch_version(const std::string& text);

}  // namespace allocmark

// The driver's device files, as far as programs look whether they are there: JAX takes a machine
// without /dev/nvidia0 and /dev/nvidiactl for one without a GPU, and asks CUDA nothing. In: paths
// that a program asks the C library about. Out: what it answers, and a character device for those
// that it does not find. Nothing can be opened there. Preloaded by simcuda-run.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace {

constexpr unsigned kMajor = 195;  // NVIDIA's among Linux's numbers of devices
constexpr unsigned kControlMinor = 255;

// The file's minor number where it is one of a simulated GPU's; negative where it is not.
int minor_of(const char* path) {
  if (path == nullptr) return -1;
  const std::string_view name = path;
  constexpr std::string_view kBegin = "/dev/nvidia";
  if (!name.starts_with(kBegin)) return -1;
  const char* const text = std::getenv("SIMCUDA_DEVICES");
  const long count = text == nullptr || *text == '\0' ? 1 : std::strtol(text, nullptr, 10);
  const std::string_view rest = name.substr(kBegin.size());
  if (rest == "ctl") return count > 0 ? static_cast<int>(kControlMinor) : -1;
  if (rest.empty() || rest.find_first_not_of("0123456789") != rest.npos) return -1;
  const long index = std::strtol(path + kBegin.size(), nullptr, 10);
  return index < count ? static_cast<int>(index) : -1;
}

// What the system says, or a device. The C library's own function is newer than others of its
// names.
int ask(const char* path, struct stat* out) {
  const long said = syscall(SYS_newfstatat, AT_FDCWD, path, out, 0);
  if (said == 0 || errno != ENOENT) return static_cast<int>(said);
  const int minor_number = minor_of(path);
  if (minor_number < 0 || out == nullptr) return -1;
  *out = {};
  constexpr mode_t kReadAndWrite = 0666;
  out->st_mode = S_IFCHR | kReadAndWrite;
  out->st_nlink = 1;
  out->st_rdev = makedev(kMajor, static_cast<unsigned>(minor_number));
  return 0;
}

}  // namespace

// The structures of stat and stat64 are one here, and the oldest names have a version before them.
extern "C" {

__attribute__((visibility("default"))) int simcuda_stat(const char* path, struct stat* out) {
  return ask(path, out);
}
__attribute__((visibility("default"))) int simcuda_xstat(int, const char* path, struct stat* out) {
  return ask(path, out);
}
__attribute__((visibility("default"))) int simcuda_access(const char* path, int mode) {
  const int said = faccessat(AT_FDCWD, path, mode, 0);
  return said != 0 && errno == ENOENT && minor_of(path) >= 0 && (mode & X_OK) == 0 ? 0 : said;
}

}  // extern "C"

// The headers of some C libraries do not let a program define these names.
__asm__(
    ".globl stat\n\t.set stat, simcuda_stat\n\t"
    ".globl stat64\n\t.set stat64, simcuda_stat\n\t"
    ".globl __xstat\n\t.set __xstat, simcuda_xstat\n\t"
    ".globl __xstat64\n\t.set __xstat64, simcuda_xstat\n\t"
    ".globl access\n\t.set access, simcuda_access\n\t");

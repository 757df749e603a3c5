// What simcuda reads from the environment, seen from child processes of this program, since it is
// read once.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/control.h"

namespace {

constexpr const char* kReportMode = "SIMCUDA_ENVIRONMENT_TEST_REPORT";

// The child: devices, memory, largest request that succeeds in pages, and the modelled time of a
// few calls.
void print_report() {
  int count = 0;
  std::printf("%s ", cudaGetErrorName(cudaGetDeviceCount(&count)));
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) {
    std::printf("%s", cudaGetErrorName(cudaGetLastError()));
    return;
  }
  void* block = nullptr;
  std::uint64_t pages = 0;
  while (pages < 64 && cudaMalloc(&block, std::uint64_t{2} << 20) == cudaSuccess) {
    ++pages;
  }
  int is_integrated = 0;
  (void)cudaDeviceGetAttribute(&is_integrated, cudaDevAttrIntegrated, 0);
  void* pinned = nullptr;
  std::size_t free_before = 0;
  (void)cudaMemGetInfo(&free_before, &total);
  const cudaError_t pinning = cudaMallocHost(&pinned, std::size_t{4} << 20);
  (void)cudaMemGetInfo(&free, &total);
  std::printf("integrated %d pinned %s takes %zu ", is_integrated, cudaGetErrorName(pinning),
              free_before - free);
  (void)cudaFreeHost(pinned);
  (void)cudaMemGetInfo(&free, &total);
  std::printf("and gives %d ", free == free_before ? 1 : 0);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  std::printf("driver %d ", driver != nullptr && dlsym(driver, "simcu_present") != nullptr ? 1 : 0);
  int can_access = 0;
  if (count > 1) (void)cudaDeviceCanAccessPeer(&can_access, 0, 1);
  std::printf("peers %d ", can_access);
  std::printf("devices %d pages %llu clock %llu", count, static_cast<unsigned long long>(pages),
              static_cast<unsigned long long>(SIMCU(simcu_thread_clock)()->modelled_ns));
}

// The child of another kind: NVML's count of GPUs, asked before CUDA is told which to show, and the
// buses of CUDA's devices in their order. A block of the last one says whose it is.
void print_devices(const char* shown) {
  void* const nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  const auto start = reinterpret_cast<int (*)()>(dlsym(nvml, "nvmlInit_v2"));
  const auto ask = reinterpret_cast<int (*)(unsigned*)>(dlsym(nvml, "nvmlDeviceGetCount_v2"));
  const auto ask_version =
      reinterpret_cast<int (*)(int*)>(dlsym(nvml, "nvmlSystemGetCudaDriverVersion_v2"));
  unsigned node_count = 0;
  int version = 0;
  (void)start();
  (void)ask(&node_count);
  (void)ask_version(&version);
  if (std::string(shown) != "unset") setenv("CUDA_VISIBLE_DEVICES", shown, 1);
  int count = 0;
  const char* const error = cudaGetErrorName(cudaGetDeviceCount(&count));
  std::printf("%s nvml %u cuda %d", error, node_count, count);
  for (int i = 0; i < count; ++i) {
    std::array<char, 32> bus{};
    (void)cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), i);
    std::printf(" %s", bus.data());
  }
  if (count == 0) return;
  void* block = nullptr;
  cudaPointerAttributes attributes{};
  (void)cudaSetDevice(count - 1);
  (void)cudaMallocAsync(&block, 1, nullptr);
  (void)cudaPointerGetAttributes(&attributes, block);
  cudaMemPool_t pool = nullptr;
  (void)cudaDeviceGetDefaultMemPool(&pool, count - 1);
  cudaMemAccessFlags access{};
  cudaMemLocation location{};
  location.type = cudaMemLocationTypeDevice;
  location.id = count - 1;
  (void)cudaMemPoolGetAccess(&access, pool, &location);
  std::printf(" last %d own %d", attributes.device,
              access == cudaMemAccessFlagsProtReadWrite ? 1 : 0);
}

const bool reported = [] {
  if (const char* const mode = std::getenv(kReportMode); mode != nullptr) {
    if (const char* const shown = std::getenv("SIMCUDA_ENVIRONMENT_TEST_SHOWN")) {
      print_devices(shown);
    } else {
      print_report();
    }
    std::fflush(stdout);
    std::_Exit(0);
  }
  return false;
}();

std::string report(const std::string& environment) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  FILE* child =
      popen((std::string(kReportMode) + "=1 " + environment + " '" + self + "' 2>&1").c_str(), "r");
  REQUIRE(child != nullptr);
  std::string text;
  std::array<char, 512> part{};
  while (std::fgets(part.data(), part.size(), child) != nullptr) {
    text += part.data();
  }
  pclose(child);
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a card without memory of its own says so, and pinned memory takes the card's") {
  const std::string plain = report("SIMCUDA_TOTAL_BYTES=8589934592");
  CHECK(contains(plain, "integrated 0 pinned cudaSuccess takes 0 and gives 1 "));
  const std::string shared =
      report("SIMCUDA_TOTAL_BYTES=8589934592 SIMCUDA_HOST_RESERVE_BYTES=1073741824");
  CHECK(contains(shared, "integrated 1 pinned cudaSuccess takes 4194304 and gives 1 "));
  CHECK(contains(shared, "pages 64 "));
  // 8 GiB without the context, the last page, and what the host holds and needs: 24 MiB and less.
  const std::string full = report(
      "SIMCUDA_TOTAL_BYTES=8589934592 SIMCUDA_HOST_RESERVE_BYTES=1073741824 "
      "SIMCUDA_HOST_BYTES=6934233088");
  CHECK(contains(full, "pages 12 "));
  CHECK(contains(full, "pinned cudaErrorMemoryAllocation takes 0 "));
}

TEST_CASE("capacity and device count come from the environment") {
  CHECK(contains(report(""), "driver 1 peers 0 devices 1 pages 64 "));
  CHECK(contains(report("SIMCUDA_CAPACITY_BYTES=67108864 SIMCUDA_DEVICES=3"),
                 "driver 1 peers 1 devices 3 pages 32 "));
  CHECK(contains(report("SIMCUDA_DEVICES=0"), "cudaErrorNoDevice"));
  CHECK(contains(report("SIMCUDA_CAPACITY_BYTES=lots"),
                 "SIMCUDA_CAPACITY_BYTES: wanted a whole number"));
  CHECK(contains(report("SIMCUDA_DEVICES=1000"), "cudaErrorInitializationError"));
  CHECK(contains(report("SIMCUDA_DEVICES=2"), "peers 1 "));
  CHECK(contains(report("SIMCUDA_DEVICES=2 SIMCUDA_PEERS=0"), "peers 0 "));
  CHECK(contains(report("SIMCUDA_PEERS=maybe"), "SIMCUDA_PEERS: wanted 0 or 1, got 'maybe'"));
}

TEST_CASE("CUDA shows the devices that CUDA_VISIBLE_DEVICES names, and NVML all") {
  const auto shown = [](const std::string& text) {
    return report("SIMCUDA_DEVICES=3 SIMCUDA_ENVIRONMENT_TEST_SHOWN='" + text + "'");
  };
  const std::string first = "0000:06:00.0";
  const std::string second = "0000:07:00.0";
  const std::string third = "0000:08:00.0";
  const std::string none = "cudaErrorNoDevice nvml 3 cuda 0";
  const auto seen = [](int count, const std::string& buses) {
    return "cudaSuccess nvml 3 cuda " + std::to_string(count) + " " + buses + " last " +
           std::to_string(count - 1) + " own 1";
  };
  CHECK(shown("unset") == seen(3, first + " " + second + " " + third));
  CHECK(shown("2,1") == seen(2, third + " " + second));
  CHECK(shown(" +1,2nd") == seen(2, second + " " + third));
  // What follows an entry that is no GPU is not looked at.
  CHECK(shown("0,2,-1,1") == seen(2, first + " " + third));
  CHECK(shown("0,3,0") == seen(1, first));
  CHECK(shown("1,,0") == seen(1, second));
  CHECK(shown("1,GPU-73696d63-7564-6100-0000-000000000000") == seen(1, second));
  CHECK(shown("99999999999999999999999") == none);
  CHECK(shown("") == none);
  CHECK(shown("-1") == none);
  CHECK(shown("MIG-0") == none);
  CHECK(shown("NoDevFiles") == none);
  CHECK(shown("0,1,0") == none);
  // All but the last digit is the same in these UUIDs.
  const std::string uuid = "GPU-73696d63-7564-6100-0000-00000000000";
  CHECK(shown(uuid + "2," + uuid + "0") == seen(2, third + " " + first));
  CHECK(shown(uuid + "2," + uuid) == seen(1, third));
  CHECK(shown(uuid + "2,0") == seen(1, third));
  CHECK(shown(uuid + "1," + uuid + "1") == none);
  CHECK(shown(uuid) == none);
  CHECK(report("SIMCUDA_ENVIRONMENT_TEST_SHOWN=GPU-7") ==
        "cudaSuccess nvml 1 cuda 1 " + first + " last 0 own 1");
}

TEST_CASE("the same calls take the same modelled time in every process") {
  const std::string first = report("SIMCUDA_CAPACITY_BYTES=67108864");
  CHECK(contains(first, " clock "));
  CHECK(report("SIMCUDA_CAPACITY_BYTES=67108864") == first);
}

TEST_CASE("what calls leave in the host's caches changes no modelled time") {
  CHECK(report("SIMCUDA_HOST_CACHES=warm") == report("SIMCUDA_HOST_CACHES=cold"));
  CHECK(contains(report("SIMCUDA_HOST_CACHES=tepid"),
                 "SIMCUDA_HOST_CACHES: wanted cold or warm, got 'tepid'"));
}

TEST_CASE("calls cost their mean where draws are not wanted") {
  const std::string drawn = report("SIMCUDA_CAPACITY_BYTES=67108864");
  CHECK(report("SIMCUDA_CAPACITY_BYTES=67108864 SIMCUDA_COSTS=drawn") == drawn);
  CHECK(report("SIMCUDA_CAPACITY_BYTES=67108864 SIMCUDA_COSTS=mean") != drawn);
  CHECK(contains(report("SIMCUDA_COSTS=median"),
                 "SIMCUDA_COSTS: wanted drawn or mean, got 'median'"));
}

TEST_CASE("a bad profile is named, and every call fails") {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("simcuda_bad_profile_" + std::to_string(getpid()) + ".json"))
                               .string();
  const std::string missing = report("SIMCUDA_PROFILE=h2000");
  CHECK(contains(missing, "h2000.json: cannot be read"));
  CHECK(contains(missing, "cudaErrorInitializationError cudaErrorInitializationError"));
  std::ofstream(path)
      << "{\"schema\": 3, \"costs\": {\"cudaMalloc\": [[0, 1, 8, 7, 6, 5, 4, 3, 2]]}}";
  CHECK(contains(report("SIMCUDA_PROFILE=" + path),
                 "costs.cudaMalloc: sizes and quantiles must rise"));
  std::ofstream(path) << "{\"schema\": 2}";
  CHECK(contains(report("SIMCUDA_PROFILE=" + path), "schema: wanted 3, got 2"));
  std::ofstream(path) << "not json";
  CHECK(contains(report("SIMCUDA_PROFILE=" + path), "wanted a JSON object"));
  std::filesystem::remove(path);
}

TEST_CASE("faults from the environment are read or refused") {
  CHECK(contains(report("SIMCUDA_FAIL=cudaMalloc:4:1:2"), " pages 3 "));
  const std::string misspelt = report("SIMCUDA_FAIL=cudaMaloc:4:1:2");
  CHECK(contains(misspelt, "SIMCUDA_FAIL: no function 'cudaMaloc'; did you mean 'cudaMalloc'"));
  CHECK(contains(misspelt, "cudaErrorInitializationError"));
  CHECK(contains(report("SIMCUDA_FAIL=cudaDestroyTextureObject:1:1:2"),
                 "cudaDestroyTextureObject is not implemented by simcuda"));
  CHECK(contains(report("SIMCUDA_FAIL=cudaMalloc:x"), "SIMCUDA_FAIL: wanted API:NTH:COUNT:ERROR"));
}

TEST_CASE("a sticky error breaks the context for good") {
  CHECK(contains(report("SIMCUDA_FAIL=cudaGetDeviceCount:1:1:700"),
                 "cudaErrorIllegalAddress cudaErrorIllegalAddress"));
}

TEST_CASE("a preloaded simcuda finds its other names beside itself") {
#ifdef __SANITIZE_ADDRESS__
  WARN("not run here: AddressSanitizer wants to be loaded first; the dev preset runs it");
  return;
#endif
  // Not under the library path that this test runs with.
  const std::string library = [] {
    Dl_info info{};
    REQUIRE(dladdr(reinterpret_cast<void*>(SIMCU(simcu_present)), &info) != 0);
    return std::filesystem::canonical(info.dli_fname).string();
  }();
  const std::string text = report("LD_LIBRARY_PATH= LD_PRELOAD='" + library + "'");
  CHECK(contains(text, "driver 1 "));
}

TEST_CASE("libcuda.so.1 is loaded under its own name, and is this library") {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(driver != nullptr);
  CHECK(dlsym(driver, "simcu_present") == reinterpret_cast<void*>(SIMCU(simcu_present)));
  void* management = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(management != nullptr);
  const auto start = reinterpret_cast<int (*)()>(dlsym(management, "nvmlInit_v2"));
  const auto get_handle = reinterpret_cast<int (*)(unsigned, void**)>(
      dlsym(management, "nvmlDeviceGetHandleByIndex_v2"));
  const auto get_name =
      reinterpret_cast<int (*)(void*, char*, unsigned)>(dlsym(management, "nvmlDeviceGetName"));
  REQUIRE(start() == 0);
  void* device = nullptr;
  std::array<char, 96> name{};
  REQUIRE(get_handle(0, &device) == 0);
  REQUIRE(get_name(device, name.data(), 96) == 0);
  CHECK(std::string(name.data()) == "NVIDIA H200");
}

TEST_CASE("every function of NVML is there, and what is not served says so and is counted") {
  void* const management = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(management != nullptr);
#define NVML_FUNCTION(name) CHECK(dlsym(management, #name) != nullptr);
#include "harness/simcuda/shim/nvml_functions.inc"
#undef NVML_FUNCTION
  const auto fan_speed =
      reinterpret_cast<int (*)(void*, unsigned*)>(dlsym(management, "nvmlDeviceGetFanSpeed"));
  const std::uint64_t before = SIMCU(simcu_unimplemented_count)();
  unsigned percent = 0;
  constexpr int kNotSupported = 3;
  CHECK(fan_speed(nullptr, &percent) == kNotSupported);
  CHECK(SIMCU(simcu_unimplemented_count)() == before + 1);
}

TEST_CASE("a link to the host has a generation and lanes") {
  void* const management = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(management != nullptr);
  void* device = nullptr;
  const auto find = [&](const char* name) { return dlsym(management, name); };
  REQUIRE(reinterpret_cast<int (*)(unsigned, void**)>(find("nvmlDeviceGetHandleByIndex_v2"))(
              0, &device) == 0);
  const auto ask = [&](const char* name) {
    unsigned value = 0;
    CHECK(reinterpret_cast<int (*)(void*, unsigned*)>(find(name))(device, &value) == 0);
    return value;
  };
  CHECK(ask("nvmlDeviceGetCurrPcieLinkGeneration") == 5);
  CHECK(ask("nvmlDeviceGetMaxPcieLinkGeneration") == 5);
  CHECK(ask("nvmlDeviceGetCurrPcieLinkWidth") == 16);
}

TEST_CASE("values that NCCL asks NVML for are answered") {
  void* const management = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(management != nullptr);
  const auto find = [&](const char* name) { return dlsym(management, name); };
  void* device = nullptr;
  REQUIRE(reinterpret_cast<int (*)(unsigned, void**)>(find("nvmlDeviceGetHandleByIndex_v2"))(
              0, &device) == 0);
  int peer_status = -1;
  CHECK(reinterpret_cast<int (*)(void*, void*, int, int*)>(find("nvmlDeviceGetP2PStatus"))(
            device, device, 0, &peer_status) == 0);
  CHECK(peer_status == 0);
  struct Value {
    unsigned field, scope;
    long long time_us, latency_us;
    int type, result;
    unsigned long long value;
  };
  std::array<Value, 2> values{};
  CHECK(reinterpret_cast<int (*)(void*, int, Value*)>(find("nvmlDeviceGetFieldValues"))(
            device, 2, values.data()) == 0);
  for (const Value& value : values) CHECK(value.result == 3);
  std::array<unsigned, 3> confidential{1, 1, 1};
  CHECK(reinterpret_cast<int (*)(unsigned*)>(find("nvmlSystemGetConfComputeState"))(
            confidential.data()) == 0);
  CHECK(confidential == std::array<unsigned, 3>{});
}

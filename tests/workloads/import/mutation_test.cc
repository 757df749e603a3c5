// Damaged recordings. Goal: whatever a file holds, it is read or refused with a message that names
// the file; nothing crashes and nothing takes memory without bound. Method: real recordings with
// bytes changed, dropped, doubled or cut, by a seed.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "workloads/import/recording.h"
#include "workloads/trace/byte_stream.h"

namespace allocmark {
namespace {

std::string unpacked(const std::string& path) {
  ByteReader reader(path);
  std::string bytes(std::size_t{1} << 16, 0);
  std::string all;
  while (const std::size_t count = reader.read(bytes)) all.append(bytes, 0, count);
  return all;
}

void mutate(std::string& bytes, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  const auto draw = [&state](std::uint64_t bound) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % bound;
  };
  for (std::uint64_t count = 1 + draw(8); count > 0 && !bytes.empty(); --count) {
    const std::size_t at =
        draw(4) == 0 ? draw(bytes.size()) : draw(std::min<std::size_t>(bytes.size(), 400));
    const std::size_t length = 1 + draw(12);
    switch (draw(5)) {
      case 0:
        bytes[at] = static_cast<char>(draw(256));
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 3:
        bytes.resize(at);
        break;
      default:
        // Opcodes that matter, at any place.
        bytes[at] = "\x80\x94\x8a(.}]uaeshqrjX\x8c\x8d\x86RcbQ"[draw(24)];
    }
  }
}

const char* kRecordings[] = {
    "tests/golden/snapshots/device_oom.pickle.gz", "tests/golden/snapshots/retried.pickle.gz",
    "tests/golden/snapshots/expandable_oom.pickle.gz", "tests/golden/snapshots/from_cpp.pickle.gz"};
const char* kLogs[] = {
    "Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00:1,allocate,0x7f0001,512,0x0\n"
    "1,10:00:00:2,allocate failure,0x0,999999,0x0\n1,10:00:00:3,free,0x7f0001,512,0x0\n",
    "1 140000000 512 0\n1 140001000 4096 94000\nforward 3\n0 140000000 512 0\n",
    "start,address,bytes,memoryOperationType,memKind\n1,4096,512,0,2\n2,4096,512,1,2\n"};

bool survives(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    const Recording recording = open_recording(path);
    std::size_t count = 0;
    for (auto batch = recording.events->next(); !batch.empty(); batch = recording.events->next())
      count += batch.size();
    return count < bytes.size() + 10;
  } catch (const UsageError& error) {
    return error.text().where.find(path) != std::string::npos;
  }
}

}  // namespace

TEST_CASE("damaged recordings are read or refused") {
  const TemporaryFolder folder;
  std::vector<std::string> originals(std::begin(kLogs), std::end(kLogs));
  for (const char* path : kRecordings) originals.push_back(unpacked(path));
  std::size_t number = 0;
  for (const std::string& original : originals) {
    INFO("recording " << number++);
    REQUIRE(survives(folder.path("whole"), original));
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
      std::string bytes = original;
      mutate(bytes, seed);
      INFO("seed " << seed);
      CHECK(survives(folder.path("damaged"), bytes));
    }
  }
}

}  // namespace allocmark

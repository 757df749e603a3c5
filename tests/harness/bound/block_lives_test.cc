#include "harness/tools/bound/block_lives.h"

#include <fstream>
#include <string>

#include "base/error.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "workloads/trace_tools.h"

namespace allocmark {
namespace {

std::string file_of(const TemporaryFolder& folder, const std::string& text) {
  const std::string path = folder.path("blocks.csv");
  std::ofstream(path) << text;
  return path;
}

std::string refusal(const std::string& text) {
  const TemporaryFolder folder;
  try {
    static_cast<void>(read_block_file(file_of(folder, text)));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("block files are read by the names of their columns") {
  const TemporaryFolder folder;
  const std::string path = file_of(folder, "size,id,upper,lower\r\n7,b1,9,3\r\n\r\n0,b2,4,0\r\n");
  CHECK(is_block_file(path));
  const NamedBlocks named = read_block_file(path);
  REQUIRE(named.blocks.size() == 2);
  CHECK(named.names[0] == "b1");
  CHECK(named.blocks[0].begin == 3);
  CHECK(named.blocks[0].end == 9);
  CHECK(named.blocks[0].size_bytes == 7);
  write_packing_file(named, {.offsets = {5, 0}, .height_bytes = 12}, folder.path("packing.csv"));
  const NamedBlocks again = read_block_file(folder.path("packing.csv"));
  CHECK(again.names == named.names);
  CHECK(again.blocks[0].size_bytes == 7);
}

TEST_CASE("bad block files are refused with the line") {
  const std::string head = "id,lower,upper,size\n";
  CHECK(refusal(head + "1,0,4,8\n2,4,4,8\n").find("line 3") != std::string::npos);
  CHECK(refusal(head + "1,0,4,-8\n").find("'size' is no number") != std::string::npos);
  CHECK(refusal(head + "1,0,4,8x\n").find("'size' is no number") != std::string::npos);
  CHECK(refusal(head + "1,0,4,\n").find("'size' is no number") != std::string::npos);
  CHECK(refusal(head + "1,0,4\n").find("another number of columns") != std::string::npos);
  CHECK(refusal(head + "1,0,4,99999999999999999999\n").find("line 2") != std::string::npos);
  CHECK(refusal(head + "1,0,4,1152921504606846976\n2,0,4,1\n").find("too many") !=
        std::string::npos);
  CHECK(refusal("id,lower,upper,size,alignment\n1,0,4,8,64\n").find("would not obey") !=
        std::string::npos);
  const TemporaryFolder folder;
  CHECK_FALSE(is_block_file(file_of(folder, "id,size\n")));
  CHECK_FALSE(is_block_file(folder.path("missing.csv")));
}

TEST_CASE("blocks of a trace live from their request to their free") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("t.csv")) << "op,id,size,stream\nalloc,1,100,0\nalloc,2,50,0\n"
                                         "free,1,0,0\nalloc,3,30,0\nfree,3,0,0\n";
  const NamedBlocks named = blocks_of_trace(open_path_or_workload(folder.path("t.csv"), 1));
  REQUIRE(named.blocks.size() == 3);
  CHECK(named.blocks[0].end - named.blocks[0].begin == 2);
  CHECK(named.blocks[1].end > named.blocks[2].end);  // nobody frees it
  CHECK(peak_bytes(named.blocks) == 150);
  CHECK(named.names == std::vector<std::string>{"1", "2", "3"});
}

}  // namespace allocmark

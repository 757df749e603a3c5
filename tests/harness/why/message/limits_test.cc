// Where a message leaves a limit open, and where expandable segments cannot be had.
#include "harness/tools/why/message/verdict.h"

#include <string>

#include "harness/tools/why/message/message_text.h"
#include "harness/tools/why/message/remedies.h"
#include "tests/catch.h"
#include "tests/harness/why/message/find_messages.h"

using namespace allocmark::message;

namespace {

struct LimitedAnswer {
  Verdict verdict;
  Remedy remedy;
  std::string text;
};

LimitedAnswer limited_answer(const std::string& text) {
  const FoundMessages found = find_messages(text);
  INFO(text);
  REQUIRE(!found.messages.empty());
  const Verdict verdict = judge(found.messages[0]);
  return {verdict, remedy_for(found.messages[0], verdict), to_text(found, "oom.txt")};
}

std::string message_of_2_1(const std::string& asked, const std::string& total,
                           const std::string& free, const std::string& middle,
                           const std::string& allocated, const std::string& unallocated) {
  return "CUDA out of memory. Tried to allocate " + asked + ". GPU 0 has a total capacity of " +
         total + " of which " + free + " is free. " + middle + "Of the allocated memory " +
         allocated + " is allocated by PyTorch, and " + unallocated +
         " is reserved by PyTorch but unallocated.";
}

bool tells(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("below a process's own limit the smaller of two rooms counts") {
  // 100 MiB are free on the card, and the limit leaves 10 MiB of them.
  const LimitedAnswer excluded = limited_answer(message_of_2_1(
      "200.00 MiB", "16.00 GiB", "100.00 MiB", "8.00 GiB allowed; ", "7.84 GiB", "150.00 MiB"));
  CHECK(excluded.verdict.cause == Cause::ProcessLimit);
  CHECK(excluded.verdict.help == Help::No);
  CHECK(excluded.remedy.setting.empty());
  CHECK(tells(excluded.text, "below the process's own limit"));
  CHECK(tells(excluded.text, "must rise by 36.2 MiB or so much must go"));
  // No more than that limit is there for what comes next.
  CHECK_FALSE(tells(excluded.text, "--capacity 8278MiB"));
  CHECK(tells(excluded.text, "--capacity 8192MiB"));
  const LimitedAnswer enough = limited_answer(message_of_2_1(
      "200.00 MiB", "16.00 GiB", "100.00 MiB", "8.00 GiB allowed; ", "7.60 GiB", "395.00 MiB"));
  CHECK(enough.verdict.cause == Cause::FragmentationPossible);
  CHECK(enough.remedy.setting == "expandable_segments:True");
  // A limit that is reached leaves nothing, not less than nothing.
  const LimitedAnswer reached = limited_answer(message_of_2_1(
      "200.00 MiB", "16.00 GiB", "100.00 MiB", "8.00 GiB allowed; ", "7.90 GiB", "150.00 MiB"));
  CHECK(reached.verdict.cause == Cause::ProcessLimit);
  CHECK(reached.verdict.help == Help::No);
  // Where the card has too little as well, the limit is not what must rise.
  const LimitedAnswer neither = limited_answer(message_of_2_1(
      "400.00 MiB", "16.00 GiB", "100.00 MiB", "8.00 GiB allowed; ", "7.84 GiB", "150.00 MiB"));
  CHECK(neither.verdict.cause == Cause::TooBig);
  CHECK(tells(neither.text, "100.00 MiB free and 150.00 MiB reserved but unallocated are 250 MiB"));
  CHECK(*reached.verdict.must_go_bytes == 52428800);  // 200 - 150 MiB
  // A limit above what is left on the card changes nothing.
  const LimitedAnswer above = limited_answer(message_of_2_1(
      "200.00 MiB", "16.00 GiB", "100.00 MiB", "9.00 GiB allowed; ", "7.84 GiB", "150.00 MiB"));
  CHECK(above.verdict.cause == Cause::FragmentationPossible);
  CHECK_FALSE(tells(above.text, "below the process's own limit"));
}

TEST_CASE("a message that ends before the process's limit could stand leaves both limits open") {
  for (const std::string text :
       {"HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 GiB "
        "of which 244.65 GiB is free.",
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.65 GiB "
        "of which 9.01 GiB is free. Including non-PyTorch memory, this process has 14.10 GiB "
        "memory in use.",
        "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.65 GiB total capacity; 12.00 "
        "GiB already allocated; 9.01 GiB free;"}) {
    INFO(text);
    const LimitedAnswer answer = limited_answer(text);
    CHECK(answer.verdict.cause == Cause::OutsideLimit);
    CHECK(answer.verdict.help == Help::Unknown);
    CHECK(answer.remedy.setting.empty());
    CHECK(tells(answer.text, "the process's own (a memory fraction)"));
    CHECK_FALSE(tells(answer.text, "no setting of the allocator can help"));
  }
  // The whole message says that there is none.
  CHECK(limited_answer(
            message_of_2_1("20.00 MiB", "4.00 GiB", "2.35 GiB", "", "825.15 MiB", "24.85 MiB"))
            .verdict.help == Help::No);
  // A limit that is named leaves its share open, too, until what is held is known.
  const LimitedAnswer named = limited_answer(
      "HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 GiB of "
      "which 244.65 GiB is free. 1.05 GiB allowed; Of the");
  CHECK(named.verdict.cause == Cause::ProcessLimit);
  CHECK(tells(named.text, "may take 1.05 GiB"));
  CHECK(tells(named.text, "set_per_process_memory_fraction"));
}

TEST_CASE("expandable segments are not named where the text shows that they cannot be had") {
  const std::string message =
      message_of_2_1("250.00 MiB", "79.26 GiB", "104.75 MiB", "", "74.77 GiB", "3.87 GiB");
  for (const std::string line :
       {"memory.py:12: UserWarning: expandable_segments not supported on this platform (Triggered "
        "internally at CUDAAllocatorConfig.h:28.)",
        "  File \"C:\\Users\\me\\ComfyUI\\execution.py\", line 12, in recursive_execute",
        "  File \"D:\\\\a\\\\app\\\\train.py\", line 3",
        "  File \"/venv/site-packages/vllm/device_allocator/cumem.py\", line 180, in wake_up",
        "AssertionError: Expandable segments are not compatible with memory pool."}) {
    INFO(line);
    for (const LimitedAnswer& answer :
         {limited_answer(line + "\n" + message), limited_answer(message + "\n" + line)}) {
      CHECK(answer.verdict.cause == Cause::FragmentationPossible);
      CHECK(answer.remedy.setting.empty());
      CHECK_FALSE(tells(answer.text, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
      CHECK(tells(answer.text, "max_split_size_mb"));
    }
  }
  CHECK(limited_answer("  File \"/home/c/users.py\", line 3\n" + message).remedy.setting ==
        "expandable_segments:True");
}

TEST_CASE("a text of a release without expandable segments is not answered with them") {
  const LimitedAnswer old = limited_answer(
      "CUDA out of memory. Tried to allocate 98.00 MiB (GPU 0; 10.76 GiB total capacity; 9.21 GiB "
      "already allocated; 56.88 MiB free; 9.71 GiB reserved in total by PyTorch)");
  CHECK(old.verdict.cause == Cause::FragmentationPossible);
  CHECK(old.remedy.setting.empty());
  CHECK_FALSE(tells(old.text, "To try: export"));
  CHECK(tells(old.text, "max_split_size_mb"));
}

TEST_CASE("memory that another process may hold is to be given back there") {
  const LimitedAnswer answer = limited_answer(
      message_of_2_1("38.88 GiB", "79.11 GiB", "31.60 GiB",
                     "Process 111 has 47.47 GiB memory in use. ", "0 bytes", "0 bytes"));
  CHECK(answer.verdict.cause == Cause::TooBig);
  CHECK(tells(answer.text, "If other processes hold it, ending them is enough"));
  CHECK(tells(answer.text, "torch.cuda.empty_cache() there"));
  // Named ones, too, where they hold as much as is missing.
  const LimitedAnswer named = limited_answer(message_of_2_1(
      "594.00 MiB", "79.33 GiB", "8.44 MiB",
      "Process 62912 has 4.00 GiB memory in use. Process 113443 has 75.33 GiB memory in use. ",
      "74.24 GiB", "85.89 MiB"));
  CHECK(tells(named.text, "Process 62912 holds 4.00 GiB on this card, too"));
  CHECK(tells(named.text, "torch.cuda.empty_cache() there"));
}

TEST_CASE("without what was free, what the card can have had at most decides") {
  // XPU's message: 15.91 less 9.05 GiB leave 6.86 GiB to the request and everything else.
  const auto xpu = [](const std::string& asked) {
    return limited_answer(
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate " + asked +
        ". GPU 0 has a total capacity of 15.91 GiB. Of the allocated memory 9.05 GiB is allocated "
        "by PyTorch, and 620.50 MiB is reserved by PyTorch but unallocated. Please use "
        "`empty_cache` to release all unoccupied cached memory.");
  };
  const LimitedAnswer large = xpu("12.00 GiB");
  CHECK(large.verdict.cause == Cause::TooBig);
  CHECK(large.verdict.help == Help::No);
  CHECK(tells(large.text, "5.14 GiB must go"));
  CHECK(large.remedy.setting.empty());
  CHECK(xpu("6.00 GiB").verdict.cause == Cause::MissingFigures);
  CHECK(xpu("6.86 GiB").verdict.cause == Cause::MissingFigures);
}

TEST_CASE("a card of 0 bytes is no card, and a figure behind a cut is no figure") {
  const LimitedAnswer none =
      limited_answer(message_of_2_1("20.00 MiB", "0 bytes", "0 bytes", "", "0 bytes", "0 bytes"));
  CHECK(none.verdict.cause == Cause::Contradiction);
  CHECK(tells(none.text, "the card's memory is 0 bytes"));
  CHECK(none.remedy.setting.empty());
  // Of 736.86 MiB.
  const LimitedAnswer cut = limited_answer(
      "CUDA out of memory. Tried to allocate 546.00 MiB. GPU 0 has a total capacity of 15.77 GiB "
      "of which 514.19 MiB is free. Process 1 has 15.25 GiB memory ...6.86 MiB is reserved by "
      "PyTorch but unallocated.");
  CHECK(cut.verdict.cause == Cause::MissingFigures);
  CHECK(cut.verdict.help == Help::Unknown);
}

// Answers to those who do not run PyTorch's allocator on an NVIDIA card.
#include "tests/catch.h"
#include "tests/harness/why/message/answers.h"

using namespace allocmark::message;

TEST_CASE("a cache that is too small for one request says how long requests may be") {
  const Answer answer = answer_to(
      "max seq len (20480) is larger than the maximum number of tokens that can be stored in KV "
      "cache (7216).");
  CHECK(answer.verdict.cause == Cause::TooBig);
  CHECK(has(answer.text, "max_model_len must be 7216 at most"));
}

TEST_CASE("a size that no card has is called absurd, whoever asked for it") {
  const Answer answer = answer_to(
      "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size "
      "4585490524328388608");
  CHECK(answer.verdict.cause == Cause::TooBig);
  CHECK(has(answer.text, "a size went wrong in the program"));
}

TEST_CASE("a card is looked at with its own maker's program") {
  const std::string rest =
      " out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 16.00 GiB of "
      "which 9.00 GiB is free. Of the allocated memory 1.00 GiB is allocated by PyTorch, and 2.00 "
      "MiB is reserved by PyTorch but unallocated.";
  CHECK(has(answer_to("CUDA" + rest).text, "nvidia-smi"));
  CHECK(has(answer_to("HIP" + rest).text, "rocm-smi"));
  CHECK(has(answer_to("XPU" + rest).text, "xpu-smi stats -d 1"));
  for (const char* device : {"HIP", "XPU", "MUSA"})
    CHECK_FALSE(has(answer_to(device + rest).text, "nvidia-smi"));
}

TEST_CASE("Paddle is not told what PyTorch's message would say") {
  const Answer answer = answer_to(
      "Out of memory error on GPU 0. Cannot allocate 1.000000GB memory on GPU 0, 22.000000GB "
      "memory has been allocated and available memory is only 512.000000MB.");
  CHECK_FALSE(has(answer.text, "PyTorch"));
}

// What a figure is called, in the order of Quantity; see forms.h.
#include <array>

#include "base/assert.h"
#include "harness/tools/why/message/forms.h"

namespace allocmark::message {
namespace {

constexpr std::array<QuantityWords, kQuantityCount> kWords = {{
    {"asked", "asked", "what the failed request needed"},
    {"total", "card", "the memory of the whole card"},
    {"free", "free", "free on the card when it failed, by the driver"},
    {"this_process", "this process", "all of this process on the card, also what is not PyTorch's"},
    {"process", "process", "what a process holds on the card"},
    {"allowed", "limit", "what the allocator may take at most"},
    {"allocated", "allocated", "given to the program"},
    {"allocated_peak", "allocated, peak", "most that was ever given to the program"},
    {"unallocated", "unallocated", "reserved by the allocator and free in it"},
    {"reserved", "reserved", "taken from the driver by the allocator"},
    {"reserved_peak", "reserved, peak", "most that was ever taken from the driver"},
    {"pool_free", "in private pools",
     "free in pools of CUDA graphs and MemPools; PyTorch counts it as allocated"},
    {"inactive", "non-releasable", "free pieces of segments that are partly used"},
    {"other_memory", "other", "memory of the process beside the allocator"},
    {"largest_free", "largest free", "the largest free chunk"},
    {"free_chunks", "free chunks", "all free chunks together"},
    {"segment_limit", "segment's limit", "address space of one expandable segment"},
    {"segment_needed", "segment needed", "address space that the request needs"},
    {"exceeded", "over the limit", "by how much, as the message says"},
    {"used", "used", "taken on the card, by whomever"},
    {"program", "program", "what the compiled program holds at once"},
    {"parameters", "parameters", "of it its inputs"},
    {"outputs", "outputs", "of it its results"},
    {"temporaries", "temporaries", "of it what lives between inputs and results"},
    {"tokens_asked", "tokens asked", "the longest request that may come"},
    {"tokens_free", "tokens held", "what the cache has room for"},
    {"retry_count", "retries", "times that the cache was given back before a request was served"},
    {"oom_count", "failures", "requests that failed"},
}};

}  // namespace

const QuantityWords& words_of(Quantity quantity) {
  const auto index = static_cast<std::size_t>(quantity);
  ALLOCMARK_ASSERT(index < kWords.size());
  return kWords[index];
}

}  // namespace allocmark::message

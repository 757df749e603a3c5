// The rules in the order in which they are printed.
#include <algorithm>
#include <array>

#include "harness/tools/conformance/rule.h"

namespace allocmark::conformance {
namespace {

constexpr std::array kRules = {
    Rule{"serves", "requests are served while the device has memory", checks::serves,
         Needs::RealMemory},
    Rule{"alignment", "every block begins at a multiple of 16 bytes", checks::alignment},
    Rule{"device-memory", "a block is device memory, as much as was asked for",
         checks::device_memory, Needs::RealMemory},
    Rule{"overlap", "two live blocks share no byte", checks::overlap},
    Rule{"contents", "a block keeps what is written in it until its free", checks::contents,
         Needs::RealMemory},
    Rule{"size-zero", "a request of 0 bytes can be made, and its answer freed", checks::size_zero},
    Rule{"free-null", "NULL can be freed", checks::free_null},
    Rule{"free-order", "blocks can be freed in any order, and their memory serves again",
         checks::free_order, Needs::RealMemory},
    Rule{"foreign-free", "a pointer that is not its own is refused or ignored",
         checks::foreign_free, Needs::PluginInterface},
    Rule{"out-of-memory", "a request that cannot be served gets NULL", checks::out_of_memory,
         Needs::RealMemory},
    Rule{"recovery", "after a failed request, smaller ones are served again", checks::recovery,
         Needs::RealMemory},
    Rule{"last-error", "a failed request leaves no error behind in the CUDA runtime",
         checks::last_error, Needs::RealMemory},
    Rule{"rounding", "live blocks take at most a quarter more memory than was asked for",
         checks::rounding, Needs::PluginInterface},
    Rule{"growth", "the same work again takes no more memory", checks::growth, Needs::RealMemory},
    Rule{"trim", "trim gives back all memory that is not in use", checks::trim, Needs::RealMemory},
    Rule{"stream-argument", "a block can be used at once on the stream that it was asked for",
         checks::stream_argument, Needs::ProvenOrder},
    Rule{"stream-order", "memory goes to another stream only behind the work of its old one",
         checks::stream_order, Needs::ProvenOrder},
    Rule{"record-stream", "memory waits for the streams that record_stream named",
         checks::record_stream, Needs::ProvenOrder},
    Rule{"device-argument", "a block lies on the device that was asked for",
         checks::device_argument, Needs::PluginInterface},
    Rule{"threads", "requests and frees can come from several threads at once", checks::threads,
         Needs::AnyThread},
    Rule{"races", "no two threads use the plugin's own memory without a lock between them",
         checks::races, Needs::PluginInterface},
    Rule{"other-thread", "a block can be freed by another thread than asked for it",
         checks::free_on_other_thread, Needs::AnyThread},
    Rule{"preemption", "while one thread stands at any CUDA call, others are served right",
         checks::preemption, Needs::StoppedThreads},
    Rule{"init-twice", "init can be called twice", checks::init_twice, Needs::PluginInterface},
    Rule{"process", "no call starts a process or throws", checks::processes},
};

}  // namespace

std::span<const Rule> all_rules() { return kRules; }

const Rule* find_rule(std::string_view name) {
  const auto found = std::ranges::find(kRules, name, &Rule::name);
  return found == kRules.end() ? nullptr : &*found;
}

}  // namespace allocmark::conformance

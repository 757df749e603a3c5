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
    Rule{"sizes", "blocks of sizes around powers of two and multiples of 512 share no byte",
         checks::sizes, Needs::PluginInterface},
    Rule{"many-live", "80,000 live blocks share no byte", checks::many_live,
         Needs::PluginInterface},
    Rule{"many-requests", "after 1,000,000 requests, live blocks still share no byte",
         checks::many_requests, Needs::PluginInterface, false, true},
    Rule{"contents", "a block keeps what is written in it until its free", checks::contents,
         Needs::RealMemory},
    Rule{"size-zero", "a request of 0 bytes can be made, and its answer freed", checks::size_zero},
    Rule{"free-null", "NULL can be freed", checks::free_null},
    Rule{"free-order", "blocks can be freed in any order, and their memory serves again",
         checks::free_order, Needs::RealMemory},
    Rule{"foreign-free", "a pointer that is not its own is refused or ignored",
         checks::foreign_free, Needs::PluginInterface},
    Rule{"double-free", "memory that is freed twice goes out once", checks::double_free,
         Needs::PluginInterface},
    Rule{"out-of-memory", "a request that cannot be served gets NULL", checks::out_of_memory,
         Needs::RealMemory},
    Rule{"recovery", "after a failed request, smaller ones are served again", checks::recovery,
         Needs::RealMemory},
    Rule{"last-error", "a failed request leaves no error behind in the CUDA runtime",
         checks::last_error, Needs::RealMemory},
    Rule{"error-state", "requests and frees beside work leave no error behind in the CUDA runtime",
         checks::error_state, Needs::PluginInterface},
    Rule{"rounding", "live blocks take at most a quarter more memory than was asked for",
         checks::rounding, Needs::PluginInterface},
    Rule{"growth", "the same work again takes no more memory", checks::growth, Needs::RealMemory},
    Rule{"trim", "trim gives back all memory that is not in use", checks::trim, Needs::RealMemory},
    Rule{"trim-live", "live blocks stay through trims", checks::trim_live, Needs::PluginInterface},
    Rule{"stream-argument", "a block can be used at once on the stream that it was asked for",
         checks::stream_argument, Needs::ProvenOrder},
    Rule{"stream-order", "memory goes to another stream only behind the work of its old one",
         checks::stream_order, Needs::ProvenOrder},
    Rule{"record-stream", "memory waits for the streams that record_stream named",
         checks::record_stream, Needs::ProvenOrder},
    Rule{"split-order", "parts of a block wait for the streams that the block was used on",
         checks::split_order, Needs::PluginInterface},
    Rule{"record-many", "memory waits for every stream that record_stream named",
         checks::record_many, Needs::PluginInterface},
    Rule{"oom-order", "a request that memory is short for takes none that is in use",
         checks::oom_order, Needs::PluginInterface},
    Rule{"stream-handle", "a new stream is not taken for a destroyed one that had its handle",
         checks::stream_handle, Needs::PluginInterface},
    Rule{"no-waits", "requests and frees wait for no work while memory is free", checks::no_waits,
         Needs::PluginInterface},
    Rule{"device-argument", "a block lies on the device that was asked for",
         checks::device_argument, Needs::PluginInterface},
    Rule{"device-restored", "no call changes which device is the current one",
         checks::device_restored, Needs::PluginInterface},
    Rule{"threads", "requests and frees can come from several threads at once", checks::threads,
         Needs::AnyThread},
    Rule{"races", "no two threads use the plugin's own memory without a lock between them",
         checks::races, Needs::PluginInterface},
    Rule{"other-thread", "a block can be freed by another thread than asked for it",
         checks::free_on_other_thread, Needs::AnyThread},
    Rule{"threads-end", "threads that ended keep no memory back", checks::threads_end,
         Needs::AnyThread},
    Rule{"preemption", "while one thread stands at any CUDA call, others are served right",
         checks::preemption, Needs::StoppedThreads, false, true},
    Rule{"init-twice", "init can be called twice", checks::init_twice, Needs::PluginInterface},
    Rule{"process", "no call starts a process or throws", checks::processes},
    Rule{"settings", "nothing that the process shares is changed: signals, arithmetic, files",
         checks::settings, Needs::PluginInterface},
    Rule{"objects", "the same work again leaves no more events, streams, pools or open files",
         checks::objects, Needs::PluginInterface},
    Rule{"host-memory", "it takes less than 256 MiB of the host's memory", checks::host_memory,
         Needs::PluginInterface},
    Rule{"host-growth", "the same work again takes no more of the host's memory",
         checks::host_growth, Needs::PluginInterface},
    Rule{"idle", "between calls it takes no processor time", checks::idle, Needs::PluginInterface,
         false, true},
    Rule{"stalls", "no call sleeps or takes 1 ms without a call of the driver", checks::stalls,
         Needs::PluginInterface, false, true},
    Rule{"uptime", "calls take no longer the more of them there were", checks::uptime,
         Needs::PluginInterface},
    Rule{"exit", "the process ends as it should, and with exit code 0", checks::process_end,
         Needs::PluginInterface, true},
};

}  // namespace

std::span<const Rule> all_rules() { return kRules; }

const Rule* find_rule(std::string_view name) {
  const auto found = std::ranges::find(kRules, name, &Rule::name);
  return found == kRules.end() ? nullptr : &*found;
}

}  // namespace allocmark::conformance

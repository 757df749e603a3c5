// The causes of failed requests, in the order in which they are tried.
#include "harness/core/check/oom_cause.h"

namespace allocmark {

namespace {

// Sums near 2^64 stay at the top instead of starting again at 0.
std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum < a ? ~std::uint64_t{0} : sum;
}

std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

// P: handed back and not free yet, as far as known.
std::uint64_t waiting_bytes(const std::optional<std::uint64_t>& active_bytes,
                            const std::optional<std::uint64_t>& allocated_bytes) {
  return active_bytes && allocated_bytes ? less(*active_bytes, *allocated_bytes) : 0;
}

// Whether what the failed call itself made free would serve the same request now.
bool served_by_retry(const OomSituation& situation) {
  const std::uint64_t waiting = waiting_bytes(situation.active_bytes, situation.allocated_bytes);
  return situation.free_largest_bytes.value_or(0) >= situation.request_bytes &&
         situation.waiting_bytes_before >= plus(waiting, situation.request_bytes);
}

}  // namespace

OomCause oom_cause(const OomSituation& situation) {
  const std::uint64_t request_bytes = situation.request_bytes;
  const OomSituation::Own own = situation.own.value_or(
      OomSituation::Own{.requested_bytes_live = situation.requested_bytes_live,
                        .allocated_bytes = situation.allocated_bytes,
                        .active_bytes = situation.active_bytes});
  // What the request asks for beside what is held: more than there is?
  const auto exceeds = [&](std::uint64_t held_bytes, std::uint64_t own_bytes) {
    return plus(held_bytes, request_bytes) > situation.capacity_bytes ||
           (situation.limit_bytes && plus(own_bytes, request_bytes) > *situation.limit_bytes);
  };
  if (situation.host_is_lost) return OomCause::HostLost;
  if (exceeds(situation.requested_bytes_live, 0)) return OomCause::Capacity;
  if (exceeds(0, own.requested_bytes_live)) return OomCause::Limit;
  const bool refused = situation.asked_driver == false && !situation.limit_bytes;
  if (!situation.allocated_bytes || !own.allocated_bytes) {
    return refused ? OomCause::Refused : OomCause::Unknown;
  }
  const std::uint64_t held_bytes = plus(*situation.allocated_bytes, situation.device_extra_bytes);
  if (exceeds(held_bytes, *own.allocated_bytes)) return OomCause::Rounding;
  if (refused) return OomCause::Refused;
  const bool alone = situation.single_stream && !situation.own;
  if (alone) return OomCause::Fragmentation;

  // What is known of the memory that other streams keep; the unknown part can only add to it.
  const std::uint64_t kept_bytes = plus(situation.free_other_streams_bytes.value_or(0),
                                        waiting_bytes(own.active_bytes, own.allocated_bytes));
  if (served_by_retry(situation)) return OomCause::Pending;
  if (exceeds(plus(held_bytes, kept_bytes), plus(*own.allocated_bytes, kept_bytes))) {
    return OomCause::Stranded;
  }
  const std::uint64_t others_bytes =
      plus(own.free_other_processes_bytes,
           less(waiting_bytes(situation.active_bytes, situation.allocated_bytes),
                waiting_bytes(own.active_bytes, own.allocated_bytes)));
  if (exceeds(plus(plus(held_bytes, kept_bytes), others_bytes), 0)) return OomCause::OtherProcess;
  const bool all_known = situation.free_other_streams_bytes && situation.active_bytes;
  return all_known || situation.single_stream ? OomCause::Fragmentation : OomCause::Unknown;
}

}  // namespace allocmark

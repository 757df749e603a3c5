// The causes of failed requests, in the order in which they are tried.
#include "harness/check/oom_cause.h"

namespace allocmark {

namespace {

// Sums near 2^64 stay at the top instead of starting again at 0.
std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum < a ? ~std::uint64_t{0} : sum;
}

// Whether what the failed call itself made free would serve the same request now.
bool served_by_retry(const OomSituation& situation) {
  const std::uint64_t waiting_bytes = situation.active_bytes && situation.allocated_bytes &&
                                              *situation.active_bytes > *situation.allocated_bytes
                                          ? *situation.active_bytes - *situation.allocated_bytes
                                          : 0;
  return situation.free_largest_bytes.value_or(0) >= situation.request_bytes &&
         situation.waiting_bytes_before >= plus(waiting_bytes, situation.request_bytes);
}

}  // namespace

OomCause oom_cause(const OomSituation& situation) {
  const std::uint64_t capacity_bytes = situation.capacity_bytes;
  const std::uint64_t request_bytes = situation.request_bytes;
  if (plus(situation.requested_bytes_live, request_bytes) > capacity_bytes) {
    return OomCause::Capacity;
  }
  if (!situation.allocated_bytes) return OomCause::Unknown;
  const std::uint64_t allocated_bytes = *situation.allocated_bytes;
  const std::uint64_t rounded_bytes = plus(allocated_bytes, situation.device_extra_bytes);
  if (plus(rounded_bytes, request_bytes) > capacity_bytes) return OomCause::Rounding;
  if (situation.single_stream) return OomCause::Fragmentation;

  // What is known of the memory that other streams keep; the unknown part can only add to it.
  std::uint64_t kept_bytes = situation.free_other_streams_bytes.value_or(0);
  if (situation.active_bytes && *situation.active_bytes > allocated_bytes) {
    kept_bytes = plus(kept_bytes, *situation.active_bytes - allocated_bytes);
  }
  if (served_by_retry(situation)) return OomCause::Pending;
  if (plus(plus(rounded_bytes, kept_bytes), request_bytes) > capacity_bytes) {
    return OomCause::Stranded;
  }
  const bool all_known = situation.free_other_streams_bytes && situation.active_bytes;
  return all_known ? OomCause::Fragmentation : OomCause::Unknown;
}

}  // namespace allocmark

// Sums of the simulator's clock around every call.
#include "harness/core/search/driver_time.h"

#include <cstddef>

namespace allocmark {

// Adds what the clock moved while it lives.
class DriverTimeBackend::Span {
 public:
  explicit Span(DriverTimeBackend& owner) : owner_(owner), begin_ns_(owner.clock_.modelled_ns) {
    ++owner_.step_calls_;
  }
  ~Span() { owner_.step_ns_ += owner_.clock_.modelled_ns - begin_ns_; }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  DriverTimeBackend& owner_;
  std::uint64_t begin_ns_;
};

AllocateResult DriverTimeBackend::allocate(std::uint64_t size_bytes, cudaStream_t stream) {
  const Span span(*this);
  return ForwardingBackend::allocate(size_bytes, stream);
}

void DriverTimeBackend::deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) {
  const Span span(*this);
  ForwardingBackend::deallocate(pointer, size_bytes, stream);
}

void DriverTimeBackend::record_stream(void* pointer, cudaStream_t stream) {
  const Span span(*this);
  ForwardingBackend::record_stream(pointer, stream);
}

void DriverTimeBackend::trim() {
  const Span span(*this);
  ForwardingBackend::trim();
}

void DriverTimeBackend::mark() {
  if (in_step_ && step_calls_ > 0) {
    steps_.add(step_ns_);
    calls_.add(step_calls_);
  }
  in_step_ = true;
  step_calls_ = 0;
  total_ns_ += step_ns_;
  step_ns_ = 0;
}

void DriverTimeBackend::end_pass() {
  in_step_ = true;
  mark();
}

double DriverTimeBackend::step_ns_median() const { return static_cast<double>(steps_.median()); }

void run_by_steps(std::span<const ReplayStep> steps, Replayer* replayer,
                  DriverTimeBackend* backend) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < steps.size() && !replayer->counts().stopped; ++at) {
    const ReplayStep& step = steps[at];
    if (step.kind != EventKind::Mark || step.mark_class() != MarkClass::Step) continue;
    replayer->run(steps.subspan(begin, at + 1 - begin));
    backend->mark();
    begin = at + 1;
  }
  replayer->run(steps.subspan(begin));
}

}  // namespace allocmark

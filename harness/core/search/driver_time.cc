// Sums of the simulator's clock around every call.
#include "harness/core/search/driver_time.h"

#include <cstddef>

namespace allocmark {

void StepSums::mark() {
  if (in_step_ && step_calls_ > 0) {
    steps_.add(step_ns_);
    calls_.add(step_calls_);
  }
  in_step_ = true;
  step_calls_ = 0;
  total_ns_ += step_ns_;
  step_ns_ = 0;
}

void StepSums::end_pass() {
  in_step_ = true;
  mark();
}

StepSums TapedSteps::sums(const DriverTape& tape) const {
  StepSums sums;
  std::size_t range = 0;
  for (const Step& step : steps) {
    std::uint64_t driver_ns = 0;
    for (; range < step.range_end; ++range) {
      for (std::size_t call = ranges[range].begin; call < ranges[range].end; ++call)
        driver_ns += tape.took_ns(call);
    }
    sums.add(driver_ns, step.allocator_calls);
    &step == &steps.back() ? sums.end_pass() : sums.mark();
  }
  return sums;
}

// Adds what the clock moved while it lives.
class DriverTimeBackend::Span {
 public:
  explicit Span(DriverTimeBackend& owner)
      : owner_(owner),
        begin_ns_(owner.clock_.modelled_ns),
        begin_call_(owner.taped_ == nullptr ? 0 : owner.tape_->call_count()) {}
  ~Span() {
    owner_.sums_.add(owner_.clock_.modelled_ns - begin_ns_, 1);
    if (owner_.taped_ == nullptr || owner_.tape_->call_count() <= begin_call_) return;
    owner_.taped_->ranges.push_back({.begin = begin_call_, .end = owner_.tape_->call_count()});
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  DriverTimeBackend& owner_;
  std::uint64_t begin_ns_;
  std::size_t begin_call_;
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

void DriverTimeBackend::note_step() {
  if (taped_ == nullptr) return;
  taped_->steps.push_back(
      {.range_end = taped_->ranges.size(), .allocator_calls = sums_.step_calls()});
}

void DriverTimeBackend::mark() {
  note_step();
  sums_.mark();
}

void DriverTimeBackend::end_pass() {
  note_step();
  sums_.end_pass();
}

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

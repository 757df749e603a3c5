// A request that the host did not serve, or did not pin; see judges.h.
#include "harness/tools/why/message/judges.h"

namespace allocmark::message {

Verdict judge_host(const Message& message) {
  if (message.form->family == Family::Killed) {
    return {
        .cause = Cause::HostMemory,
        .help = Help::No,
        .answer =
            "the process was killed from outside (signal 9), as a rule because the host's memory "
            "or the container's limit ran out; no setting of PyTorch's GPU allocator can help",
        .facts = {
            "The exit code does not say who did it. 'dmesg' does where it was Linux (\"Killed "
            "process\"), 'kubectl describe pod' where it was Kubernetes (\"OOMKilled\")."}};
  }
  return said(message, {Cause::HostMemory, Help::No},
              "{who} failed in the host's memory, not on a GPU: no setting of PyTorch's GPU "
              "allocator can help",
              {{"who", message.of(Quantity::Asked) ? request_words(message) : "the job"}});
}

Verdict judge_pinning(const Message& message) {
  Verdict verdict = said(message, {Cause::PinnedMemory, Help::No},
                         "{request} for pinned memory of the host failed: the host or a limit on "
                         "it refused, not the card, and no setting for the card's memory can help");
  if (message.form->only_pinning)
    verdict.facts.push_back(
        "\"invalid argument\" means a size here: more than is pinned in one piece. PyTorch rounds "
        "a request up to a power of two before it asks.");
  const bool goes_on = message.form->family == Family::Pinned && !message.form->only_pinning;
  verdict.facts.push_back(
      goes_on ? "ggml and TensorFlow go on with memory that is not pinned: copies are slower, and "
                "the job need not fail."
              : "What comes later may say the same and mean nothing: the error stays with the "
                "thread until the next launch of a kernel reports it again.");
  return verdict;
}

}  // namespace allocmark::message

// 'allocmark estimate W': how much memory a job takes of a card, by kind and phase, before it runs.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/replay/kernel_source.h"
#include "harness/core/run/environment.h"
#include "harness/shell/options.h"
#include "harness/shell/question/card_choice.h"
#include "harness/shell/question/job_options.h"
#include "harness/shell/question/job_release.h"
#include "harness/shell/question/outside_memory.h"
#include "harness/shell/registry.h"
#include "harness/tools/estimate/estimate.h"
#include "harness/tools/estimate/estimate_print.h"
#include "workloads/model_config/model_config.h"
#include "workloads/programs/train_options.h"
#include "workloads/trace/parameters.h"
#include "workloads/trace/summary.h"

namespace allocmark {
namespace {

constexpr const char* kEstimateFooter =
    "\nThe job's requests are replayed on PyTorch's allocator; nothing is guessed but what lies "
    "outside of it: the CUDA\ncontext, kernels and libraries. 'from' and 'to' hold nine of ten "
    "published measurements.\n"
    "\nExamples:\n"
    "  allocmark estimate train:llama-3-8b,batch=1,seq=2048,lora=16 -d sim:rtx-4090\n"
    "  allocmark estimate train:config.json,batch=4,seq=1024,precision=bf16,checkpoint=full\n"
    "  allocmark estimate my_job.csv.gz --format json\n";

void add_estimate(CLI::App* app, JobOptions* job) {
  add_value(app, "workload", job->workload, "W",
            "The job: a trace file, a workload as in 'run --workload', or one with a "
            "model's config.json, as train:PATH/config.json,batch=4")
      ->required();
  add_default(app, "-d,--device", job->device, "D",
              "The card: sim:CARD (allocmark list cards), or sim:h200,memory=24GiB");
  add_value(app, "-c,--conf", job->confs, "C",
            "Config strings, 'unset' for none [unset and expandable_segments:True]");
  add_release_and_seed(app, job);
  add_format(app, job);
  app->footer(kEstimateFooter);
}

// A text of one generator alone.
bool is_one_generator(const std::string& workload, std::string_view generator) {
  return workload.starts_with(generator) && workload.find_first_of(" +") == std::string::npos;
}

// A rank of DistributedDataParallel whose text leaves the question open.
bool may_hold_buckets(const std::string& workload) {
  if (!is_one_generator(workload, "train:")) return false;
  Parameters parameters(workload);
  const DataParallelKind kind = read_train_config(parameters).data_parallel.kind;
  return kind == DataParallelKind::Ddp && parameters.given("holds_buckets") == nullptr;
}

// DDP's ranks whose steps are short may have two sets of buckets. Empty for other jobs.
std::string held_buckets_note(const EstimateSpec& spec, std::uint64_t live_bytes) {
  if (!may_hold_buckets(spec.workload)) return "";
  const auto events = open_workload_with_kernels(spec.workload + ",holds_buckets=1", spec.seed);
  const std::uint64_t held_bytes = summarize(*events).requested_bytes_peak;
  if (held_bytes <= live_bytes) return "";
  return fmt::format(
      "with NCCL and steps below a tenth of a second, the first buckets of gradients may stand "
      "beside the second ones: {} live at once then (holds_buckets=1).",
      format_bytes(held_bytes));
}

EstimateSpec spec_of(const JobOptions& job) {
  EstimateSpec spec{.workload = placed_workload(job, job.device, ""), .seed = job.seed};
  if (!is_one_generator(spec.workload, "train:")) return spec;
  spec.logits = logits_sizes_of(spec.workload);
  spec.marks_forward = true;
  if (spec.workload.find(",marks=") == std::string::npos) spec.workload += ",marks=phases";
  return spec;
}

ExitCode run_estimate(const JobOptions& options) {
  JobOptions job = options;
  check_device(job.device);
  if (!is_simulated(job.device)) {
    throw UsageError({.what = "an estimate is made on a simulated device",
                      .where = "--device " + job.device,
                      .wanted = "sim:CARD, or sim:h200,memory=24GiB",
                      .got = job.device,
                      .next = "leave --device away"});
  }
  EstimateAnswer answer;
  DescribedWorkload described = with_configs(job.workload);
  job.workload = std::move(described.text);
  answer.notes = std::move(described.notes);
  const DeviceAnswer device = describe_device(job.device, own_program_path());
  if (!device.failure.empty()) {
    throw EnvironmentError({.what = "the simulated device cannot be opened",
                            .where = "--device " + job.device,
                            .wanted = "a card of 'allocmark list cards'",
                            .got = device.failure,
                            .next = "leave --device away"});
  }
  answer.device = job.device;
  answer.gpu_name = device.facts.gpu_name;
  answer.card_bytes = device.facts.gpu_memory_bytes;
  answer.workload = workload_of(job.workload);
  EstimateSpec spec = spec_of(job);
  const auto source = open_workload_with_kernels(spec.workload, spec.seed);
  answer.loaded = libraries_of(answer.workload, source->header().jobs.size());
  answer.outside = outside_memory(job.device, answer.loaded);
  answer.cards = cards_by_room(answer.loaded);
  const JobRelease release = find_release(
      {.given = job.pytorch, .workload = answer.workload, .recorded = source->header().pytorch});
  spec.allocator = allocator_of(release);
  if (job.confs.empty()) job.confs = {"unset", "expandable_segments:True"};
  spec.confs = given_confs(job, spec.allocator);
  std::vector<CardRoom> tried = answer.cards;
  tried.push_back({.device = job.device,
                   .gpu_name = answer.gpu_name,
                   .total_bytes = answer.card_bytes,
                   .usable_bytes = 0});
  spec.rooms = rooms_of(tried, answer.loaded);

  // A private pool takes address space as a stream does.
  const std::uint64_t space_count = source->header().stream_count + pool_count_of(*source);
  answer.estimate = estimate_in_child(spec, roomy_device(job.device, space_count));
  answer.notes.insert(answer.notes.end(), answer.estimate.notes.begin(),
                      answer.estimate.notes.end());
  const std::string held = held_buckets_note(spec, answer.estimate.live_bytes);
  if (!held.empty()) answer.notes.push_back(held);
  answer.release_text = fmt::format("{}, {}", release.rules->name(), release.basis);
  const bool is_described =
      answer.workload.find(':') != std::string::npos && !answer.workload.starts_with("file:");
  answer.spread = is_described ? kDescribedSpread : kRecordedSpread;
  job.format == "json" ? print_estimate_json(answer, job) : print_estimate_table(answer, job);
  return ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kEstimateCommand;
constinit const CommandEntry kEstimateCommand{
    "estimate", "Say how much memory a job will take, by kind and phase, before it runs",
    [](CLI::App* app) { return bind_command(app, add_estimate, run_estimate); }};

}  // namespace allocmark

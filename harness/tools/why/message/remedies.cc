#include "harness/tools/why/message/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/bytes.h"
#include "harness/tools/why/message/judges.h"

namespace allocmark::message {
namespace {

constexpr const char* kExpandable = "expandable_segments:True";
constexpr const char* kPythonJob = "python job.py";

bool is_other_device(const Message& message) {
  return !message.device.empty() && message.device != "CUDA" && message.device != "HIP";
}

std::string variable_of(const Message& message) {
  if (!message.variable.empty()) return message.variable;
  return message.device == "HIP" ? "PYTORCH_HIP_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
}

// What the allocator could have had, for `advise`: whole MiB, so that it is no more than there was.
std::string capacity_word(const Message& message, const Verdict& verdict) {
  std::optional<Figure> memory = reachable_of(message);
  const auto& total = message.of(Quantity::Total);
  if (!memory || (total && total->bytes < memory->bytes)) memory = total;
  const auto& allowed = message.of(Quantity::Allowed);
  if (allowed &&
      (verdict.cause == Cause::ProcessLimit || !memory || allowed->bytes < memory->bytes))
    memory = allowed;
  if (!memory || memory->bytes < static_cast<std::int64_t>(kMiB)) return {};
  return fmt::format(" --capacity {}MiB", memory->bytes / static_cast<std::int64_t>(kMiB));
}

void record_snapshot(const Message& message, const Verdict& verdict, Remedy* remedy) {
  if (is_other_device(message)) return;  // torch.cuda knows nothing of it
  remedy->record_title = "To record what held the memory (PyTorch 2.1 or later):";
  // Stacks of frees, the preset, break checkpointed backwards
  // (results/published/2026-11-28-pytorch-history-checkpoint).
  remedy->record = {
      "torch.cuda.memory._record_memory_history(max_entries=1000000, context=\"alloc\")  "
      "# before any tensor",
      "torch.cuda.memory._dump_snapshot(\"oom.pickle\")  # in the handler of the error",
      "allocmark why oom.pickle", "allocmark advise oom.pickle" + capacity_word(message, verdict)};
}

void record_driver_calls(std::string_view program, Remedy* remedy) {
  remedy->record_title =
      "allocmark has no model of this allocator. To record what it asks of the driver:";
  remedy->record = {fmt::format("nsys profile --cuda-memory-usage=true -o job {}", program),
                    "nsys export --type sqlite job.nsys-rep", "allocmark trace summary job.sqlite"};
}

// For an allocator that is a backend here: with its cache off, each request reaches the driver.
void record_requests(const std::vector<std::string>& cache_off, std::string_view program,
                     std::string_view allocator, Remedy* remedy) {
  remedy->record_title =
      "To record the job's requests, with the cache off, and to replay them with it:";
  remedy->record = cache_off;
  remedy->record.insert(
      remedy->record.end(),
      {fmt::format("nsys profile --cuda-memory-usage=true -o job {}", program),
       "nsys export --type sqlite job.nsys-rep",
       fmt::format("allocmark run --workload file:job.sqlite --allocator {}", allocator)});
}

// "which variable would have saved the job", as 'advise' answers it.
void ask_for_setting(std::string_view frameworks, Remedy* remedy) {
  remedy->record.push_back(fmt::format("allocmark advise job.sqlite --framework {}", frameworks));
}

void look_outside(const Message& message, Remedy* remedy) {
  if (is_other_device(message) && message.device != "XPU") return;
  remedy->record_title = "To see what else holds the card, and its limits, while the job runs:";
  if (message.device == "HIP") {
    remedy->record = {"rocm-smi --showmeminfo vram --showpids"};
  } else if (message.device == "XPU") {
    remedy->record = {"xpu-smi stats -d " + message.device_index, "xpu-smi ps"};
  } else {
    remedy->record = {"nvidia-smi --query-gpu=memory.total,memory.used,memory.free --format=csv",
                      "nvidia-smi --query-compute-apps=pid,used_memory --format=csv"};
  }
}

// Expandable segments, where nothing in the text says that they cannot be had.
void against_fragmentation(const Message& message, Remedy* remedy) {
  std::string reason(message.expandable_refusal);
  if (message.needs_2_1) {
    reason =
        "expandable_segments needs PyTorch 2.1 or later, and this text is of an earlier one. There "
        "max_split_size_mb is the key against fragmentation (since 1.10).";
  }
  if (!reason.empty()) {
    remedy->changes.push_back(std::move(reason));
    remedy->last_line =
        "To set: nothing yet; a snapshot tells whether max_split_size_mb helps here.";
    return;
  }
  remedy->setting = kExpandable;
  remedy->changes.push_back(
      "Where expandable_segments:True is set already, it does not help again, and only a snapshot "
      "can tell. Windows does not have it, nor have some builds for AMD.");
}

constexpr const char* kRelaxed =
    "Intel's driver gives larger pieces under UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1, where it "
    "can; kernels that were not built for them may then be slow or wrong.";

// For one that is larger than the device gives at once.
Remedy for_piece(const Message& message) {
  Remedy remedy;
  remedy.changes.emplace_back(
      "Ask in smaller pieces: a smaller batch or a shorter sequence, attention that is fused or "
      "sliced, tiles of a picture.");
  if (message.device == "XPU") remedy.changes.emplace_back(kRelaxed);
  return remedy;
}

Remedy for_caching(const Message& message, const Verdict& verdict) {
  Remedy remedy{.variable = variable_of(message)};
  if (!piece_fact(message).empty()) remedy.changes.emplace_back(kRelaxed);
  if (verdict.cause == Cause::FragmentationPossible && is_other_device(message)) {
    remedy.changes.push_back(fmt::format(
        "Some builds for {} have expandable segments: their notes say. No line is given here.",
        message.device));
  }
  if (verdict.cause == Cause::FragmentationPossible && verdict.help == Help::Possible &&
      !is_other_device(message) && message.form->family == Family::PyTorch)
    against_fragmentation(message, &remedy);
  switch (verdict.cause) {
    case Cause::ProcessLimit:
      remedy.changes.push_back(
          "Raise the limit: torch.cuda.set_per_process_memory_fraction(1.0), or the key "
          "per_process_memory_fraction.");
      break;
    case Cause::AddressSpace:
      remedy.changes.push_back(fmt::format(
          "Raise expandable_segments_reserve (or expandable_segments_reserve_by_class) in {}, or "
          "leave it unset.",
          remedy.variable));
      break;
    case Cause::MissingFigures:
      if (message.form->family == Family::NoFigures && !is_other_device(message))
        remedy.changes.push_back(
            "Where PyTorch holds most of the card, leave room for libraries: "
            "torch.cuda.empty_cache() before their first call, or "
            "torch.cuda.set_per_process_memory_fraction(0.95).");
      break;
    case Cause::TooBig:
      remedy.changes.push_back(
          "Less must be live: a smaller batch or sequence, checkpointing, a smaller type, or state "
          "that lies on several cards.");
      break;
    default:
      break;
  }
  if (verdict.cause == Cause::OutsideLimit) {
    look_outside(message, &remedy);
  } else {
    record_snapshot(message, verdict, &remedy);
  }
  return remedy;
}

Remedy for_driver_pool(const Message& message, const Verdict& verdict) {
  Remedy remedy{.variable = variable_of(message)};
  if (verdict.cause == Cause::OutsideLimit) {
    look_outside(message, &remedy);
    return remedy;
  }
  record_snapshot(message, verdict, &remedy);
  remedy.changes.push_back(
      "backend:cudaMallocAsync writes no snapshot: record with PyTorch's own allocator (the "
      "variable unset, ComfyUI with --disable-cuda-malloc).");
  return remedy;
}

Remedy for_bfc(const Message& message, const Verdict& verdict) {
  Remedy remedy;
  if (verdict.cause == Cause::FragmentationPossible) {
    remedy.changes.push_back(
        "To try in TensorFlow: TF_GPU_ALLOCATOR=cuda_malloc_async. In JAX: "
        "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async. PyTorch's settings do not apply.");
  } else {
    remedy.changes.push_back(
        "The limit is a share of the card: in JAX XLA_PYTHON_CLIENT_MEM_FRACTION (0.75 unless "
        "set). A larger one helps where the card has more.");
  }
  if (message.of(Quantity::Outputs)) {
    remedy.changes.emplace_back(
        "Results take the place of inputs that are given away (jax.jit with donate_argnums); what "
        "lives in between shrinks with jax.checkpoint or a smaller batch.");
  }
  std::vector<std::string> cache_off = {"export XLA_PYTHON_CLIENT_ALLOCATOR=platform  # in JAX"};
  std::string allocator = "bfc@xla-2026-09";
  std::string framework = "jax";
  if (message.form->family == Family::Bfc) {
    cache_off.emplace_back("export TF_GPU_ALLOCATOR=cuda_malloc_async  # in TensorFlow");
    allocator += "  # in TensorFlow bfc@tf2.21";
    framework += "  # or --framework tensorflow";
  }
  record_requests(cache_off, kPythonJob, allocator, &remedy);
  ask_for_setting(framework, &remedy);
  return remedy;
}

// What one sentence answers.
struct Change {
  Family family;
  std::string_view words;
  bool looks_outside = false;
  std::string_view last_line{};
};
constexpr std::string_view kLessLive = "To set: nothing; less must be live.";
constexpr std::array kChanges = {
    Change{Family::Mps,
           "Less must be live: PYTORCH_MPS_HIGH_WATERMARK_RATIO is the limit, and it is 1.7 times "
           "what Metal recommends unless set. 0.0 removes it: macOS then swaps, and may freeze or "
           "end programs, this one first. A value below PYTORCH_MPS_LOW_WATERMARK_RATIO (1.4) is "
           "refused. allocmark does not model Apple's GPUs.",
           false, kLessLive},
    Change{Family::Metal,
           "Less must be live: a smaller model, batch or context, or fewer layers on the GPU "
           "(llama.cpp: -ngl). macOS gives a GPU a part of the memory only (sysctl "
           "iogpu.wired_limit_mb). allocmark does not model Apple's GPUs.",
           false, kLessLive},
    Change{
        Family::Vllm,
        "What helps: a smaller max_model_len or max_num_seqs, more cards (tensor_parallel_size), "
        "or another gpu_memory_utilization: larger where the cache is short and the card has "
        "room, smaller where other programs hold it."},
    Change{Family::Sglang,
           "What helps: a larger --mem-fraction-static where the card has room beside it, or more "
           "cards (--tp)."},
    Change{Family::OtherGpu,
           "Less must be live: a smaller model, batch or sequence, or more devices. allocmark does "
           "not model this device's allocator, and settings for GPUs of NVIDIA do not apply."},
    Change{Family::XlaPool,
           "Less must be live: a smaller batch, recomputation (jax.checkpoint), more devices. What "
           "asked here is XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async of JAX, or "
           "TF_GPU_ALLOCATOR=cuda_malloc_async of TensorFlow.",
           true},
    Change{Family::XlaProgram,
           "Less must be live: a smaller batch, recomputation (jax.checkpoint), more devices."},
    Change{Family::VllmStart,
           "What helps: a smaller gpu_memory_utilization or max_num_seqs, or more cards "
           "(tensor_parallel_size)."},
    Change{
        Family::Kernel,
        "Smaller blocks or fewer stages of that kernel (num_stages), or a release of the library "
        "that has settings for this GPU."},
    Change{Family::Shared,
           "A larger /dev/shm: 'docker run --shm-size=16g' or '--ipc=host', in Kubernetes an "
           "emptyDir of medium Memory mounted there. Or fewer workers of the DataLoader."},
    Change{Family::VllmPool,
           "What helps: a smaller gpu_memory_utilization, and torch.cuda.empty_cache() in the "
           "trainer before wake_up(); waking weights and cache one after the other (wake_up(tags=) "
           "has both).",
           true},
    Change{Family::Driver,
           "Leave room: a smaller batch or workspace, or less of the card for others (PyTorch: "
           "torch.cuda.set_per_process_memory_fraction, torch.cuda.empty_cache(); JAX: "
           "XLA_PYTHON_CLIENT_MEM_FRACTION).",
           true}};

void for_julia(Remedy* remedy) {
  remedy->changes.emplace_back(
      "Less must be live: CUDA.jl has collected garbage before it says so, and what it did not get "
      "back is still reachable. CUDA.unsafe_free!(array) gives one back at once. The pool is the "
      "driver's (cudaMallocAsync): no setting of PyTorch applies.");
  record_requests({"export JULIA_CUDA_MEMORY_POOL=none"}, "julia job.jl", "async", remedy);
}

Remedy for_others(const Message& message, const Verdict& verdict) {
  Remedy remedy;
  const Family family = message.is_of_library() ? Family::Driver : message.form->family;
  const auto* const change = std::ranges::find(kChanges, family, &Change::family);
  if (change != kChanges.end()) {
    remedy.changes.emplace_back(change->words);
    if (change->looks_outside) look_outside(message, &remedy);
    remedy.last_line = change->last_line;
    return remedy;
  }
  switch (message.form->family) {
    case Family::Ggml:
      remedy.changes.push_back(
          "Fewer layers on the card (-ngl; newer llama.cpp chooses them where it is not given), a "
          "shorter context (-c), a smaller batch (-ub), or a quantized KV cache (-ctk, -ctv). In "
          "Ollama: num_gpu, num_ctx, OLLAMA_KV_CACHE_TYPE.");
      record_driver_calls("llama-cli -m model.gguf", &remedy);
      break;
    case Family::Rmm:
      remedy.changes.push_back(
          verdict.cause == Cause::ProcessLimit
              ? "Raise the pool's maximum size (PoolMemoryResource: maximum_pool_size) or the "
                "limit of the limiting adaptor."
              : "Less must be live, or what else holds the card must go. A pool helps where free "
                "memory lies in pieces: PoolMemoryResource, or CudaAsyncMemoryResource.");
      remedy.record_title = "To record the requests:";
      remedy.record = {"rmm.enable_logging(log_file_name=\"rmm_log.csv\")",
                       "allocmark run --workload file:rmm_log.csv"};
      break;
    case Family::CuPy:
      remedy.changes.push_back(
          "The limit is cupy.get_default_memory_pool().set_limit, or CUPY_GPU_MEMORY_LIMIT.");
      record_requests({"cupy.cuda.set_allocator(None)  # first thing in job.py"}, kPythonJob,
                      "cupy", &remedy);
      break;
    case Family::CudaJl:
      for_julia(&remedy);
      break;
    case Family::OnnxRuntime:
      remedy.changes.push_back(
          "gpu_mem_limit of the CUDA provider is the arena's limit; "
          "arena_extend_strategy=kSameAsRequested lets it grow by less.");
      record_driver_calls(kPythonJob, &remedy);
      break;
    case Family::Killed:
    case Family::Host:
      remedy.changes.push_back("The host needs more memory, or the job less of it.");
      remedy.changes.push_back(
          "Pinned buffers cannot be swapped, and PyTorch rounds them up: 'allocmark pinned "
          "SIZE...' "
          "says what they take.");
      break;
    default:
      record_driver_calls(kPythonJob, &remedy);
      break;
  }
  return remedy;
}

std::string last_line(const Verdict& verdict, const Remedy& remedy) {
  if (!remedy.setting.empty()) {
    return fmt::format("To try: export {}={}", remedy.variable, remedy.setting);
  }
  if (verdict.cause == Cause::ProcessLimit)
    return "To set: nothing of the allocator's; the limit must rise.";
  if (verdict.cause == Cause::AddressSpace)
    return "To set: a larger expandable_segments_reserve, or none.";
  switch (verdict.help) {
    case Help::No:
      return "To set: nothing; no setting of the allocator can help here.";
    case Help::Possible:
      return "To set: nothing of PyTorch's; see above.";
    case Help::Unknown:
      break;
  }
  return "To set: nothing yet; the figures do not show that a setting would help.";
}

}  // namespace

Remedy remedy_for(const Message& message, const Verdict& verdict) {
  Remedy remedy;
  if (verdict.cause == Cause::PinnedMemory) return for_pinning(message);
  if (message.is_piece_limit) {
    remedy = for_piece(message);
    remedy.last_line = last_line(verdict, remedy);
    return remedy;
  }
  switch (message.form->family) {
    case Family::PyTorch:
    case Family::Summary:
    case Family::NoFigures:
      remedy =
          message.is_of_library() ? for_others(message, verdict) : for_caching(message, verdict);
      break;
    case Family::PyTorchPool:
      remedy = for_driver_pool(message, verdict);
      break;
    case Family::Bfc:
    case Family::Xla:
      remedy = for_bfc(message, verdict);
      break;
    default:
      remedy = for_others(message, verdict);
      break;
  }
  if (remedy.changes.empty() && is_other_device(message))
    remedy.changes.emplace_back(
        std::ranges::find(kChanges, Family::OtherGpu, &Change::family)->words);
  if (remedy.last_line.empty()) remedy.last_line = last_line(verdict, remedy);
  return remedy;
}

}  // namespace allocmark::message

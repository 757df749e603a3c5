#include "harness/tools/why/message/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "harness/tools/why/message/pattern.h"
#include "harness/tools/why/message/pinning.h"
#include "harness/tools/why/message/tensor_shape.h"
#include "harness/tools/why/message/unmix.h"

namespace allocmark::message {
namespace {

constexpr std::size_t kChunkBytes = 4 * kMiB;
// No message is longer, with what its log puts between.
constexpr std::size_t kTailBytes = 128 * kKiB;
constexpr std::size_t kWindow = 6000;     // of plain text behind an anchor
constexpr std::size_t kLookBack = 20000;  // and before one

struct ReadyPattern {
  Quantity quantity;
  CompiledPattern pattern;
};

struct ReadyAnchor {
  const Form* form;
  const Anchor* anchor;
  CompiledPattern pattern;
};

struct ReadyForm {
  std::vector<ReadyPattern> patterns;
  std::vector<ReadyPattern> before;
};

struct ReadyForms {
  std::vector<ReadyAnchor> anchors;
  std::vector<ReadyForm> forms;  // as all_forms()
  CompiledPattern free_chunk{"Free at ~ of size {}"};
  // What a message of PyTorch says once; a line may begin inside of longer words.
  std::array<CompiledPattern, 6> once = {
      CompiledPattern("total capacity of {}"),       CompiledPattern("{} is free."),
      CompiledPattern("{} is allocated by PyTorch"), CompiledPattern("{} is reserved by PyTorch"),
      CompiledPattern("{} already allocated"),       CompiledPattern("{} free;")};
};

std::vector<ReadyPattern> ready_patterns(std::span<const Pattern> patterns) {
  std::vector<ReadyPattern> ready;
  for (const Pattern& pattern : patterns)
    ready.push_back({pattern.quantity, CompiledPattern(pattern.text)});
  return ready;
}

const ReadyForms& ready_forms() {
  static const ReadyForms ready = [] {
    ReadyForms made;
    for (const Form& form : all_forms()) {
      for (const Anchor& anchor : form.anchors)
        made.anchors.push_back({&form, &anchor, CompiledPattern(anchor.text)});
      made.forms.push_back({ready_patterns(form.patterns), ready_patterns(form.before)});
    }
    return made;
  }();
  return ready;
}

const ReadyForm& ready_of(const Form& form) {
  return ready_forms().forms[static_cast<std::size_t>(&form - all_forms().data())];
}

struct Hit {
  const ReadyAnchor* anchor;
  PatternMatch match;
};

// In the order of the text; of two that mean one figure, the first of the table.
std::vector<Hit> anchor_hits(const PlainText& plain) {
  std::vector<Hit> hits;
  for (const ReadyAnchor& anchor : ready_forms().anchors) {
    std::size_t from = 0;
    while (const auto match =
               anchor.pattern.find(plain.text, from, plain.mark, anchor.form->style)) {
      hits.push_back({&anchor, *match});
      from = match->end;
    }
  }
  std::ranges::stable_sort(hits, {}, [](const Hit& hit) { return hit.match.figure_begin; });
  return hits;
}

// A weak anchor, and one whose figure is taken, belong to the message before them.
bool belongs_to(const Hit& hit, const Hit& before) {
  if (hit.anchor->form->family == Family::NoFigures &&
      before.anchor->form->family != Family::NoFigures &&
      hit.match.begin < before.match.begin + kWindow)
    return true;
  if (before.anchor->form->family == Family::Mps && hit.match.begin < before.match.begin + 300)
    return true;
  // Its statistics have BFC's names.
  if (before.anchor->form->family == Family::XlaPool && hit.anchor->form->continues &&
      hit.match.begin < before.match.begin + 1000)
    return true;
  if (hit.anchor->form != before.anchor->form) return false;
  return hit.match.figure_begin == before.match.figure_begin ||
         (hit.anchor->anchor->weak && hit.match.begin < before.match.begin + kWindow);
}

void set_figure(Message* message, Quantity quantity, const Figure& figure) {
  if (!figure.is_size) {
    message->no_sizes.push_back(fmt::format("{}: {}", words_of(quantity).label, figure.printed));
    message->is_absurd |= quantity == Quantity::Asked;
    return;
  }
  if (message->of(quantity)) return;
  Figure kept = figure;
  if (!is_count(quantity) && kept.printed.find(' ') == std::string::npos) kept.printed += " bytes";
  message->set(quantity, kept);
}

// All "Process 7 has 3.00 GiB memory in use".
void take_processes(Message* message, const ReadyPattern& ready, std::string_view text,
                    std::size_t from, std::size_t to) {
  while (const auto match = ready.pattern.find(text, from, to, message->form->style)) {
    from = match->end;
    const std::string_view rest = text.substr(match->begin + 7, 20);
    const std::string_view pid =
        rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size()));
    if (pid.empty()) continue;
    if (!match->figure->is_size) {
      set_figure(message, Quantity::Process, *match->figure);
    } else {
      message->processes.push_back({std::string(pid), *match->figure});
    }
  }
}

// The one figure that all matches before the message agree on.
void take_before(Message* message, const ReadyPattern& ready, std::string_view text,
                 std::size_t begin) {
  std::optional<Figure> last;
  std::size_t from = begin > kLookBack ? begin - kLookBack : 0;
  while (const auto match = ready.pattern.find(text, from, begin + 1, message->form->style)) {
    if (last && last->printed != match->figure->printed) return;
    last = match->figure;
    from = match->end;
  }
  if (last) set_figure(message, ready.quantity, *last);
}

// Whose words an error has that does not name the device.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kDeviceWords = {
    {{"largerthan4gb!", "XPU"},
     {"ur_result", "XPU"},
     {"level_zero", "XPU"},
     {"hsa_status", "HIP"},
     {"vk::", "Vulkan"}}};

// "CUDA", right before the words that begin the message, or by words around these.
std::string device_before(std::string_view text, std::size_t begin) {
  static constexpr std::array kDevices = {"CUDA", "HIP", "XPU", "NPU", "MUSA", "MLU", "MPS"};
  const std::string_view near =
      text.substr(begin > 8 ? begin - 8 : 0, std::min<std::size_t>(begin, 8));
  for (const std::string_view device : kDevices) {
    if (near.ends_with(plain_text(device).text)) return std::string(device);
  }
  constexpr std::size_t kAround = 80;
  const std::size_t from = begin - std::min(begin, kAround);
  const std::string_view around = text.substr(from, begin + kAround - from);
  for (const auto& [words, device] : kDeviceWords)
    if (around.find(words) != std::string_view::npos) return std::string(device);
  return {};
}

std::string index_behind(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + words.size(), 3);
  return std::string(rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size())));
}

// What the text around the figures says. `text` is the message alone.
void take_words(Message* message, std::string_view text) {
  const auto has = [text](std::string_view words) {
    return text.find(words) != std::string_view::npos;
  };
  message->device_index = index_behind(
      text, message->form->family == Family::Ggml || message->form->family == Family::Summary
                ? "device"
                : "gpu");
  if (message->form->family == Family::Summary)
    message->device_index = index_behind(text, "deviceid");
  if (message->device_index.empty()) message->device_index = index_behind(text, "(npu");
  for (const std::string_view name :
       {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    if (message->variable.empty() && has(plain_text(name).text)) message->variable = name;
  }
  message->expandable_on =
      has("expandable_segmentsisenabled") || has("exceedstheexpandable-segmentreserve");
  message->is_rejection = has("preemptivelyrejected") || has("per_process_memory_fractionlimit.");
  message->is_at_limit = has("notenoughroomtogrow") || has("exceededmemorylimit");
  message->is_pool_full = has("maximumpoolsizeexceeded") && !has("cudaerror");
  message->is_absurd |= has("triedtoallocatemorethan1eb");
  message->is_piece_limit = has("largerthan4gb!") || has("invalidbuffersize:") ||
                            has("greaterthanthemaximumallowedbuffersize") ||
                            has("exceedsdevicememoryallocationlimit");
  message->needs_2_1 = has("totalcapacity;");
  message->is_no_failure = message->form->is_warning || has("thisisnotafailure");
}

// Words that say that expandable segments cannot be had, as in plain text.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kRefusals = {
    {{"expandable_segmentsnotsupportedonthisplatform",
      "The text says that expandable_segments is not supported on this platform. "
      "max_split_size_mb is the other key against fragmentation."},
     {"expandablesegmentsarenotcompatiblewithmemorypool",
      "The text says that expandable segments and this memory pool exclude each other. "
      "max_split_size_mb is the other key against fragmentation."},
     {"device_allocator/cumem.py",
      "The pool of vLLM's sleep mode, which the text shows, refuses expandable_segments. "
      "max_split_size_mb is the other key against fragmentation."}}};
constexpr std::string_view kWindowsRefusal =
    "The text's paths are of Windows, and PyTorch for Windows has no expandable_segments. "
    "max_split_size_mb is the other key against fragmentation.";

// A line of a traceback with a drive: File "C:\app\train.py", line 3
bool has_windows_place(std::string_view text) {
  constexpr std::string_view kFile = "file";
  constexpr std::size_t kPathMax = 260;
  for (std::size_t at = text.find(":"); at != std::string_view::npos; at = text.find(":", at + 1)) {
    if (at < kFile.size() + 1 || text.substr(at - kFile.size() - 1, kFile.size()) != kFile)
      continue;
    const std::size_t line = text.substr(at, kPathMax).find(",line");
    const std::size_t digit = at + line + 5;
    if (line != std::string_view::npos && digit < text.size() && text[digit] >= '0' &&
        text[digit] <= '9')
      return true;
  }
  return false;
}

// Whether a part of PyTorch's message comes twice with two values: the lines of several are mixed.
bool is_mixed(const Message& message, std::string_view text, std::size_t begin, std::size_t end) {
  if (message.form->family != Family::PyTorch) return false;
  return std::ranges::any_of(ready_forms().once, [&](const CompiledPattern& part) {
    std::optional<std::string> first;
    std::size_t from = begin;
    while (const auto match = part.find(text, from, end, message.form->style)) {
      if (first.value_or(match->figure->printed) != match->figure->printed) return true;
      first = match->figure->printed;
      from = match->end;
    }
    return false;
  });
}

// What was asked alone is sure to be of this message.
void drop_mixed(Message* message) {
  for (std::size_t i = 0; i < kQuantityCount; ++i)
    if (i != static_cast<std::size_t>(Quantity::Asked)) message->figures[i].reset();
  message->processes.clear();
}

// What begins with the hit and ends at `end`.
Message message_of(const Hit& hit, const std::string& plain, std::size_t end) {
  Message message{.form = hit.anchor->form};
  const std::size_t begin = hit.match.begin;
  message.device = device_before(plain, begin);
  // BFC writes what was asked with a unit; without one it is cut.
  const bool is_cut = message.form->family == Family::Bfc && hit.match.figure &&
                      hit.match.figure->printed.find(' ') == std::string::npos;
  if (hit.match.figure && (!is_cut || hit.anchor->anchor->quantity != Quantity::Asked))
    set_figure(&message, hit.anchor->anchor->quantity, *hit.match.figure);
  const ReadyForm& form = ready_of(*message.form);
  for (const ReadyPattern& ready : form.patterns) {
    if (ready.quantity == Quantity::Process) {
      take_processes(&message, ready, plain, begin, end);
    } else if (const auto match = ready.pattern.find(plain, begin, end, message.form->style)) {
      set_figure(&message, ready.quantity, *match->figure);
    }
  }
  const auto& used = message.of(Quantity::Used);
  const auto& total = message.of(Quantity::Total);
  if (used && total && !message.of(Quantity::Free))
    message.set(Quantity::Free, at_least_zero(*total - *used));
  message.is_mixed = is_mixed(message, plain, begin, end);
  if (message.is_mixed) drop_mixed(&message);
  for (const ReadyPattern& ready : form.before) take_before(&message, ready, plain, begin);
  const std::string_view text = std::string_view(plain).substr(begin, end - begin);
  if (message.form->family == Family::Bfc && !message.of(Quantity::Asked)) {
    if (const auto size_bytes = tensor_bytes(text))
      message.set(Quantity::Asked, exact_figure(*size_bytes));
    // TensorFlow says the same of the host's memory.
    if (text.find("byallocatorcpu") != std::string_view::npos ||
        text.find("byallocatormklcpu") != std::string_view::npos)
      message.form = &*std::ranges::find(all_forms(), Family::Host, &Form::family);
  }
  take_words(&message, text);
  const bool has_size = message.of(Quantity::Asked).has_value();
  message.is_pinning = message.form->family == Family::Pinned && has_size;
  if (message.form->only_pinning || message.form->family == Family::NoFigures)
    message.is_pinning = says_pinning(plain, begin, end);
  return message;
}

}  // namespace

void MessageReader::add(std::string_view source) {
  held_ += source;
  if (held_.size() < kChunkBytes + kTailBytes) return;
  std::size_t mark = held_.size() - kTailBytes;
  const std::size_t line_end = held_.rfind('\n', mark);
  if (line_end != std::string::npos && mark - line_end < kTailBytes) mark = line_end + 1;
  take(held_, mark);
  line_count_ += static_cast<std::uint64_t>(
      std::count(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(mark), '\n'));
  held_.erase(0, mark);
}

void MessageReader::take(std::string_view source, std::size_t mark_bytes) {
  PlainText plain = plain_text(source, mark_bytes);
  std::vector<Hit> hits = anchor_hits(plain);
  std::vector<std::size_t> lines;
  if (!hits.empty()) {
    if (const std::optional<Unmixed> sorted = unmixed(source, mark_bytes)) {
      lines = sorted->lines;
      plain =
          plain_text(sorted->text, mark_bytes == source.size() ? sorted->text.size() : mark_bytes);
      hits = anchor_hits(plain);
    }
  }
  count_chunks(plain);
  note_settings(plain);
  note_refusals(plain);
  names_pytorch_ |= plain.text.find("torch") < plain.mark;
  const Hit* last = nullptr;
  for (std::size_t i = 0; i < hits.size(); ++i) {
    if (last != nullptr && belongs_to(hits[i], *last)) continue;
    const Hit* const before = std::exchange(last, &hits[i]);
    std::size_t end = std::min(plain.text.size(), last->match.begin + kWindow);
    const auto next = std::find_if(hits.begin() + static_cast<std::ptrdiff_t>(i) + 1, hits.end(),
                                   [last](const Hit& hit) { return !belongs_to(hit, *last); });
    if (next != hits.end()) end = std::min(end, std::max(next->match.begin, last->match.end));
    Message message = message_of(*last, plain.text, end);
    if (message.form->only_pinning && !message.is_pinning) {
      last = before;
      continue;
    }
    const std::size_t line = plain.line_index(last->match.begin);
    message.line = line_count_ + (lines.empty() ? line : lines[line]) + 1;
    keep(std::move(message));
  }
  found_.size_bytes += mark_bytes;
}

void MessageReader::count_chunks(const PlainText& plain) {
  std::size_t from = 0;
  while (const auto chunk = ready_forms().free_chunk.find(plain.text, from, plain.mark,
                                                          FigureStyle{.bare_is_bytes = true})) {
    from = chunk->end;
    if (!chunk->figure->is_size || free_chunks_.bytes >= kNoSizeBytes) continue;
    free_chunks_ = free_chunks_ + *chunk->figure;
    if (chunk->figure->bytes <= largest_chunk_.bytes) continue;
    largest_chunk_ = *chunk->figure;
    largest_chunk_.printed += " bytes";
  }
}

void MessageReader::note_settings(const PlainText& plain) {
  static constexpr std::string_view kName = "alloc_conf";
  static constexpr std::string_view kAdvice = "trysetting";  // of PyTorch's message
  const std::string_view text = plain.text;
  for (std::size_t at = text.find(kName); at < plain.mark; at = text.find(kName, at + 1)) {
    const std::string_view before =
        text.substr(at > 30 ? at - 30 : 0, std::min<std::size_t>(at, 30));
    if (before.find(kAdvice) != std::string_view::npos) continue;
    const std::size_t begin = text.find_first_not_of("]=:,", at + kName.size());
    if (begin > at + kName.size() + 3) continue;
    const std::string_view rest = text.substr(std::min(begin, text.size()), 200);
    const std::string_view conf = rest.substr(
        0, std::min(rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_:.,[]>-"),
                    rest.size()));
    if (conf.find("expandable_segments:true") != std::string_view::npos) expandable_on_ = true;
  }
}

void MessageReader::note_refusals(const PlainText& plain) {
  if (!expandable_refusal_.empty()) return;
  for (const auto& [words, reason] : kRefusals) {
    if (plain.text.find(words) < plain.mark) expandable_refusal_ = reason;
  }
  if (has_windows_place(std::string_view(plain.text).substr(0, plain.mark)))
    expandable_refusal_ = kWindowsRefusal;
}

}  // namespace allocmark::message

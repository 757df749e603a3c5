// The messages in a pasted text. A text flows in, which may be a log of any size; what each message
// says flows out, as figures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/tools/why/message/forms.h"
#include "harness/tools/why/message/plain_text.h"

namespace allocmark::message {

struct ProcessFigure {
  std::string pid;
  Figure memory;
};

struct Message {
  const Form* form = nullptr;
  std::uint64_t line = 0;   // 1-based, where it begins
  std::uint64_t count = 1;  // times that the text has it
  std::string device{};     // "CUDA", "HIP", as the text calls it; empty where it does not
  std::string device_index{};
  std::string variable{};                 // the variable that the text names for settings
  bool expandable_on = false;             // the text says that expandable segments are on already
  std::string_view expandable_refusal{};  // why the text's job cannot have them; a sentence
  bool is_rejection = false;              // throw_on_cudamalloc_oom
  bool needs_2_1 = false;                 // the wording is older than expandable segments
  bool is_at_limit = false;               // a pool of RMM reached its maximum
  bool is_pool_full = false;    // or the driver had no more, which older releases do not tell apart
  bool is_piece_limit = false;  // more than the device gives in one piece, by the text
  bool is_absurd = false;       // more than 1 EB was asked
  bool is_mixed = false;        // with lines of other messages: whose a figure is, is not known
  bool is_pinning = false;      // the text says that memory of the host was to be pinned
  bool is_no_failure = false;   // TensorFlow's "the caller indicates that this is not a failure"
  bool names_pytorch = false;   // the text does
  std::array<std::optional<Figure>, kQuantityCount> figures{};
  std::vector<ProcessFigure> processes{};
  // What the text calls a figure and what is no size, "limit: 17179869184.00 GiB".
  std::vector<std::string> no_sizes{};

  [[nodiscard]] const std::optional<Figure>& of(Quantity quantity) const {
    return figures[static_cast<std::size_t>(quantity)];
  }
  [[nodiscard]] bool is_of_library() const {
    return form->is_library || (form->is_library_alone && !names_pytorch);
  }
  void set(Quantity quantity, const Figure& figure) {
    figures[static_cast<std::size_t>(quantity)] = figure;
  }
};

struct FoundMessages {
  std::vector<Message> messages;    // in the order of the text; repetitions are counted, not kept
  std::uint64_t dropped_count = 0;  // different ones beyond kMessageCountMax
  std::uint64_t size_bytes = 0;     // of the text
  std::string head{};               // its first bytes
  std::string damage{};             // why it was not read to its end; empty where it was
};

inline constexpr std::size_t kMessageCountMax = 64;

// Takes a text piece by piece and keeps what its messages need.
class MessageReader {
 public:
  void add(std::string_view source);
  [[nodiscard]] FoundMessages finish();

 private:
  void take(std::string_view source, std::size_t mark_bytes);
  void count_chunks(const PlainText& plain);  // of a BFC dump
  void keep(Message message);
  // Settings that the text itself shows, as an environment or a command line has them.
  void note_settings(const PlainText& plain);
  void note_refusals(const PlainText& plain);  // of expandable segments

  std::string held_;              // of the text, not looked at to its end
  std::uint64_t line_count_ = 0;  // before `held_`
  FoundMessages found_;
  std::vector<Message> without_figures_;
  bool expandable_on_ = false;
  bool names_pytorch_ = false;
  std::string_view expandable_refusal_{};
  Figure free_chunks_ = exact_figure(0);
  Figure largest_chunk_ = exact_figure(0);
};

// By its first bytes: a pickle, a database or an archive, which no text begins like.
[[nodiscard]] bool is_binary_head(std::string_view head);

// Of a file or a pipe, packed or not; of a binary one, the head alone. Throws FileError where it
// cannot be read.
[[nodiscard]] FoundMessages read_messages(const std::string& path);

}  // namespace allocmark::message

// A message of each form: which figures are read of it. Sizes are made up.
#include "harness/tools/why/message/forms.h"

#include <cstddef>
#include <map>
#include <string>

#include "harness/tools/why/message/log_prefix.h"
#include "harness/tools/why/message/message.h"
#include "tests/catch.h"
#include "tests/harness/why/message/find_messages.h"
#include "tests/harness/why/message/form_cases.h"

using namespace allocmark::message;

namespace {

Message one_message(std::string_view text) {
  const FoundMessages found = find_messages(text);
  INFO(text);
  REQUIRE(found.messages.size() == 1);
  return found.messages[0];
}

std::map<Quantity, Figure> figures_of(const std::string& text, Family family) {
  std::map<Quantity, Figure> figures;
  for (const Message& message : find_messages(text).messages) {
    // A bare number that ends the text may be whole.
    const FigureStyle& style = message.form->style;
    if (message.form->family != family || (style.bare_is_bytes && !style.goes_on)) continue;
    for (std::size_t i = 0; i < kQuantityCount; ++i) {
      if (message.figures[i]) figures[static_cast<Quantity>(i)] = *message.figures[i];
    }
  }
  return figures;
}

}  // namespace

TEST_CASE("each form's figures are read, and no others") {
  for (const Case& one : kCases) {
    INFO(one.name);
    const Message message = one_message(one.text);
    CHECK(message.form->family == one.family);
    if (one.family == Family::NoFigures) CHECK(message.count == 1);
    for (std::size_t i = 0; i < kQuantityCount; ++i) {
      const auto quantity = static_cast<Quantity>(i);
      INFO(words_of(quantity).name);
      const auto expected = one.figures.find(quantity);
      REQUIRE(message.of(quantity).has_value() == (expected != one.figures.end()));
      if (expected != one.figures.end()) CHECK(message.of(quantity)->printed == expected->second);
    }
  }
}

TEST_CASE("no pattern begins with what a log puts before a line") {
  for (const Form& form : all_forms()) {
    for (const Anchor& anchor : form.anchors) {
      INFO(anchor.text);
      CHECK(log_prefix(anchor.text, {}, {}).size == 0);
    }
    for (const Pattern& pattern : form.patterns) {
      INFO(pattern.text);
      CHECK(log_prefix(pattern.text, {}, {}).size == 0);
    }
  }
}

TEST_CASE("every quantity that a form has a pattern for is in a case") {
  for (const Form& form : all_forms()) {
    for (const Pattern& pattern : form.patterns) {
      if (pattern.quantity == Process) continue;
      bool is_seen = false;
      for (const Case& one : kCases)
        is_seen |= one.family == form.family && one.figures.contains(pattern.quantity);
      INFO(form.name << ": " << pattern.text);
      CHECK(is_seen);
    }
  }
}

TEST_CASE("a figure of a text that was cut anywhere is the whole text's, or none") {
  for (const Case& one : kCases) {
    const std::map<Quantity, Figure> whole = figures_of(one.text, one.family);
    for (std::size_t size = 0; size < one.text.size(); ++size) {
      for (const char* behind : {"", "...", "\xe2\x80\xa6", "\n"}) {
        for (const auto& [quantity, figure] :
             figures_of(one.text.substr(0, size) + behind, one.family)) {
          if (quantity == FreeChunks || quantity == LargestFree) continue;  // of those left
          INFO(one.name << ", " << size << " bytes of it, " << words_of(quantity).label);
          REQUIRE(whole.contains(quantity));
          CHECK(whole.at(quantity).bytes == figure.bytes);
        }
      }
    }
  }
}

TEST_CASE("free chunks of a dump are summed, and the largest is known") {
  const Message message = one_message(case_of("TensorFlow's dump").text);
  CHECK(message.of(FreeChunks)->bytes == std::int64_t{1610612736} + 1073741824);
  CHECK(message.of(LargestFree)->bytes == 1610612736);
}

TEST_CASE("free memory of several cards, which differ, is not taken for one card's") {
  const std::string line = "using device CUDA0 (RTX 3090) (0000:01:00.0) - 23306 MiB free\n";
  const std::string failure =
      "allocating 39979.48 MiB on device 0: cudaMalloc failed: out of memory";
  CHECK(one_message(line + line + failure).of(Free).has_value());
  CHECK_FALSE(one_message(line + "using device CUDA1 (RTX 3060) (0000:02:00.0) - 11900 MiB free\n" +
                          failure)
                  .of(Free)
                  .has_value());
}

TEST_CASE("a tensor that TensorFlow could not place has the bytes of its shape") {
  const Message message = one_message(
      "ResourceExhaustedError: OOM when allocating tensor with shape[256, 128,56,56] "
      "and type float on /job:localhost/device:GPU:0 by allocator GPU_0_bfc");
  CHECK(message.of(Asked)->bytes == std::int64_t{256} * 128 * 56 * 56 * 4);
  CHECK_FALSE(
      one_message("OOM when allocating tensor with shape[9999999999,9999999999,99] and type "
                  "float on GPU, limit set")
          .of(Asked)
          .has_value());
}

// Messages as people paste them: in logs, pages, wrapped, repeated, cut, in large files.
#include <algorithm>
#include <string>
#include <vector>

#include "harness/tools/why/message/message.h"
#include "harness/tools/why/message/verdict.h"
#include "tests/catch.h"
#include "tests/harness/why/message/find_messages.h"

using namespace allocmark::message;
using enum Quantity;

namespace {

const std::string kMessage =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 546.00 MiB. GPU 0 has a total "
    "capacity of 15.77 GiB of which 514.19 MiB is free. Process 1 has 15.25 GiB memory in use. Of "
    "the allocated memory 13.73 GiB is allocated by PyTorch, with 46.00 MiB allocated in private "
    "pools (e.g., CUDA Graphs), and 736.86 MiB is reserved by PyTorch but unallocated. If reserved "
    "but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to "
    "avoid fragmentation.";

void check_whole(const std::string& text) {
  const FoundMessages found = find_messages(text);
  INFO(text);
  REQUIRE(found.messages.size() == 1);
  const Message& message = found.messages[0];
  REQUIRE(message.of(Asked).has_value());
  CHECK(message.of(Asked)->printed == "546.00 MiB");
  REQUIRE(message.of(Total).has_value());
  CHECK(message.of(Total)->printed == "15.77 GiB");
  REQUIRE(message.of(Free).has_value());
  CHECK(message.of(Free)->printed == "514.19 MiB");
  REQUIRE(message.of(Allocated).has_value());
  CHECK(message.of(Allocated)->printed == "13.73 GiB");
  REQUIRE(message.of(PoolFree).has_value());
  CHECK(message.of(PoolFree)->printed == "46.00 MiB");
  REQUIRE(message.of(Unallocated).has_value());
  CHECK(message.of(Unallocated)->printed == "736.86 MiB");
  REQUIRE(message.processes.size() == 1);
  CHECK(message.processes[0].pid == "1");
  CHECK(message.device == "CUDA");
  CHECK(message.device_index == "0");
  CHECK(message.variable == "PYTORCH_ALLOC_CONF");
}

// Broken after every `width` letters, as a terminal does, or at blanks, as an editor does.
std::string wrapped(const std::string& text, std::size_t width, const std::string& head,
                    bool at_blanks) {
  std::string lines = head;
  std::size_t count = 0;
  for (const char c : text) {
    if (count >= width && (!at_blanks || c == ' ')) {
      lines += "\n" + head;
      count = 0;
      if (c == ' ') continue;
    }
    lines += c;
    ++count;
  }
  return lines;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("a message is found in a traceback, with CRLF, and alone") {
  check_whole(kMessage);
  check_whole("Traceback (most recent call last):\r\n  File \"train.py\", line 3, in <module>\r\n" +
              kMessage + "\r\n");
  check_whole("\xef\xbb\xbf" + kMessage);
}

TEST_CASE("a message is found however a terminal or an editor wrapped it") {
  for (const std::size_t width : {42U, 50U, 62U, 70U, 72U, 79U, 80U, 100U, 132U}) {
    INFO(width);
    check_whole(wrapped(kMessage, width, "", false));
    check_whole(wrapped(kMessage, width, "> ", false));  // and quoted then
  }
  for (const std::size_t width : {20U, 40U, 72U, 80U})
    check_whole(wrapped(kMessage, width, "", true));
}

TEST_CASE("what a log puts before each line does not count") {
  for (const std::string head : {"[rank3]: ",
                                 "[rank12]:[E1125 13:02:07] ",
                                 "> ",
                                 "# ",
                                 "// ",
                                 "ERROR 11-19 21:10:38 [core.py:708] ",
                                 "(EngineCore_DP0 pid=39535) ERROR 03-03 19:38:29 [core.py:708] ",
                                 "2026-02-11 12:56:42,782 ERROR ",
                                 "2026-02-11T12:56:42.782Z stderr ",
                                 "trainer-0  | ",
                                 "[1,3]<stderr>:",
                                 "\x1b[36m(RayWorker pid=47, ip=10.1.2.3)\x1b[0m ",
                                 "[36m(train pid=4711)[0m ",
                                 "    ",
                                 "W1231 12:56:42.000001 ",
                                 "0: ",
                                 "12: ",
                                 "127: ",
                                 "Mar 01 12:00:01 node-7 python3[1234]: ",
                                 "Nov  3 02:10:59 gpu01.lab kubelet[88]: ",
                                 "2026-02-11T12:56:42+0100 gpu01 python3[88]: ",
                                 "2026-02-11T12:56:42.782123456Z stderr P ",
                                 "[pod/trainer-0/pytorch] ",
                                 "[2026-02-11, 12:56:42 UTC] {subprocess.py:93} INFO - ",
                                 "worker-12: ",
                                 "gpu01.lab: [rank3]: ",
                                 "trainer_1  | ",
                                 "+ ",
                                 "+",
                                 "- ",
                                 "> + ",
                                 "! ",
                                 "E1125 13:00:00.123456   12345 bfc_allocator.cc:1066] ",
                                 "2026-11-25T13:00:00.123456Z 01E ",
                                 "2026-11-25T13:00:00.123000+00:00 algo-1-x7k ",
                                 "2026-11-25T13:00:00 algo-1/1764 ",
                                 "ERROR 2026-11-25T13:00:00.123Z workerpool0-0 ",
                                 "trainer-0 \xe2\x80\xba pytorch | ",
                                 "<11>Nov 25 13:00:00 gpu-07 train[1234]: ",
                                 "<11>1 2026-11-25T13:00:00.123Z gpu-07 train 1234 - - "}) {
    INFO(head);
    check_whole(wrapped(kMessage, 60, head, true));
    check_whole(head + "step 7\n" + head + kMessage + "\n" + head + "exit 1");
  }
}

TEST_CASE("the sides of a box do not count") {
  for (const std::string side : {"|", "\xe2\x94\x82", "*"}) {
    for (const std::string head : {"", "  ", "[rank3]: "}) {
      const std::string left = head + side + " ";
      std::string box = wrapped(kMessage, 60, left, true);
      for (std::size_t end = 0; end < box.size(); ++end) {
        const std::size_t begin = end;
        end = std::min(box.find('\n', begin), box.size());
        const std::string blanks(left.size() + 120 - (end - begin), ' ');
        box.insert(end, blanks + side);
        end += blanks.size() + side.size();
      }
      check_whole(box);
    }
  }
}

TEST_CASE("numbers of lines do not count, whoever put them there") {
  for (const auto& [head, tail] : {std::pair{"", ":"}, std::pair{"train.log:", ":"},
                                   std::pair{"logs/rank-0.txt-", "-"}, std::pair{"   ", "\t"}}) {
    std::string text;
    int number = 98;
    for (const char c : "\n" + wrapped(kMessage, 60, "", true)) {
      text += c;
      if (c == '\n') text += head + std::to_string(number++) + tail;
    }
    check_whole(text.substr(1));
  }
  // A number alone is the text's own.
  CHECK(find_messages("ggml: failed to allocate CUDA0 buffer of size 98304000\n101:\n")
            .messages[0]
            .of(Asked)
            ->bytes == 98304000);
}

TEST_CASE("lines that Docker packed one by one are one text") {
  std::string text;
  for (const std::string line :
       {"RuntimeError: Allocation on device 0 would exceed allowed memory. (out of memory)",
        "Currently allocated     : 5.18 GiB", "Requested               : 2.00 GiB",
        "Device limit            : 7.80 GiB", "Free (according to CUDA): 512.00 MiB"}) {
    text += "{\"log\":\"" + line +
            "\\n\",\"stream\":\"stderr\",\"time\":\"2026-11-25T13:00:00.123456789Z\"}\n";
  }
  const FoundMessages found = find_messages(text);
  REQUIRE(found.messages.size() == 1);
  CHECK(found.messages[0].of(Allocated)->printed == "5.18 GiB");
  CHECK(found.messages[0].of(Asked)->printed == "2.00 GiB");
  CHECK(found.messages[0].of(Total)->printed == "7.80 GiB");
}

TEST_CASE("a number that ends a line ends there, unless the line was wrapped inside it") {
  const std::string arena =
      "bfc_arena.cc:342 Available memory of 73400320 is smaller than requested bytes of 98304000";
  const std::string buffer =
      "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 98304000";
  for (const std::string& text : {arena, buffer}) {
    for (const char* rest : {"", "\n", "\n2 more", "\n12 tensors were there\n", "\r\n3 of 4 layers",
                             "\n2026-02-01 10:00:00 next", "\n[1] next", "\n1. first"}) {
      INFO(text << rest);
      const FoundMessages found = find_messages(text + rest);
      REQUIRE(found.messages.size() == 1);
      CHECK(found.messages[0].of(Asked)->bytes == 98304000);
    }
    const std::string wrapped_inside = text.substr(0, text.size() - 3) + "\n" + "000";
    CHECK(find_messages(wrapped_inside).messages[0].of(Asked)->bytes == 98304000);
    CHECK(find_messages(wrapped_inside + "\nnext").messages[0].of(Asked)->bytes == 98304000);
    CHECK(find_messages(wrapped_inside + " bytes").messages[0].of(Asked)->bytes == 98304000);
  }
}

TEST_CASE("marks of pages, terminals, JSON and Markdown do not count") {
  check_whole("<pre><span class=\"err\">" + replaced(kMessage, " is free", "&nbsp;is&nbsp;free") +
              "</span></pre>");
  check_whole(replaced(kMessage, "GPU 0", "<br/>GPU 0"));
  check_whole(replaced(kMessage, "546.00 MiB", "**546.00 MiB**"));
  check_whole(replaced(kMessage, "546.00 MiB", "\x1b[31m546.00 MiB\x1b[0m"));
  check_whole("{\"error\": \"line 1\\n" + replaced(kMessage, " GPU 0", "\\n GPU 0") + "\\n\"}");
  check_whole(replaced(kMessage, "546.00 MiB", "<b>546.00</b> MiB"));
  check_whole(replaced(kMessage, "capacity of 15.77", "capacity<br>of <i class=\"n\">15.77</i>"));
  check_whole(replaced(kMessage, "PyTorch but", "PyTorch\\nbut"));
  check_whole(replaced(kMessage, "of which", "of\\r\\n which"));
  check_whole("OutOfMemoryError('" + kMessage + "')");
  check_whole("{\"log\": \"\\u001b[31m" +
              replaced(kMessage, " GiB", " \\u001b[1;38;5;9mGiB\\u001b[0m") + "\\u001b[0m\\n\"}");
  check_whole("\\x1b[31m" + replaced(kMessage, " GiB", " \\x1b[1mGiB\\x1b[0m") + "\\033[0m");
  check_whole(replaced(kMessage, " ", "\xc2\xa0 "));
  check_whole(replaced(kMessage, " ", "\\u00a0"));
  check_whole(replaced(kMessage, " ", "\\u0020"));
  check_whole(replaced(kMessage, " ", "\\xa0"));
  check_whole(replaced(replaced(kMessage, "=", "\\u003d"), "'", "\\u0027"));
  check_whole(replaced(replaced(kMessage, "(", "&#40;"), "/", "&#x2F;"));
  check_whole(replaced(kMessage, " GiB", "\x1b]8;;http://host/1.00\x1b\\ GiB\x1b]8;;\x1b\\"));
  check_whole(replaced(kMessage, " MiB", "\x1b]0;step 7\x07 MiB"));
  // Digits of full width, of Arabic and of Persian.
  check_whole(replaced(kMessage, "546.00", "\xef\xbc\x95\xef\xbc\x94\xef\xbc\x96.00"));
  check_whole(replaced(kMessage, "546.00", "\xd9\xa5\xd9\xa4\xd9\xa6.00"));
  check_whole(replaced(kMessage, "546.00", "\xdb\xb5\xdb\xb4\xdb\xb6.00"));
  check_whole("[31m" + replaced(kMessage, "GiB", "GiB[0m") + "[1;38;5;9m");
}

TEST_CASE("ranks that say the same are counted, ranks that differ are kept") {
  std::string text;
  for (int rank = 0; rank < 8; ++rank) {
    text += "[rank" + std::to_string(rank) + "]: " +
            replaced(kMessage, "Process 1 ", "Process " + std::to_string(1000 + rank) + " ") + "\n";
  }
  const FoundMessages same = find_messages(text);
  REQUIRE(same.messages.size() == 1);
  CHECK(same.messages[0].count == 8);
  const FoundMessages two = find_messages(text + replaced(kMessage, "514.19", "14.19") + "\n");
  REQUIRE(two.messages.size() == 2);
  CHECK(two.messages[1].of(Free)->printed == "14.19 MiB");
  CHECK(two.messages[1].line == 9);
}

namespace {

// The lines of three ranks by turns, each with its head; rank 1 has less free, rank 2 asked more.
std::string by_turns(const std::vector<std::string>& heads) {
  std::vector<std::vector<std::string>> ranks;
  for (const std::string& head : heads) {
    const std::string& message = ranks.size() == 1   ? replaced(kMessage, "514.19", "214.19")
                                 : ranks.size() == 2 ? replaced(kMessage, "546.00", "646.00")
                                                     : kMessage;
    std::vector<std::string>& lines = ranks.emplace_back();
    const std::string text = wrapped(message, 60, "", true) + "\n";
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      lines.push_back(head + text.substr(at, end - at) + "\n");
      at = end + 1;
    }
  }
  std::string text;
  for (std::size_t i = 0; i < ranks[0].size(); ++i)
    for (const std::vector<std::string>& lines : ranks) text += lines[i];
  return text;
}

}  // namespace

TEST_CASE(
    "lines of several ranks that a log took by turns are put together where they have names") {
  const std::vector<std::vector<std::string>> heads = {
      {"[rank0]: ", "[rank1]: ", "[rank2]: "},
      {"0: ", "1: ", "2: "},
      {"node7: ", "node8: ", "node12: "},
      {"trainer-0  | ", "trainer-1  | ", "trainer-2  | "},
      {"(W pid=4, ip=10.0.0.1) ", "(W pid=4, ip=10.0.0.2) ", "(W pid=5, ip=10.0.0.1) "},
      {"\x1b[36m[rank0]\x1b[0m: ", "\x1b[36m[rank1]\x1b[0m: ", "\x1b[36m[rank2]\x1b[0m: "},
      {"[RANK:0] ", "[RANK:1] ", "[RANK:2] "},
      {"[1,0]<stderr>:", "[1,1]<stderr>:", "[1,2]<stderr>:"},
      {"[rank0]: \xe2\x94\x82 ", "[rank1]: \xe2\x94\x82 ", "[rank2]: \xe2\x94\x82 "},
      {"2026-02-11 12:56:42,782 [rank0]: ", "2026-02-11 12:56:42,783 [rank1]: ",
       "2026-02-11 12:56:42,789 [rank2]: "}};
  for (const std::vector<std::string>& ranks : heads) {
    const std::string text = by_turns(ranks);
    INFO(text);
    const FoundMessages found = find_messages("step 1\n" + text);
    REQUIRE(found.messages.size() == 3);
    CHECK(found.messages[0].line == 2);
    CHECK(found.messages[1].line == 3);
    CHECK(found.messages[2].line == 4);
    CHECK(found.messages[0].of(Free)->printed == "514.19 MiB");
    CHECK(found.messages[1].of(Free)->printed == "214.19 MiB");
    CHECK(found.messages[2].of(Free)->printed == "514.19 MiB");
    CHECK(found.messages[2].of(Asked)->printed == "646.00 MiB");
    for (const Message& message : found.messages) {
      CHECK(message.of(Unallocated)->printed == "736.86 MiB");
      CHECK_FALSE(message.expandable_on);
    }
  }
}

TEST_CASE("figures of ranks that are mixed without a name are nobody's") {
  for (const std::string head : {"", "\xe2\x94\x82 "}) {
    const FoundMessages found = find_messages(by_turns({head, head, head}));
    REQUIRE_FALSE(found.messages.empty());
    for (const Message& message : found.messages) {
      CHECK(message.is_mixed);
      CHECK_FALSE(message.of(Free).has_value());
      CHECK(message.processes.empty());
      CHECK_FALSE(message.expandable_on);
      CHECK(judge(message).cause == Cause::MissingFigures);
      CHECK(judge(message).answer.find("are mixed") != std::string::npos);
    }
  }
}

TEST_CASE("a message that is cut has the figures that are left") {
  const FoundMessages found = find_messages(kMessage.substr(0, kMessage.find("Process 1")));
  REQUIRE(found.messages.size() == 1);
  CHECK(found.messages[0].of(Free).has_value());
  CHECK_FALSE(found.messages[0].of(Unallocated).has_value());
  const FoundMessages tail = find_messages(kMessage.substr(kMessage.find("GPU 0")));
  REQUIRE(tail.messages.size() == 1);
  CHECK_FALSE(tail.messages[0].of(Asked).has_value());
  CHECK(tail.messages[0].of(Total)->printed == "15.77 GiB");
}

TEST_CASE("an error without figures counts only where no message has some") {
  CHECK(find_messages("CUDA error: out of memory").messages.size() == 1);
  const FoundMessages found = find_messages("CUDA error: out of memory\n" + kMessage);
  REQUIRE(found.messages.size() == 1);
  CHECK(found.messages[0].form->family == Family::PyTorch);
}

TEST_CASE("a text that only speaks of memory has no message") {
  for (const char* text :
       {"", "Out of memory is a novel.", "Tried to allocate memory for the team",
        "raise OutOfMemoryError(f'Tried to allocate {size}. GPU')", "GPU 0 has a total of 3 users",
        "the limit: 7 in use by us", "MemoryError: Unable to allocate 2.00 GiB"}) {
    INFO(text);
    CHECK(find_messages(text).messages.empty());
  }
}

TEST_CASE("a message is found wherever it lies in a long text, at every border of its pieces") {
  for (const std::size_t before : {std::size_t{0}, std::size_t{4'000'000}, std::size_t{4'194'300},
                                   std::size_t{4'325'300}, std::size_t{8'500'000}}) {
    INFO(before);
    std::string text;
    while (text.size() < before)
      text += "step 17 loss 3.25 memory 12.0 GiB allocated in the pool\n";
    const std::size_t line = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
    text += kMessage + "\n";
    text.append(500'000, 'x');
    MessageReader reader;
    for (std::size_t at = 0; at < text.size(); at += 100'003)
      reader.add(std::string_view(text).substr(at, 100'003));
    const FoundMessages found = reader.finish();
    REQUIRE(found.messages.size() == 1);
    CHECK(found.messages[0].count == 1);
    CHECK(found.messages[0].line == line);
    CHECK(found.messages[0].of(Unallocated)->printed == "736.86 MiB");
    CHECK(found.size_bytes == text.size());
  }
}

TEST_CASE("bytes that are no text neither crash nor answer") {
  std::uint64_t state = 7;
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 4000; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      text += static_cast<char>(state >> 56);
    }
    CHECK(find_messages(text).messages.empty());
    // And in the middle of a message: whatever is read of it then, it is no crash.
    text.insert(2000, kMessage.substr(0, static_cast<std::size_t>(round) * 2));
    (void)find_messages(text);
  }
}

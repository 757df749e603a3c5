// The messages of a file or a pipe, packed or not; see message.h.
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "harness/tools/why/message/message.h"
#include "workloads/trace/byte_stream.h"

namespace allocmark::message {
namespace {

constexpr InputKind kTextInput{.name = "a text", .size_bytes_max = 4 * kGiB, .takes_pipes = true};
constexpr UnpackLimits kUnpackedMax{.size_bytes_max = 4 * kGiB};

}  // namespace

bool is_binary_head(std::string_view head) {
  const bool is_pickle =
      head.size() > 1 && head[0] == '\x80' && static_cast<unsigned char>(head[1]) <= 5;
  return is_pickle || head.starts_with("SQLite format 3") || head.starts_with("PK\x03\x04");
}

FoundMessages read_messages(const std::string& path) {
  ByteReader bytes(path, kTextInput);
  MessageReader reader;
  std::vector<char> piece(kMiB);
  std::string head;
  std::uint64_t unpacked_bytes = 0;
  while (const std::size_t count = bytes.read(piece)) {
    const std::string_view text(piece.data(), count);
    if (head.empty()) head = text.substr(0, 16);
    if (is_binary_head(head)) break;
    unpacked_bytes += count;
    if (const std::string beyond = beyond_limits(bytes, unpacked_bytes, kUnpackedMax);
        !beyond.empty()) {
      throw UsageError({.what = "the text is too large",
                        .where = path,
                        .wanted = "the part of the log with the error",
                        .got = beyond,
                        .next = "tail -c 100M LOG | allocmark why -"});
    }
    if (!head.starts_with("\xff\xfe") && !head.starts_with("\xfe\xff")) {
      reader.add(text);
      continue;
    }
    // UTF-16, as PowerShell writes it: ASCII letters with a NUL between them.
    std::string letters(text);
    std::erase(letters, '\0');
    reader.add(letters);
  }
  FoundMessages found = reader.finish();
  found.damage = bytes.damage();
  if (found.messages.empty() && !found.damage.empty()) {
    throw UsageError({.what = "the text cannot be read to its end",
                      .where = path,
                      .wanted = "complete packed data",
                      .got = found.damage,
                      .next = "copy or download the file again"});
  }
  found.head = std::move(head);
  return found;
}

}  // namespace allocmark::message

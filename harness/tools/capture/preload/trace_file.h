// A trace file that grows while a program runs and survives its end, whatever that is. Rows flow
// in; each is in the page cache when append returns, so that a kill loses at most the row that was
// being written. Behind the last row stand zeros until finish() cuts them off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace allocmark_capture {

class TraceFile {
 public:
  // A new file in the folder, called STEM.ops.csv, or STEM-2.ops.csv where that exists. False where
  // it cannot be made; problem() says why.
  [[nodiscard]] bool create(const std::string& folder, const std::string& stem,
                            std::string_view name);
  // `size` is at most kRowBytesMax. Does nothing once something went wrong.
  void append(const char* row, std::size_t size);
  // Writes the number into the head.
  void set_stream_count(std::uint32_t count);
  // The file ends after its last row.
  void finish();
  // Lets go of the file without touching it: it is the parent process's.
  void forget();

  [[nodiscard]] bool is_open() const { return head_ != nullptr; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Why it is not written any more; empty where all is well. The program goes on.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  static constexpr std::size_t kRowBytesMax = 512;

 private:
  [[nodiscard]] bool map_window();
  void unmap_window();
  void fail(const char* doing);

  std::string path_;
  std::string problem_;
  std::uint64_t device_id_ = 0;      // of the file system, and the file's number there: its path
  std::uint64_t file_id_ = 0;        // is opened anew for each window
  char* head_ = nullptr;             // the first page, mapped as long as the file is open
  char* window_ = nullptr;           // where rows go
  std::uint64_t window_begin_ = 0;   // its offset in the file
  std::uint64_t end_ = 0;            // offset behind the last row
  std::size_t stream_count_at_ = 0;  // offset of the number in the head
};

}  // namespace allocmark_capture

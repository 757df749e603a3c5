// A folder of this process for files that nobody keeps. It goes with its object.
#pragma once

#include <string>

namespace allocmark {

class ScratchFolder {
 public:
  // Empty path() where none can be made.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  // Of a file in it.
  [[nodiscard]] std::string path_of(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace allocmark

// A file in memory, without a name, that a process hands to those that it starts: what is too long
// for a request. Each finds it at kHandedFd and reads it wherever it wants.
#pragma once

namespace allocmark {

class HandedFile {
 public:
  // Empty. Throws EnvironmentError.
  HandedFile();
  ~HandedFile();
  HandedFile(const HandedFile&) = delete;
  HandedFile& operator=(const HandedFile&) = delete;

  // What is written here its processes read. It stays this object's.
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

}  // namespace allocmark

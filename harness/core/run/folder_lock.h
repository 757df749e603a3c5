// One writer per results folder, and new folders that two programs never share. The name of a
// folder flows in; a lock that the kernel releases with the process, or the name of a folder that
// was made, flows out. No lock is ever stale: what counts is the kernel's lock on the file, not the
// file.
#pragma once

#include <string>

namespace allocmark {

// The file in the folder that is locked; it says who holds it, and goes away with the lock.
inline constexpr const char* kLockName = ".lock";

class FolderLock {
 public:
  // Throws EnvironmentError where another process writes to the folder, saying which one and since
  // when, and where the folder cannot be written to. A file system without locks gives a note on
  // stderr and no protection.
  [[nodiscard]] static FolderLock acquire(const std::string& folder);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) = delete;
  ~FolderLock();

 private:
  FolderLock(int descriptor, std::string path);

  int descriptor_ = -1;
  std::string path_;
};

// Whether something beside a lock is in the folder.
[[nodiscard]] bool holds_something(const std::string& folder);

// Makes the folder where it is not there, and takes it for a new run. Throws UsageError with `next`
// where something is in it, and EnvironmentError where another process writes to it or it cannot be
// made.
[[nodiscard]] FolderLock claim_empty_folder(const std::string& folder, const std::string& next);

// Makes a folder of this name, or of the name with -2, -3 ... after it where that is taken, and
// returns its name. Two processes that ask at once get two folders.
[[nodiscard]] std::string make_new_folder(const std::string& wanted);

}  // namespace allocmark

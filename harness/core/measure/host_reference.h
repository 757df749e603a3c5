// How fast this host does an allocator's work: programs of best-fit searches in a tree, look-ups in
// a hash table and merges along linked blocks, which is what caching allocators spend their time
// with. Host times of two machines differ by about as much as this does. Nothing flows in; the time
// of one request with its free flows out. This file times.
//
// Processors learn a program that runs again and again, some far better than others: after twenty
// times one takes 0.5 of the first time, another 0.85. An allocator's requests come in an order
// that is in part known. So the reference is the geometric mean of two times: that of a program
// which is *known*, and that of programs which are *new*.
#pragma once

#include <cstdint>
#include <memory>

namespace allocmark {

class HostReference {
 public:
  HostReference();
  ~HostReference();
  HostReference(const HostReference&) = delete;
  HostReference& operator=(const HostReference&) = delete;

  // In ns for one request with its free: the median of a few new programs, times what practice
  // spares on this host, which the first call finds out. Takes about two milliseconds, the first
  // time ten. What else the machine does at this moment is in it.
  [[nodiscard]] double measure_ns();
  // The least of a few such times on the processor that is least disturbed: what the host can do
  // when it is left alone. Takes some thirty milliseconds.
  [[nodiscard]] double measure_quiet_ns();

 private:
  class Program;
  [[nodiscard]] double known_ns();
  [[nodiscard]] double new_ns();
  [[nodiscard]] double least_known_ns();

  std::unique_ptr<Program> known_;
  std::uint64_t seed_ = 1;  // of the last program
  double practice_ = 0;     // reference over the time of a new program; 0: not found out
};

}  // namespace allocmark

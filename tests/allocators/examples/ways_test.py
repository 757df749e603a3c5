#!/usr/bin/env python3
"""The plugins that GATE.md shows, each built from the page as its reader would, and held against the rules that say whether it is wired
right. CUB's comes with the toolkit. RMM and CCCL's pool are built where their headers are named or installed, else skipped by name.

Usage: ways_test.py ALLOCMARK CXX INCLUDE LIBRARY PAGE [--headers DIR]
  INCLUDE, LIBRARY  the toolkit's folder of headers, and libcudart.so
  DIR               a folder that holds what pip installs of librmm-cu13 25.12, rapids-logger and nvidia-cuda-cccl [this Python's]
"""

import argparse
import json
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

RULES = ["serves", "alignment", "device-memory", "overlap", "contents", "free-order"]
# What the class of the page's reader may be.
MY_POOL = """
#pragma once
#include <cuda_runtime_api.h>
#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <utility>
class MyPool {
 public:
  void* allocate(std::size_t size_bytes, cudaStream_t stream) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = free_.find({size_bytes, stream}); found != free_.end()) {
      void* const pointer = found->second;
      free_.erase(found);
      return pointer;
    }
    void* pointer = nullptr;
    if (cudaMalloc(&pointer, size_bytes) == cudaSuccess) return pointer;
    (void)cudaGetLastError();
    throw std::bad_alloc();
  }
  void deallocate(void* pointer, std::size_t size_bytes, cudaStream_t stream) {
    const std::scoped_lock lock(mutex_);
    free_.emplace(std::pair(size_bytes, stream), pointer);
  }
  void release() {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, pointer] : free_) (void)cudaFree(pointer);
    free_.clear();
  }
 private:
  std::mutex mutex_;
  std::multimap<std::pair<std::size_t, cudaStream_t>, void*> free_;
};
"""


def sources_of(page):
    """The indented blocks whose first line is `// NAME.cc...`, by name."""
    sources = {}
    for block in re.findall(r"(?:^(?:    .*)?\n)+", page, re.M):
        text = re.sub(r"^    ", "", block, flags=re.M).strip("\n")
        if found := re.match(r"// (\w+\.cc)\b", text):
            sources[found[1]] = text + "\n"
    return sources


def rmm_words(headers):
    flags = ["-DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE", "-DRMM_LOG_ACTIVE_LEVEL=RAPIDS_LOGGER_LOG_LEVEL_OFF"]
    logger = headers / "rapids_logger"
    folders = [headers / "librmm/include/rapids", headers / "librmm/include", logger / "include"]
    libraries = [headers / "librmm/lib64/librmm.so", logger / "lib64/librapids_logger.so"]
    if not all(path.exists() for path in folders + libraries):
        return None
    for folder in folders:
        flags += ["-isystem", str(folder)]
    return flags, [str(path) for path in libraries] + [f"-Wl,-rpath,{path.parent}" for path in libraries]


def cccl_words(headers):
    found = sorted(headers.glob("nvidia/*/include/cccl/cuda/memory_pool"))
    return (["-isystem", str(found[-1].parents[1])], []) if found else None


def main():
    parser = argparse.ArgumentParser()
    for name in ("allocmark", "cxx", "include", "library", "page"):
        parser.add_argument(name)
    parser.add_argument("--headers", type=Path, default=Path(sysconfig.get_paths()["purelib"]))
    options = parser.parse_args()
    toolkit = Path(options.include)
    wanted = {"class_pool.cc": ([], []), "cub_pool.cc": (["-isystem", str(toolkit / "cccl")], []), "rmm_pool.cc": rmm_words(options.headers),
              "cccl_pool.cc": cccl_words(options.headers)}
    sources = sources_of(Path(options.page).read_text())
    failures = [f"the page shows {sorted(sources)}, wanted {sorted(wanted)}"] if sources.keys() != wanted.keys() else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "my_pool.h").write_text(MY_POOL)
        for source, words in wanted.items():
            if words is None:
                print(f"skipped: {source}: its headers are not in {options.headers}")
                continue
            (folder / source).write_text(sources[source])
            library = folder / f"{source[:-3]}.so"
            flags, libraries = words
            command = [options.cxx, "-std=c++20", "-O1", "-shared", "-fPIC", *flags, "-isystem", str(toolkit), str(folder / source), "-o",
                       str(library), *libraries, options.library]
            built = subprocess.run(command, capture_output=True, text=True)
            if built.returncode != 0:
                failures.append(f"{source} does not compile: {built.stderr[:2000]}")
                continue
            trim = ",trim:my_trim" if "my_trim" in sources[source] else ""
            done = subprocess.run([options.allocmark, "conformance", f"{library},my_malloc,my_free{trim}", "--format", "json", "--rule", *RULES],
                                  capture_output=True, text=True)
            rules = json.loads(done.stdout)["rules"] if done.stdout else []
            broken = [f"{rule['name']}: {rule['seen']}" for rule in rules if rule["outcome"] == "fail"]
            print(f"{source}: {len(rules)} rules, {len(broken)} broken {broken}")
            if broken or len(rules) != len(RULES):
                failures.append(f"{source}: {broken or done.stderr}")
    print("\n".join(failures) or "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

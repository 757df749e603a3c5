#!/bin/sh
# Builds the plugin with which `allocmark capture --torch` hears PyTorch's own allocator. Its C++
# interface changes from release to release, so the plugin is built against the PyTorch that the
# program uses. Needs that PyTorch, a C++ compiler with C++20, and CUDA's headers.
#
# usage: build_torch_capture.sh PYTHON OUT.so        the PyTorch that this Python imports
#        build_torch_capture.sh TORCH_FOLDER OUT.so  the folder site-packages/torch itself
set -eu

fail() {
  echo "build_torch_capture.sh: $*" >&2
  exit 2
}

[ $# = 2 ] || fail "wanted: build_torch_capture.sh PYTHON OUT.so"
out=$2
here=$(cd "$(dirname "$0")" && pwd)
for source in "$here/../../harness/tools/capture/preload" "$here/capture"; do
  [ -f "$source/torch_capture.cc" ] && break
done
[ -f "$source/torch_capture.cc" ] || fail "torch_capture.cc is missing beside this script: install allocmark again"

if [ -d "$1" ]; then
  torch=$1
else
  # Asked without importing it, which takes seconds and may start a GPU.
  torch=$("$1" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")') ||
    fail "$1 does not run: wanted a Python interpreter or a folder site-packages/torch"
fi
[ -n "$torch" ] || fail "$1 has no PyTorch: name the Python that your program runs with"
[ -f "$torch/include/c10/cuda/CUDACachingAllocator.h" ] || fail "$torch has no include/c10/cuda: is it a CPU-only PyTorch?"
[ -f "$torch/lib/libc10_cuda.so" ] || fail "$torch has no lib/libc10_cuda.so: is it a CPU-only PyTorch?"

# CUDA's headers: the toolkit's, or those that PyTorch's wheels bring along.
headers=
for folder in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/cuda/include "$torch"/../nvidia/cu*/include \
  "$torch"/../nvidia/cuda_runtime/include; do
  [ -f "$folder/cuda_runtime_api.h" ] && headers=$folder && break
done
[ -n "$headers" ] || fail "no cuda_runtime_api.h: install CUDA's headers, or set CUDA_HOME to the toolkit"

# Texts have another layout in a PyTorch that was built with the old ABI.
abi=0
grep -q '__cxx11' "$torch/lib/libc10.so" && abi=1
"${CXX:-c++}" -std=c++20 -O2 -fPIC -shared -fvisibility=hidden -D_GLIBCXX_USE_CXX11_ABI=$abi \
  -isystem "$torch/include" -isystem "$headers" -I"$source" "$source/torch_capture.cc" \
  -L"$torch/lib" -lc10_cuda -lc10 -o "$out" ||
  fail "the plugin does not compile against $torch: wanted PyTorch 2.4 or later and a compiler for C++20 (CXX=... names one)"
echo "$out: for $torch"

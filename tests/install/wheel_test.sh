#!/usr/bin/env bash
# The wheel: made twice it is the same, pip installs it without a network, and its programs work with the source tree gone.
# Checks only. Usage: wheel_test.sh BUILD_FOLDER CMAKE
. "$(dirname "$0")/common.sh"
python3 -m venv "$work/venv" >"$work/venv.txt" 2>&1 || { echo "skipped: no venv (apt-get install python3-venv)"; exit 77; }
command -v dpkg >/dev/null || { echo "skipped: no dpkg, whose packages have the licences"; exit 77; }

wheel=$(python3 "$root/scripts/build/wheel.py" "$build" "$work/made" --cmake "$cmake") || fail "wheel.py"
again=$(python3 "$root/scripts/build/wheel.py" "$build" "$work/again" --cmake "$cmake") || fail "wheel.py, again"
cmp "$wheel" "$again" || fail "the same build gives two wheels"
"$work/venv/bin/pip" install -q --no-index "$wheel" >"$work/pip.txt" 2>&1 || { cat "$work/pip.txt"; fail "pip install"; }
no_path_of_ours "$work/venv/lib/simcuda"
program_works "$work/venv"
ls "$work/venv/share/doc/allocmark/brought/" >"$work/licences.txt"
has "$work/licences.txt" libfmt

# What a user of Python does first: a program of CUDA's runtime, without a GPU.
cat >"$work/program.py" <<'END'
import ctypes
runtime = ctypes.CDLL("libcudart.so.13")
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
print("total", total.value)
END
(cd / && hidden "$work/venv/bin/simcuda-run" "$work/venv/bin/python" "$work/program.py") >"$work/total.txt" 2>&1 ||
  { cat "$work/total.txt"; fail "simcuda-run"; }
has "$work/total.txt" "total 150109880320"

# pip holds every file to its hash, and takes all of them away again.
"$work/venv/bin/pip" uninstall -q -y allocmark >"$work/pip.txt" 2>&1 || { cat "$work/pip.txt"; fail "pip uninstall"; }
[ ! -e "$work/venv/bin/allocmark" ] || fail "pip uninstall left bin/allocmark"
python3 "$root/scripts/build/wheel.py" "$work/empty" "$work/none" >"$work/none.txt" 2>&1 && fail "a wheel of an empty folder"
has "$work/none.txt" "wanted a folder that cmake configured"
echo "made, installed and taken away: $(basename "$wheel"), $(stat -c %s "$wheel") bytes"

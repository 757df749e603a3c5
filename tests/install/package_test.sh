#!/usr/bin/env bash
# The Debian package: its fields, its files, and the program run from where it was unpacked, with the source tree gone.
# Checks only. Usage: package_test.sh BUILD_FOLDER CMAKE
. "$(dirname "$0")/common.sh"
for tool in dpkg-deb dpkg-shlibdeps file; do
  command -v $tool >/dev/null || { echo "skipped: no $tool (apt-get install dpkg-dev file)"; exit 77; }
done

(cd "$build" && "$(dirname "$cmake")/cpack" -G DEB -B "$work/made") >"$work/cpack.txt" 2>&1 ||
  { cat "$work/cpack.txt"; fail "cpack -G DEB"; }
package=$(ls "$work"/made/allocmark_*.deb)
dpkg-deb --contents "$package" >"$work/contents.txt"
for file in bin/allocmark lib/simcuda/libcuda.so.1 include/allocmark/simcu.h share/doc/allocmark/copyright; do
  has "$work/contents.txt" "./usr/$file"
done
dpkg-deb --field "$package" >"$work/fields.txt"
depends=$(sed -n 's/^Depends: //p' "$work/fields.txt")
# A compiler from elsewhere may bring a libstdc++ that is in no package.
for needed in python3 "libc6 (>=" libfmt libzstd1 zlib1g; do
  case $depends in *"$needed"*) ;; *) fail "Depends lacks '$needed': $depends" ;; esac
done
dpkg-deb --extract "$package" "$work/unpacked"
no_path_of_ours "$work/unpacked"
program_works "$work/unpacked/usr"
# Only a Release is hardened.
if grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=Release' "$build/CMakeCache.txt"; then
  # Into files: grep -q ends early, and whoever writes to it then has failed.
  readelf -dW "$work/unpacked/usr/bin/allocmark" >"$work/dynamic.txt"
  readelf -lW "$work/unpacked/usr/bin/allocmark" >"$work/segments.txt"
  readelf -W --dyn-syms "$work/unpacked/usr/bin/allocmark" >"$work/symbols.txt"
  grep -q BIND_NOW "$work/dynamic.txt" || fail "the program binds its symbols late"
  grep -q GNU_RELRO "$work/segments.txt" || fail "the program's tables stay writable"
  grep -q __stack_chk_fail "$work/symbols.txt" || fail "the program has no stack protector"
fi
echo "packaged as $(basename "$package"); $depends"

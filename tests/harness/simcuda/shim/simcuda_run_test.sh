#!/bin/sh
# simcuda-run: programs with the shared and with the static CUDA runtime run; what cannot run is
# named, with the remedy. In: simcuda-run, the static program, the shared one, strip, the program
# that meets gaps, the name of a stripped library, and libnvrtc and libcupti where the toolkit has
# them.
set -u
launcher=$1
static_program=$2
shared_program=$3
strip=$4
gaps_program=$5
module=$6
nvrtc=${7-}
cupti=${8-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE PART... -- COMMAND...: exit code, and parts of what it says.
expect() {
  wanted_code=$1
  shift
  : >"$work/parts"
  while [ "$1" != -- ]; do
    echo "$1" >>"$work/parts"
    shift
  done
  shift
  output=$("$@" 2>&1)
  code=$?
  [ "$code" = "$wanted_code" ] || {
    echo "FAILED: $*: exit $code, wanted $wanted_code: $output"
    failures=$((failures + 1))
  }
  while read -r part; do
    case $output in
    *"$part"*) ;;
    *)
      echo "FAILED: $*: no '$part' in: $output"
      failures=$((failures + 1))
      ;;
    esac
  done <"$work/parts"
}

expect 0 "sum 10" -- "$launcher" "$static_program"
case $output in *simcuda*) echo "FAILED: unexpected words: $output"; failures=$((failures + 1)) ;; esac
expect 0 "sum 10" "simcuda lacks: cudaDestroyTextureObject" -- "$launcher" "$static_program" lacking
expect 0 done -- "$launcher" "$shared_program" clean
expect 1 "cudaMallocAsync: out of memory" -- env SIMCUDA_FAIL=cudaMallocAsync:1:1:2 "$launcher" "$static_program"

# The driver's device files are there for who looks.
files='for file in nvidia0 nvidia1 nvidia2 nvidiactl nvidia0x zero; do [ -e "/dev/$file" ] && echo "$file"; done; :'
if [ ! -e /dev/nvidiactl ]; then
  expect 0 "seen nvidia0 nvidia1 nvidiactl zero." -- env SIMCUDA_DEVICES=2 "$launcher" sh -c "echo seen \$($files)."
  expect 0 "seen zero." -- env SIMCUDA_DEVICES=0 "$launcher" sh -c "echo seen \$($files)."
fi

# Stripped, its functions are known by their code: names, kernels and variables are the same.
symbols="copied 0, read 0, value 7, beyond 1, size 16, unknown 13"
"$strip" -o "$work/stripped" "$static_program"
for program in "$static_program" "$work/stripped"; do
  expect 0 "$symbols" "asked 0, table yes" "available 0, bytes 115712, counted 0, clusters 66" -- \
    "$launcher" "$program" symbols
done
expect 0 "sum 10" -- "$launcher" "$work/stripped"
case $output in *simcuda*) echo "FAILED: unexpected words: $output"; failures=$((failures + 1)) ;; esac
expect 0 "sum 10" "simcuda lacks: cudaDestroyTextureObject" -- "$launcher" "$work/stripped" lacking
expect 1 "cudaMallocAsync: out of memory" -- env SIMCUDA_FAIL=cudaMallocAsync:1:1:2 "$launcher" "$work/stripped"
# A function that only a newer runtime has is reported by its name.
LC_ALL=C sed 's/cudaDestroyTextureObject/cudaDestroyTextureObjecx/' "$work/stripped" >"$work/newer_runtime"
chmod +x "$work/newer_runtime"
expect 0 "sum 10" "simcuda lacks: cudaDestroyTextureObjecx" -- "$launcher" "$work/newer_runtime" lacking
# Without names in its code, or without simcuda-run, its calls fail as with an older driver.
LC_ALL=C sed 's/cuda\([A-Z][A-Za-z0-9_]*\x00\)/cudb\1/g' "$work/stripped" >"$work/nameless"
chmod +x "$work/nameless"
simcuda=$(dirname "$launcher")/../lib/simcuda
expect 1 "$work/nameless carries the static CUDA runtime" "not recognised" "nvcc -cudart shared" CMAKE_CUDA_RUNTIME_LIBRARY -- \
  "$launcher" "$work/nameless"
expect 1 "$work/stripped carries the static CUDA runtime" "nvcc -cudart shared" -- \
  env LD_LIBRARY_PATH="$simcuda" "$work/stripped"
# A library that is opened by name, from the caller's RUNPATH, after its kernels were registered.
expect 0 "answer 801" "simcuda lacks: kernel _Z16kernel_of_modulePi" -- "$launcher" "$gaps_program" open "$module"
expect 0 "answer 0" -- "$launcher" --kernels kernel_of_module:1 "$gaps_program" open "$module"

sed 's/libcudart\.so\.1[0-9]/libcudart.so.99/g' "$shared_program" >"$work/newer"
chmod +x "$work/newer"
expect 125 "needs libcudart.so.99" "same major version" -- "$launcher" "$work/newer"

expect 127 "no program 'nonesuch'" -- "$launcher" nonesuch
printf 'text' >"$work/text"
chmod +x "$work/text"
expect 126 "cannot start $work/text" -- "$launcher" "$work/text"
expect 125 "usage: simcuda-run" -- "$launcher"
expect 0 "usage: simcuda-run" -- "$launcher" --help
# What simcuda lacks is named at the end, with the place of the first call.
expect 0 "launch 801, 0 ms" "simcuda lacks: kernel _Z14kernel_of_gapsPi" \
  "kernel _Z14kernel_of_gapsPi: 1 times, first from $gaps_program+0x" "add --kernels nothing" -- \
  "$launcher" "$gaps_program" kernel
expect 0 "host 0, shared 801, exported 1" \
  "pool with handles other than of files: 1 times" -- "$launcher" "$gaps_program" pools
expect 0 "loaded 0, missing 500, found 0" "launch 801, 0 ms" "simcuda lacks: kernel idle_kernel" -- \
  "$launcher" "$gaps_program" module

# Calls of destructors of static objects, where freed memory has other bytes.
expect 0 "malloc 0" "freed 0, again 1" -- env MALLOC_PERTURB_=85 "$launcher" "$gaps_program" exit

# Kernels that do nothing, for as long as is said.
for case in nothing:0 nothing:5000000:5 _of_gaps:7000000:7 nothing:1000000,kernel_of:9000000:9; do
  kernels=${case%:*}
  expect 0 "launch 0, ${case##*:} ms" -- "$launcher" --kernels "$kernels" "$gaps_program" kernel
  case $output in *lacks*) echo "FAILED: $kernels: $output"; failures=$((failures + 1)) ;; esac
done
printf '# kernels\nkernel_of_gaps 4000000\n' >"$work/kernels"
expect 0 "launch 0, 4 ms" -- "$launcher" --kernels "@$work/kernels" "$gaps_program" kernel
expect 0 "launch 801" "simcuda lacks: kernel" -- "$launcher" --kernels other:1 "$gaps_program" kernel
expect 0 "launch 0, 3 ms" "occupancy 0, blocks 2" "unloaded 0, stale 400" -- \
  "$launcher" --kernels nothing:3000000 "$gaps_program" module
for wrong in some nothing:x "@$work/none"; do
  expect 0 "launch 3" "SIMCUDA_KERNELS: " -- "$launcher" --kernels "$wrong" "$gaps_program" kernel
done
expect 125 "--kernels: wanted nothing" -- "$launcher" --kernels

# Libraries that look into the driver.
# libnvrtc opens another library by name, which lies beside it.
[ ! -f "$nvrtc" ] || expect 0 "created 0, compiled 0, ptx yes" -- \
  env LD_LIBRARY_PATH="$(dirname "$nvrtc")" "$launcher" "$gaps_program" nvrtc "$nvrtc"
[ ! -f "$cupti" ] || expect 0 "malloc 0" -- "$launcher" "$gaps_program" cupti "$cupti"
# Profilers ask for it by name, and get one that says "not supported".
[ ! -f "$cupti" ] || expect 0 "malloc 0" "simcuda: no CUPTI" -- \
  "$launcher" "$gaps_program" cupti "$(basename "$simcuda"/libcupti.so.*)"

# Scripts and what they start run on simcuda too.
printf '#!/bin/sh\nexec "$@"\n' >"$work/script"
chmod +x "$work/script"
expect 0 "sum 10" -- "$launcher" "$work/script" "$static_program"

[ "$failures" = 0 ] && echo "all passed"
[ "$failures" = 0 ]

#!/bin/sh
# Programs under ThreadSanitizer and AddressSanitizer on the simulated CUDA runtime: correct ones run
# clean, with the addresses of a plain build; faulty ones are reported.
# In: the folder of the three builds of threaded_program.cc.
set -u
folder=$1
failures=0

fail() {
  echo "FAILED: $1"
  failures=$((failures + 1))
}

# run BUILD MODE: leaves its output in $output and its exit code in $code.
run() {
  output=$("$folder/simcuda_threads_$1" "$2" 2>&1)
  code=$?
}

# ThreadSanitizer of GCC up to 13 cannot start where the kernel spreads addresses over 32 bits.
run tsan clean
case $output in
*"unexpected memory mapping"*)
  echo "SKIPPED: ThreadSanitizer cannot start here; lower vm.mmap_rnd_bits to 28"
  exit 77
  ;;
esac

run plain addresses
plain=$output
[ "$code" = 0 ] || fail "the plain build: exit $code: $output"
for devices in 1 3; do
  export SIMCUDA_DEVICES="$devices"
  for build in plain tsan asan; do
    run "$build" clean
    [ "$code-$output" = 0-done ] || fail "$build with $devices devices: exit $code: $output"
    run "$build" addresses
    [ "$output" = "$plain" ] || fail "$build with $devices devices: other addresses: $output, not: $plain"
  done
done
unset SIMCUDA_DEVICES

# AddressSanitizer leaves as many addresses as a plain build has; ThreadSanitizer has few.
run plain reservations
plain=$output
[ "$plain" -ge 250 ] || fail "the plain build has addresses for $plain ranges of 9/8 of an H200, wanted 250"
run asan reservations
[ "$output" = "$plain" ] || fail "asan has addresses for $output ranges, the plain build for $plain"

for i in 1 2 3; do  # a race is reported unless the threads happen to run one after the other
  run tsan race
  [ "$code" = 0 ] || break
done
case $output in
*"data race"*use_device*) ;;
*) fail "a data race was not reported: $output" ;;
esac

# Locks inside of the runtime order nothing that CUDA does not promise, and what it promises does.
for i in 1 2 3; do
  run tsan late_race
  case $output in
  *"data race"*write_between_calls*) ;;
  *) fail "a race between calls was not reported: $output" ;;
  esac
  run tsan ordered
  [ "$code-$output" = 0-done ] || fail "a read after an event: exit $code: $output"
done

run asan outside
case $output in
*heap-buffer-overflow*copy_from_outside*) ;;
*) fail "a copy from outside a buffer was not reported: $output" ;;
esac

for build in plain tsan asan; do
  run "$build" device
  case $code-$output in
  0-* | *done*) fail "$build: the host wrote to device memory unseen" ;;
  esac
done

[ "$failures" = 0 ] && echo "all passed"
exit "$failures"

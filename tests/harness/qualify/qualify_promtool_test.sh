#!/usr/bin/env bash
# What `allocmark qualify` writes for Prometheus passes Prometheus' own check. Skipped where there is no promtool.
# Usage: qualify_promtool_test.sh PATH_OF_ALLOCMARK
set -euo pipefail
program=$1
command -v promtool >/dev/null || { echo "skipped: no promtool (Debian: prometheus)"; exit 77; }
metrics=$(SIMCUDA_GPU_FAULTS="0:leak_every=7" "$program" qualify --device sim:h200 --gpus 2 --format prometheus 2>/dev/null) || [ $? = 1 ]
[ "$(grep -c "^allocmark_qualify_verdict{" <<<"$metrics")" -ge 20 ] || { echo "too few verdicts" >&2; exit 1; }
promtool check metrics <<<"$metrics"
# It does say no: a metric in two pieces.
if promtool check metrics 2>/dev/null <<<"$metrics
$metrics"; then
  echo "promtool accepts anything" >&2
  exit 1
fi

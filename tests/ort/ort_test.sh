#!/usr/bin/env bash
# A few cases of each suite that needs no torch: ort_test.sh BINARIES; skipped (77) where Python has no onnxruntime.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
python=
for candidate in "$top/build/venv/bin/python" python3; do
  if "$candidate" -c 'import ml_dtypes, onnx, onnxruntime' 2>/dev/null; then python=$candidate; break; fi
done
[ -n "$python" ] || { echo "Python's onnxruntime is not here (tools/setup --venv)"; exit 77; }
run() { "$python" "$top/tests/ort/run" "$1" --binaries "$binaries" "${@:2}"; }
binaries=$1
run decoders optimum builder --steps 8
run decoders --generate gpt2 --steps 8
run quantised_decoders gpt2 --kinds 'QDQ, u8 s8' --steps 8
run lengths 'mask: a branch'
run data_sizes --draws 10
run merged 'merged llama' --steps 8
run operators GroupQueryAttention MatMulNBits --draws 4
run operators graphs --draws 200
run malformed GroupQueryAttention --draws 4

#!/usr/bin/env bash
# rondo generate on a GPU: PyTorch's greedy bytes, the tokens that the host draws from the same seeds, and texts that
# begin with states copied on the device. gpu_generate.sh RONDO PYCODER; skipped (77) without a GPU or libnvrtc.
# gpu_generate.sh RONDO PYCODER TOKENS: texts of so many tokens, drawn from one seed behind a prefix, on one device
# (tests/cuda/emulated is slow).
set -euo pipefail
rondo=$1 model=$2
tokens=${3:-120} seeds=(1 2 3) texts=(--prompt class --prompt def --prompt return) cache=()
[ $# -lt 3 ] || { seeds=() texts=(--prompt class --prompt def) cache=(--no-kernel-cache); }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile() {
  "$rondo" compile prefill="$model/prefill64.onnx" decode="$model/decode.onnx" --sample logits --target cuda:sm_90a,host \
    "${cache[@]}" "$@"
}
compile -o "$work/plan" >"$work/said" 2>&1 || { cat "$work/said"; grep -q libnvrtc "$work/said" && exit 77; exit 1; }
head -c 32 "$model/greedy.bytes" >"$work/prompt"
head -c $((32 + tokens)) "$model/greedy.bytes" >"$work/greedy"
greedy=(--prompt-file "$work/prompt" --max-tokens "$tokens" --raw --driver cuda)
"$rondo" generate "$work/plan" "${greedy[@]}" >"$work/out" 2>"$work/said" || { cat "$work/said"; grep -q "cannot be opened" "$work/said" && exit 77; exit 1; }
cmp "$work/out" "$work/greedy"
# same OPTION...: what the GPU writes is what the host writes.
same() {
  for driver in host cuda; do "$rondo" generate "$work/plan" --driver $driver --raw "$@" >"$work/$driver"; done
  cmp "$work/host" "$work/cuda"
}
drawn=(--max-tokens $((tokens < 100 ? tokens : 100)) --temperature 0.8 --top-k 20 --top-p 0.9)
for seed in "${seeds[@]}"; do same --prompt-file "$work/prompt" "${drawn[@]}" --seed "$seed"; done
same --prefix-file "$work/prompt" "${texts[@]}" "${drawn[@]}" --seed 1
if [ $# -lt 3 ]; then
  compile --tp 2 -o "$work/plan" >"$work/said"
  NCCL_MULTI_RANK_GPU_ENABLE=1 "$rondo" generate "$work/plan" "${greedy[@]}" --devices 0,0 >"$work/out"
  cmp "$work/out" "$work/greedy"
fi
echo "generate: a GPU and the host agree"

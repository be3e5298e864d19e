#!/usr/bin/env bash
# rondo generate continues pycoder's prompt byte for byte as PyTorch does, whatever the number of threads.
set -euo pipefail
rondo=$1 model=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$rondo" compile prefill="$model/prefill64.onnx" decode="$model/decode.onnx" -o "$work/pycoder.rondo"
head -c 32 "$model/greedy.bytes" >"$work/prompt"
for threads in 1 2; do
  "$rondo" generate "$work/pycoder.rondo" --prompt-file "$work/prompt" --max-tokens 120 --raw --threads $threads >"$work/out"
  cmp "$work/out" "$model/greedy.bytes"
done
# Sharded over devices: 2 divides the heads of the caches and the columns of the weights; 3 and 4 keep whole caches.
for devices in 2 3 4; do
  "$rondo" compile prefill="$model/prefill64.onnx" decode="$model/decode.onnx" --tp $devices -o "$work/shared.rondo"
  "$rondo" generate "$work/shared.rondo" --prompt-file "$work/prompt" --max-tokens 120 --raw >"$work/out"
  cmp "$work/out" "$model/greedy.bytes"
done
# Cut into stages, each with the caches of its layers; each stage sharded; and weights gathered before their use.
for sharing in "--pp 2" "--pp 2 --tp 2" "--tp 3 --weights gather" "--pp 2 --tp 2 --weights gather"; do
  "$rondo" compile prefill="$model/prefill64.onnx" decode="$model/decode.onnx" $sharing -o "$work/staged.rondo"
  "$rondo" generate "$work/staged.rondo" --prompt-file "$work/prompt" --max-tokens 120 --raw >"$work/out"
  cmp "$work/out" "$model/greedy.bytes"
done
# Prompts of every kind of length: shorter than, as long as and longer than the prefill program's 64 tokens.
for length in 1 31 63 64 65 128 150; do
  head -c $length "$model/greedy.bytes" >"$work/prompt"
  "$rondo" generate "$work/pycoder.rondo" --prompt-file "$work/prompt" --max-tokens 2 --raw >"$work/out"
  head -c $((length + 2)) "$model/greedy.bytes" >"$work/want"
  if [ $length -ge 32 ]; then cmp "$work/out" "$work/want"; fi
done
echo "generate: 120 bytes as expected"

#!/bin/sh
# defects_test.sh RONDO DEFECT_TABLE DATA FOLDER [EACH]: plans of small models, and the seeds of the fuzzers that the host
# driver runs, damaged in every way; none may be missed.
set -e
rondo=$1 table=$2 data=$3 folder=$4 each=${5:-4}
mkdir -p "$folder"
for model in "$data"/fixtures/*/model.onnx; do
  name=$(basename "$(dirname "$model")")
  "$rondo" compile "$model" -o "$folder/$name.rondo" --json >/dev/null
done
"$rondo" compile prefill="$data/pycoder/prefill64.onnx" decode="$data/pycoder/decode.onnx" -o "$folder/pycoder.rondo" --json >/dev/null
for model in bert_ts17 llama_decode_op23; do  # of two devices, with all-reduces in place
  "$rondo" compile "$data/fixtures/$model/model.onnx" --tp 2 -o "$folder/$model.tp2.rondo" --json >/dev/null
done
# On several streams, with events between them.
"$rondo" compile "$data/fixtures/bert_ts17/model.onnx" --annotate '/m/encoder/layer.0/*:stream=1' \
  --annotate '/m/encoder/layer.1/attention/*:stream=2' -o "$folder/bert_ts17.streams.rondo" --json >/dev/null
"$rondo" compile "$data/fixtures/llama_decode_op23/model.onnx" --tp 2 --annotate 'node_*:stream=1' \
  -o "$folder/llama.tp2.streams.rondo" --json >/dev/null
for seed in attention matmul control convolution indexing mesh pointwise quantised recurrent reductions sample shapes state; do
  cp "$data/../fuzz/seeds/plan/$seed.plan" "$folder/$seed.rondo"
done
"$table" --each "$each" "$folder"/*.rondo

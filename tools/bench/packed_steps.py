#!/usr/bin/env python3
"""Times a decode step in bf16 and with packed weights (--quantize-weights) for several batches on one GPU: device time of the
graph replay, its ratio to bf16, and the share of the read bandwidth (--gbps) that the bytes of the matmuls' weights alone reach.

The model is a bench graph of a decoder for 16 texts (weights synthetic); other batches are the same graph with other
dimensions. Plans that are already in the folder are not compiled again: --compile-only makes them without a GPU.

  tools/bench/packed_steps.py llama3-8b-8layers-decode-b16-bf16.onnx --batch 1 4 16
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = 16  # the batch of the given graph


def with_batch(source, batch, path):
    """The graph for `batch` texts: replaces the batch, or batch times heads, where a dimension or shape begins with it."""
    model = onnx.load(source, load_external_data=False)
    heads = {TEXTS: batch, TEXTS * 32: batch * 32}
    for port in [*model.graph.input, *model.graph.output]:
        for dim in port.type.tensor_type.shape.dim[:1]:
            dim.dim_value = heads.get(dim.dim_value, dim.dim_value)
    del model.graph.value_info[:]
    for weight in model.graph.initializer:
        if weight.data_location == onnx.TensorProto.EXTERNAL or weight.data_type != onnx.TensorProto.INT64:
            continue
        shape = numpy_helper.to_array(weight).copy()
        if shape.ndim == 1 and shape.size > 1 and shape[0] in heads:
            shape[0] = heads[shape[0]]
            weight.CopyFrom(numpy_helper.from_array(shape, weight.name))
    onnx.save(model, path)


def matmul_bytes(path, weights):
    """The bytes of the constant operands as --quantize-weights packs them."""
    model = onnx.load(path, load_external_data=False)
    dims = {weight.name: list(weight.dims) for weight in model.graph.initializer}
    numbers = columns = 0
    seen = set()
    for node in model.graph.node:
        for name in node.input if node.op_type in ("MatMul", "Gemm") else []:
            if len(dims.get(name, [])) == 2 and name not in seen:
                seen.add(name)
                numbers += int(np.prod(dims[name]))
                columns += dims[name][0 if node.op_type == "Gemm" else 1]
    kind, _, block = weights.partition(":")
    bits = {"bf16": 16, "int8": 8, "fp8": 8, "int4": 4, "fp4": 4, "int2": 2}[kind]
    scales = 0 if kind == "bf16" else numbers // int(block) if block else columns
    return numbers * bits // 8 + scales * 2


def rondo(binaries, *words):
    said = subprocess.run([str(binaries / "rondo"), *map(str, words)], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        sys.exit(f"rondo {words[0]}: {said.stderr.strip()}")
    return said.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/packed_steps")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--weights", nargs="+", default=["int4:32", "int4:128", "fp8"])
    parser.add_argument("--cached", type=int, default=1024)
    parser.add_argument("--gbps", type=float, default=4670, help="what the GPU reads from memory")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--profile", type=pathlib.Path, help="of rondo tune")
    parser.add_argument("--compile-only", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    positions = arguments.folder / "positions.npy"
    np.save(positions, np.array([arguments.cached - 1], np.int64))
    print("| batch | weights | bytes of matmuls | µs | to bf16 | of the bandwidth |\n|---|---|---|---|---|---|")
    for batch in arguments.batch:
        graph, first = arguments.folder / f"b{batch}.onnx", None
        with_batch(arguments.model, batch, graph)
        for weights in ["bf16", *arguments.weights]:
            plan = arguments.folder / f"b{batch}_{weights.replace(':', '_')}.rondo"
            more = [] if weights == "bf16" else ["--quantize-weights", weights]
            more += ["--profile", arguments.profile] if arguments.profile else []
            if not plan.exists():
                rondo(arguments.binaries, "compile", graph, "--synthetic-weights", 1, "--target", arguments.target,
                      *more, "-o", plan)
            if arguments.compile_only:
                continue
            said = rondo(arguments.binaries, "bench", plan, "--driver", "cuda", "--input", f"positions={positions}",
                         "--runs", arguments.runs, "--json")
            time = json.loads(said)["programs"][0]["device_us"]["median"]
            first = first or time
            count = matmul_bytes(graph, weights)
            print(f"| {batch} | {weights} | {count:,} | {time:.0f} | {first / time:.2f} | "
                  f"{count / arguments.gbps / 1e3 / time:.0%} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())

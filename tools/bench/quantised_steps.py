#!/usr/bin/env python3
"""Times a decoder's steps with 8-bit activations and weights. Writes the graph of a step (a bench graph without weights) with
QuantizeLinear and DequantizeLinear around every MatMul and Gemm with a constant, as TensorRT's Model Optimizer (fp8) and ONNX
Runtime's quantisation (int8) export decoders. Compiles it beside the unchanged graph, and beside that with only the weights
in 8 bits (`--quantize-weights`), and times the steps' replay on a GPU.

  build/venv/bin/python tools/bench/quantised_steps.py llama3-8b-8layers-decode-b16-bf16.onnx --batch 1 4 16

Weights are drawn at random, activations have one scale, weights one for each column.
"""
import argparse
import json
import pathlib

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

import packed_steps

ROOT = packed_steps.ROOT
CODES = "{}.codes"  # the file with 8-bit weights
TYPES = {"fp8": TensorProto.FLOAT8E4M3FN, "int8": TensorProto.INT8}
ACTIVATION_STEP = {"fp8": 1 / 32, "int8": 1 / 16}  # either type holds activations of several units


def random_codes(kind):
    """Normally distributed weights, repeated in the file."""
    numbers = np.random.default_rng(1).standard_normal(1 << 24, dtype=np.float32) * 24
    return (numbers.astype(ml_dtypes.float8_e4m3fn) if kind == "fp8" else np.clip(np.rint(numbers), -127, 127).astype(np.int8)).tobytes()


def quantised(source, kind, path, codes):
    """The graph with 8-bit activations and weights in every matmul with a constant. The weights' bytes go to the file `codes`."""
    model = onnx.load(source, load_external_data=False)
    weights = {weight.name: weight for weight in model.graph.initializer}
    numbers = {weight.name: weight.data_type for weight in model.graph.initializer}  # the types before weights get the new one
    nodes, scaled, made = [], {}, {}
    drawn = random_codes(kind)

    def constant(name, value, dtype):
        made[name] = helper.make_tensor(name, dtype, value.shape, value.reshape(-1).tolist())
        return name

    for node in model.graph.node:
        weight = weights.get(node.input[1]) if node.op_type in ("MatMul", "Gemm") else None
        if weight is None or len(weight.dims) != 2:
            nodes.append(node)
            continue
        number = numbers[weight.name]
        if weight.name not in scaled:
            columns = weight.dims[0 if node.op_type == "Gemm" else 1]
            scale = constant(f"{weight.name}_scale", np.full([columns], 1e-3, np.float32), number)
            zero = constant(f"{weight.name}_zero", np.zeros([columns], np.float32), TYPES[kind])
            weight.data_type = TYPES[kind]
            size, first = int(np.prod(weight.dims)), codes.tell()
            for done in range(0, size, len(drawn)):
                codes.write(drawn[:min(len(drawn), size - done)])
            del weight.external_data[:]
            for key, value in (("location", CODES.format(kind)), ("offset", str(first)), ("length", str(size))):
                weight.external_data.add(key=key, value=value)
            scaled[weight.name] = f"{weight.name}_dequantised"
            nodes.append(helper.make_node("DequantizeLinear", [weight.name, scale, zero], [scaled[weight.name]],
                                          axis=0 if node.op_type == "Gemm" else 1))
        x = node.input[0]
        if x not in scaled:
            scale = constant(f"{x}_scale", np.array(ACTIVATION_STEP[kind], np.float32), number)
            zero = constant(f"{x}_zero", np.array(0, np.float32), TYPES[kind])
            scaled[x] = f"{x}_dequantised"
            nodes.append(helper.make_node("QuantizeLinear", [x, scale, zero], [f"{x}_quantised"]))
            nodes.append(helper.make_node("DequantizeLinear", [f"{x}_quantised", scale, zero], [scaled[x]]))
        node.input[0], node.input[1] = scaled[x], scaled[weight.name]
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(made.values())
    for opset in model.opset_import:
        opset.version = max(opset.version, 21) if opset.domain == "" else opset.version
    model.ir_version = max(model.ir_version, 10)
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/quantised_steps")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--kinds", nargs="+", choices=list(TYPES), default=list(TYPES))
    parser.add_argument("--cached", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--compile-only", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    positions = arguments.folder / "positions.npy"
    np.save(positions, np.array([arguments.cached - 1], np.int64))

    def time_of(model, plan, *options):
        packed_steps.rondo(arguments.binaries, "compile", model, "-o", plan, "--target", arguments.target, "--synthetic-weights",
                           1, *options)
        if arguments.compile_only:
            return None
        said = packed_steps.rondo(arguments.binaries, "bench", plan, "--driver", "cuda", "--input", f"positions={positions}",
                                  "--runs", arguments.runs, "--json")
        plan.unlink()
        return json.loads(said)["programs"][0]["device_us"]["median"]

    print("| batch | type | as it is | weights alone | | activations, too | |\n|---|---|---|---|---|---|---|")
    for batch in arguments.batch:
        graph = arguments.folder / f"b{batch}.onnx"
        packed_steps.with_batch(arguments.model, batch, graph)
        whole = time_of(graph, arguments.folder / f"b{batch}.rondo")
        for kind in arguments.kinds:
            model = arguments.folder / f"b{batch}-{kind}.onnx"
            with open(arguments.folder / CODES.format(kind), "wb") as codes:
                quantised(graph, kind, model, codes)
            weights = time_of(graph, arguments.folder / f"b{batch}-{kind}-weights.rondo", "--quantize-weights", kind)
            both = time_of(model, arguments.folder / f"b{batch}-{kind}.rondo")
            if not arguments.compile_only:
                print(f"| {batch} | {kind} | {whole:.0f} | {weights:.0f} | {whole / weights:.2f} | {both:.0f} | {whole / both:.2f} |",
                      flush=True)


if __name__ == "__main__":
    main()

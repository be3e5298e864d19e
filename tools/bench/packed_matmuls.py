#!/usr/bin/env python3
"""Writes the matmuls of a Llama-3-8B layer as one model, to time packed weights beside bf16. For each number of rows it has
x [rows, K] times a weight [K, N] in bf16, for qkv, o, gate and up, and down.

The weights are missing external data: compile with --synthetic-weights. kernel_times (README.md) times a plan's kernels launch
after launch, in the order of rows and matmuls.

  build/venv/bin/python tools/bench/packed_matmuls.py build/matmuls.onnx 17 32 64 128 512 2048
  rondo compile build/matmuls.onnx --synthetic-weights 1 --target cuda:sm_90a --quantize-weights int4:32 -o P
  kernel_times P 0 matmul
"""
import argparse
import pathlib

from onnx import TensorProto, helper, save

MATMULS = {"qkv": (4096, 6144), "o": (4096, 4096), "gate_up": (4096, 28672), "down": (14336, 4096)}


def weight(name, shape):
    tensor = TensorProto(name=name, data_type=TensorProto.BFLOAT16, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "weights.bin", "offset": "0", "length": str(2 * shape[0] * shape[1])}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def model(all_rows):
    nodes, inputs, outputs = [], [], []
    for rows in all_rows:
        for name, (k, n) in MATMULS.items():
            port = f"{name}_{rows}"
            nodes.append(helper.make_node("MatMul", [f"x_{port}", f"w_{name}"], [f"y_{port}"], name=port))
            inputs.append(helper.make_tensor_value_info(f"x_{port}", TensorProto.BFLOAT16, [rows, k]))
            outputs.append(helper.make_tensor_value_info(f"y_{port}", TensorProto.BFLOAT16, [rows, n]))
    weights = [weight(f"w_{name}", shape) for name, shape in MATMULS.items()]
    graph = helper.make_graph(nodes, "matmuls", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("rows", type=int, nargs="+")
    options = parser.parse_args()
    options.model.parent.mkdir(parents=True, exist_ok=True)
    save(model(options.rows), options.model)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""ONNX models of one operator of an image network each, with random weights; and reductions of a few long rows of f16 (for
rondo bench on a GPU).

Inputs and outputs of the models have their channels first, so that no operator profits from a network's order of
channels. Each model is one file FOLDER/NAME.onnx, for tests/ort/run networks.

  tools/setup --venv
  build/venv/bin/python tools/bench/export_operators.py --out build/operators
  build/venv/bin/python tests/ort/run networks build/operators/*.onnx
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

# name: operator, input shape, output channels (0: no weight), kernel, stride, groups
OPERATORS = {
    "conv1d_1_768": ("Conv", [1, 768, 197], 768, [1], 1, 1),
    "conv3x3_512_7x7": ("Conv", [1, 512, 7, 7], 512, [3, 3], 1, 1),
    "depthwise3x3_144_56x56": ("Conv", [1, 144, 56, 56], 144, [3, 3], 1, 144),
    "depthwise7x7_768_7x7": ("Conv", [1, 768, 7, 7], 768, [7, 7], 1, 768),
    "maxpool3x3_64_112x112": ("MaxPool", [1, 64, 112, 112], 0, [3, 3], 2, 1),
    "averagepool2x2_64_56x56": ("AveragePool", [1, 64, 56, 56], 0, [2, 2], 2, 1),
}

# name: operator, [rows, elements of a row]
ROWS = {f"{operator.lower()}_{rows}x{elements}": (operator, [rows, elements])
        for operator, elements in (("Softmax", 128256), ("ArgMax", 128256), ("ReduceMax", 1 << 20)) for rows in (1, 16)}


def save(node, name, folder, ports, weights=()):
    graph = helper.make_graph([node], name, ports[:1], ports[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")


def export_rows(name, folder):
    operator, shape = ROWS[name]
    listed = operator == "ReduceMax"  # its axes are an input
    node = helper.make_node(operator, ["x", "axes"] if listed else ["x"], ["y"], **({} if listed else {"axis": -1}))
    weights = [numpy_helper.from_array(np.array([1]), "axes")] if listed else []
    out = onnx.TensorProto.INT64 if operator == "ArgMax" else onnx.TensorProto.FLOAT16
    of = shape if operator == "Softmax" else [shape[0], 1]
    save(node, name, folder, [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT16, shape),
                              helper.make_tensor_value_info("y", out, of)], weights)


def export(name, folder, generator):
    operator, shape, channels, kernel, stride, groups = OPERATORS[name]
    spatial = len(kernel)
    pads = [k // 2 if k % 2 == 1 else 0 for k in kernel]
    points = [(e + 2 * p - k) // stride + 1 for e, p, k in zip(shape[2:], pads, kernel)]
    attributes = {"kernel_shape": kernel, "strides": [stride] * spatial, "pads": pads * 2}
    weights = []
    if channels:
        attributes["group"] = groups
        weight = generator.standard_normal([channels, shape[1] // groups] + kernel).astype(np.float32)
        bias = generator.standard_normal(channels).astype(np.float32)
        weights = [numpy_helper.from_array(weight * 0.1, "w"), numpy_helper.from_array(bias, "b")]
    node = helper.make_node(operator, ["x"] + [w.name for w in weights], ["y"], **attributes)
    ports = [helper.make_tensor_value_info(port, onnx.TensorProto.FLOAT, of)
             for port, of in (("x", shape), ("y", [1, channels or shape[1]] + points))]
    save(node, name, folder, ports, weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"by default all of networks; of rows: {', '.join(ROWS)}")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the models")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or OPERATORS:
        if name in ROWS:
            export_rows(name, arguments.out)
        else:
            export(name, arguments.out, np.random.default_rng(arguments.seed))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Three models whose work depends on data, with inputs: an If between eight matmuls and two, a while loop with one matmul per
round, and NonMaxSuppression of 8,400 boxes in 80 classes.

  build/venv/bin/python tools/bench/branch_models.py FOLDER
  rondo compile FOLDER/while.onnx --bound loop=64 --target cuda:sm_90a -o while.rondo
  rondo bench while.rondo --input x=FOLDER/x.npy --input limit=FOLDER/limit2.npy

Inputs: c0, c1 (which branch); limit2, limit64 (rounds); boxes, few (scores of which 0.05 % are above the threshold).
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper, numpy_helper

WIDTH = 512
port = helper.make_tensor_value_info


def save(folder, name, nodes, inputs, outputs, constants):
    tensors = [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / f"{name}.onnx")


def layers(draw, prefix, depth):
    """Returns (graph, weights) of a branch with that many matmuls, beginning at "x"."""
    nodes, weights, at = [], {}, "x"
    for i in range(depth):
        weights[f"{prefix}.w{i}"] = (draw.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [at, f"{prefix}.w{i}"], [f"{prefix}.m{i}"]))
        nodes.append(helper.make_node("Tanh", [f"{prefix}.m{i}"], [f"{prefix}.{i}"]))
        at = f"{prefix}.{i}"
    return helper.make_graph(nodes, prefix, [], [port(at, T.FLOAT, [64, WIDTH])]), weights


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder, draw = pathlib.Path(sys.argv[1]), np.random.default_rng(1)
    folder.mkdir(parents=True, exist_ok=True)
    x, y = port("x", T.FLOAT, [64, WIDTH]), port("y", T.FLOAT, [64, WIDTH])
    (yes, eight), (no, two) = layers(draw, "yes", 8), layers(draw, "no", 2)
    save(folder, "if", [helper.make_node("If", ["c"], ["y"], then_branch=yes, else_branch=no)], [port("c", T.BOOL, []), x], [y], {**eight, **two})
    body = helper.make_graph(
        [helper.make_node("MatMul", ["v", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["t"]), helper.make_node("Add", ["t", "v"], ["next"]),
         helper.make_node("Add", ["k", "one"], ["k1"]), helper.make_node("Less", ["k1", "limit"], ["on"])], "body",
        [port("i", T.INT64, []), port("go", T.BOOL, []), port("v", T.FLOAT, [64, WIDTH]), port("k", T.INT64, [])],
        [port("on", T.BOOL, []), port("next", T.FLOAT, [64, WIDTH]), port("k1", T.INT64, [])])
    save(folder, "while", [helper.make_node("Loop", ["", "always", "x", "zero"], ["y", "rounds"], name="loop", body=body)], [x, port("limit", T.INT64, [])],
         [y, port("rounds", T.INT64, [])],
         {"w": (draw.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32), "one": np.int64(1), "zero": np.int64(0), "always": np.bool_(True)})
    save(folder, "nms", [helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["s"], center_point_box=1)],
         [port("boxes", T.FLOAT, [1, 8400, 4]), port("scores", T.FLOAT, [1, 80, 8400])], [port("s", T.INT64, [None, 3])],
         {"most": np.int64([100]), "iou": np.float32([0.5]), "least": np.float32([0.25])})
    inputs = {"x": draw.standard_normal((64, WIDTH)).astype(np.float32), "c0": np.bool_(False), "c1": np.bool_(True), "limit2": np.int64(2), "limit64": np.int64(64)}
    centres, of = draw.uniform(50, 590, (40, 2)), draw.integers(0, 40, 8400)  # boxes around 40 objects
    inputs["boxes"] = np.concatenate([centres[of] + draw.normal(0, 6, (8400, 2)), draw.uniform(40, 90, (8400, 2))], 1).astype(np.float32)[None]
    inputs["few"] = draw.uniform(0, 0.2, (1, 80, 8400)).astype(np.float32)
    found = draw.random((1, 80, 8400)) < 0.0005
    inputs["few"][found] = draw.uniform(0.25, 1, found.sum())
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", value)


main()

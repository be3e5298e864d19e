#!/usr/bin/env python3
"""Writes models with FP8 matmuls and convolutions, as TensorRT's Model Optimizer writes them, each beside its f32 model:

  encoder128.f32.onnx  encoder128.fp8.onnx   BERT-base's layers (width 768, 12 heads, 3072 within), 128 rows
  encoder128.fp8_weights.onnx                the same, but matmuls of two activations (attention) stay in f32
  encoder512...  encoder2048...              the same with more rows
  resnet18.f32.onnx  resnet18.fp8.onnx       ResNet-18 at 224 x 224, batch norms folded

The inputs of a MatMul, Gemm or Conv go through QuantizeLinear and DequantizeLinear (FLOAT8E4M3FN). Activations have one
scale, found by runs over random inputs; weights are constants with one scale per output channel. In MatMuls of two
activations, as in attention, both inputs are quantised. Weights are random (a fixed seed).

With --synthetic, the weights of the f32 models are in a missing file: `rondo compile --synthetic-weights 1` makes them.

  tools/setup --venv
  build/venv/bin/python tools/bench/fp8_models.py build/fp8
"""
import argparse
import pathlib

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import quantised_models

PRODUCTS = ("MatMul", "Gemm", "Conv")
MOST = 448.0


def ranges(model, runs=2):
    """The largest magnitude of each computed input of a matmul or convolution."""
    constants = {c.name for c in model.graph.initializer}
    wanted = {name for node in model.graph.node if node.op_type in PRODUCTS for name in node.input[:2] if name not in constants}
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    x = model.graph.input[0]
    for name in sorted(wanted - {x.name}):
        probe.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    session = ort.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    shape = [d.dim_value for d in x.type.tensor_type.shape.dim]
    random, found = np.random.default_rng(3), {}
    names = [o.name for o in session.get_outputs()]
    for _ in range(runs):
        given = random.standard_normal(shape).astype(np.float32)
        for name, value in [(x.name, given)] + list(zip(names, session.run(None, {x.name: given}))):
            found[name] = max(found.get(name, 0.0), float(np.abs(value).max()))
    return {name: found[name] for name in wanted}


def weight_axis(node):
    """The axis of a weight that holds its output channels."""
    if node.op_type == "Conv":
        return 0
    turned = any(a.name == "transB" and a.i for a in node.attribute)
    return 0 if turned else 1


def with_fp8(model, attention=True):
    greatest = ranges(model)
    constants = {c.name: c for c in model.graph.initializer}
    nodes, added, quantised, weights = [], [], {}, set(constants)

    def constant(name, array):
        added.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def zero(name, shape):
        added.append(helper.make_tensor(name, TensorProto.FLOAT8E4M3FN, shape, bytes(int(np.prod(shape))), raw=True))
        return name

    def activation(name):
        if name not in quantised:
            scale = constant(f"{name}_scale", np.float32(max(greatest[name], 1e-6) / MOST))
            inputs = [scale, zero(f"{name}_zero", [])]
            nodes.append(helper.make_node("QuantizeLinear", [name] + inputs, [f"{name}_q"], name=f"{name}_quantise"))
            nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q"] + inputs, [f"{name}_dq"], name=f"{name}_dequantise"))
            quantised[name] = f"{name}_dq"
        return quantised[name]

    def weight(name, axis):
        if name not in quantised:
            array = numpy_helper.to_array(constants.pop(name))
            others = tuple(d for d in range(array.ndim) if d != axis)
            scale = (np.abs(array).max(axis=others, keepdims=True) / MOST).astype(np.float32)
            codes = (array / scale).astype(ml_dtypes.float8_e4m3fn)
            added.append(helper.make_tensor(f"{name}_q", TensorProto.FLOAT8E4M3FN, array.shape, codes.tobytes(), raw=True))
            inputs = [f"{name}_q", constant(f"{name}_scale", scale.reshape(-1)), zero(f"{name}_zero", [array.shape[axis]])]
            nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}_dq"], name=f"{name}_dequantise", axis=axis))
            quantised[name] = f"{name}_dq"
        return quantised[name]

    for node in model.graph.node:
        if node.op_type in PRODUCTS and (attention or node.input[1] in weights):
            for i in range(2):
                name = node.input[i]
                known = name in weights
                node.input[i] = weight(name, weight_axis(node)) if known else activation(name)
        nodes.append(node)
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(list(constants.values()) + added)
    model.opset_import[0].version = 21
    model.ir_version = 10
    return model


def write(folder, name, model, synthetic):
    f32 = folder / f"{name}.f32.onnx"
    copy = onnx.ModelProto()
    copy.CopyFrom(model)  # saving may move the weights out of the model
    data = f"{name}.f32.data"
    onnx.save(copy, f32, save_as_external_data=synthetic, location=data, size_threshold=4096) if synthetic else onnx.save(copy, f32)
    if synthetic:
        (folder / data).unlink()
    if name.startswith("encoder"):
        copy.CopyFrom(model)
        onnx.save(with_fp8(copy, attention=False), folder / f"{name}.fp8_weights.onnx")
    onnx.save(with_fp8(model), folder / f"{name}.fp8.onnx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=4, help="of encoders")
    parser.add_argument("--synthetic", action="store_true", help="f32 models without their weights")
    parser.add_argument("--only", nargs="+", help="of these names alone")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    layers = arguments.layers
    models = {f"encoder{rows}": lambda rows=rows: quantised_models.encoder(layers, 768, 12, 3072, rows) for rows in (128, 512, 2048)}
    models["resnet18"] = quantised_models.resnet18
    for name, make in models.items():
        if not arguments.only or name in arguments.only:
            write(arguments.folder, name, make(), arguments.synthetic)


if __name__ == "__main__":
    main()

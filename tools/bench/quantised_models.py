#!/usr/bin/env python3
"""Writes an encoder and an image network in f32 and in 8-bit integers, as ONNX Runtime's quantisation makes them:

  encoder.f32.onnx  encoder.dynamic.onnx  encoder.qdq.onnx     6 layers of width 384, 12 heads, 128 rows (MiniLM's shape)
  long_encoder...                                              3 such layers, 384 rows
  resnet18.f32.onnx  resnet18.qdq.onnx                         ResNet-18 at 224 x 224, batch norms folded
  resnet18.integer.onnx                                        the same with ConvInteger and DynamicQuantizeLinear
  mobilenet.f32.onnx  mobilenet.qdq.onnx  mobilenet.integer.onnx   depthwise convolutions at 128 x 128 (MobileNetV2's blocks)
  mobilenet.FORM.onnx                                          the same in the other forms (FORMS)

Weights are random (a fixed seed), and so is what static quantisation is calibrated with. Static: u8 activations, i8
weights, a scale for each output channel, unless the form says otherwise.

With --of, models of one image input are quantised instead, in the forms named.

  tools/setup --venv
  build/venv/bin/python tools/bench/quantised_models.py build/quantised
  build/venv/bin/python tools/bench/quantised_models.py build/zoo --of build/networks/*.onnx --forms qdq qdq_u8u8 integer
"""
import argparse
import logging
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static


class Maker:
    """A graph that grows node by node; `add` gives the name of the node's result."""

    def __init__(self, seed):
        self.random, self.nodes, self.constants = np.random.default_rng(seed), [], []

    def add(self, op, *inputs, **attributes):
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape, fan):
        return self.constant((self.random.standard_normal(shape) * fan ** -0.5).astype(np.float32))

    def vector(self, n, around=0.0):
        return self.constant((around + 0.1 * self.random.standard_normal(n)).astype(np.float32))

    def model(self, x, y, shape):
        ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)] for name, dims in ((x, shape), (y, None))]
        graph = helper.make_graph(self.nodes, "main", *ports, self.constants)
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def dense(m, x, inputs, outputs):
    return m.add("Add", m.add("MatMul", x, m.weight(inputs, outputs, fan=inputs)), m.vector(outputs))


def encoder(layers=6, width=384, heads=12, inner=1536, rows=128):
    m, x, size = Maker(1), "x", width // heads
    split = m.constant(np.array([1, rows, heads, size]))
    joined = m.constant(np.array([1, rows, width]))
    def heads_of(x, perm):
        return m.add("Transpose", m.add("Reshape", x, split), perm=perm)

    def norm(x):
        return m.add("LayerNormalization", x, m.vector(width, 1), m.vector(width), axis=-1)

    for _ in range(layers):
        q, k, v = (heads_of(dense(m, x, width, width), perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = m.add("Mul", m.add("MatMul", q, k), m.constant(np.float32(size ** -0.5)))
        mixed = m.add("MatMul", m.add("Softmax", scores, axis=-1), v)
        mixed = m.add("Reshape", m.add("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
        x = norm(m.add("Add", dense(m, mixed, width, width), x))
        h = dense(m, x, width, inner)
        erf = m.add("Erf", m.add("Div", h, m.constant(np.float32(2 ** 0.5))))
        gelu = m.add("Mul", m.add("Mul", h, m.add("Add", erf, m.constant(np.float32(1)))), m.constant(np.float32(0.5)))
        x = norm(m.add("Add", dense(m, gelu, inner, width), x))
    return m.model("x", x, [1, rows, width])


def resnet18(image=224):
    m = Maker(2)

    def conv(x, inputs, outputs, size, stride, relu=True):
        pad = size // 2
        y = m.add("Conv", x, m.weight(outputs, inputs, size, size, fan=inputs * size * size / (2 if relu else 1)), m.vector(outputs),
                  kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4)
        return m.add("Relu", y) if relu else y

    x, channels = conv("x", 3, 64, 7, 2), 64
    x = m.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        past = x if channels == outputs else conv(x, channels, outputs, 1, stride, relu=False)
        x = conv(conv(x, channels, outputs, 3, stride), outputs, outputs, 3, 1, relu=False)
        x, channels = m.add("Relu", m.add("Add", x, past)), outputs
    x = m.add("Flatten", m.add("GlobalAveragePool", x))
    y = m.add("Gemm", x, m.weight(1000, 512, fan=512), m.vector(1000), transB=1)
    return m.model("x", y, [1, 3, image, image])


def mobilenet(image=128):
    m = Maker(4)

    def conv(x, inputs, outputs, size, stride=1, groups=1, clip=True):
        y = m.add("Conv", x, m.weight(outputs, inputs // groups, size, size, fan=inputs // groups * size * size), m.vector(outputs),
                  kernel_shape=[size, size], strides=[stride, stride], pads=[size // 2] * 4, group=groups)
        return m.add("Clip", y, m.constant(np.float32(0)), m.constant(np.float32(6))) if clip else y

    x, channels = conv("x", 3, 32, 3, 2), 32
    for outputs, stride, wider in ((16, 1, 1), (24, 2, 6), (24, 1, 6), (32, 2, 6), (32, 1, 6), (64, 2, 6), (64, 1, 6), (96, 1, 6),
                                   (160, 2, 6), (160, 1, 6)):
        inner = channels * wider
        y = conv(x, channels, inner, 1) if wider > 1 else x
        y = conv(conv(y, inner, inner, 3, stride, inner), inner, outputs, 1, clip=False)
        x, channels = m.add("Add", y, x) if stride == 1 and channels == outputs else y, outputs
    x = m.add("Flatten", m.add("GlobalAveragePool", conv(x, channels, 640, 1)))
    y = m.add("Gemm", x, m.weight(1000, 640, fan=640), m.vector(1000), transB=1)
    return m.model("x", y, [1, 3, image, image])


U8, I8 = QuantType.QUInt8, QuantType.QInt8
QDQ, QOPERATOR = QuantFormat.QDQ, QuantFormat.QOperator

# Format, types of activations and of weights, a scale for each output channel or one for all, further options.
FORMS = {
    "qdq": (QDQ, U8, I8, True, {}),
    "qdq_u8u8": (QDQ, U8, U8, False, {}),
    "qdq_i8i8": (QDQ, I8, I8, True, {}),
    "qdq_f32_bias": (QDQ, U8, I8, True, {"QuantizeBias": False}),
    "qlinear": (QOPERATOR, U8, I8, True, {}),
    "qlinear_u8u8": (QOPERATOR, U8, U8, False, {}),
}


class Calibration(CalibrationDataReader):
    def __init__(self, name, shape, runs=4):
        random = np.random.default_rng(3)
        self.left = [{name: random.standard_normal(shape).astype(np.float32)} for _ in range(runs)]

    def get_next(self):
        return self.left.pop() if self.left else None


def write(folder, name, model, dynamic, forms=("qdq",)):
    folder.mkdir(parents=True, exist_ok=True)
    x = model.graph.input[0]
    shape = [d.dim_value for d in x.type.tensor_type.shape.dim]
    f32 = folder / f"{name}.f32.onnx"
    onnx.save(model, f32)
    for kind, by_channel in dynamic.items():
        quantize_dynamic(f32, folder / f"{name}.{kind}.onnx", weight_type=I8 if kind == "dynamic" else U8,
                         per_channel=by_channel)
    for form in forms:
        layout, activations, weights, by_channel, options = FORMS[form]
        quantize_static(f32, folder / f"{name}.{form}.onnx", Calibration(x.name, shape), quant_format=layout, per_channel=by_channel,
                        activation_type=activations, weight_type=weights, extra_options=options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=6, help="of the encoder")
    parser.add_argument("--of", nargs="+", type=pathlib.Path, help="models to quantise")
    parser.add_argument("--forms", nargs="+", default=["qdq", "integer"], help=f"of those: integer, {', '.join(FORMS)}")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    if arguments.of:
        for model in arguments.of:
            write(arguments.folder, model.stem, onnx.load(model),
                  {"integer": False} if "integer" in arguments.forms else {},
                  [form for form in arguments.forms if form != "integer"])
        return
    write(arguments.folder, "encoder", encoder(arguments.layers), {"dynamic": False})
    write(arguments.folder, "resnet18", resnet18(), {"integer": False})
    write(arguments.folder, "mobilenet", mobilenet(), {"integer": False, "integer_channels": True}, FORMS)
    write(arguments.folder, "long_encoder", encoder(arguments.layers // 2, rows=384), {"dynamic": False})


if __name__ == "__main__":
    main()

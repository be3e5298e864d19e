#!/usr/bin/env python3
"""Writes an encoder and an image network in f32 and in 8-bit integers, as ONNX Runtime's quantisation makes them:

  encoder.f32.onnx  encoder.dynamic.onnx  encoder.qdq.onnx     6 layers of width 384, 12 heads, 128 rows (MiniLM's shape)
  long_encoder...                                              3 such layers, 384 rows
  resnet18.f32.onnx  resnet18.qdq.onnx                         ResNet-18 at 224 x 224, batch norms folded
  resnet18.integer.onnx                                        the same with ConvInteger and DynamicQuantizeLinear
  mobilenet.f32.onnx  mobilenet.qdq.onnx  mobilenet.integer.onnx   depthwise convolutions at 128 x 128 (MobileNetV2's blocks)
  mobilenet.FORM.onnx                                          the same in the other forms (FORMS)

Weights are random (a fixed seed), and so are the inputs for calibrating static quantisation. Static means u8 activations and
i8 weights with a scale per output channel, unless the form says otherwise.

With --networks, networks of image_networks.py instead, at the sizes named (NETWORK_SIZE.FORM.onnx), and with --of, models of
one image input, in the forms named.

  tools/setup --venv
  build/venv/bin/python tools/bench/quantised_models.py build/quantised
  build/venv/bin/python tools/bench/quantised_models.py build/kinds --networks
  build/venv/bin/python tools/bench/quantised_models.py build/zoo --of build/networks/*.onnx --forms qdq qdq_u8u8 integer
"""
import argparse
import logging
import pathlib

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from image_networks import IMAGE_NETWORKS, encoder, mobilenet, resnet18

U8, I8 = QuantType.QUInt8, QuantType.QInt8
QDQ, QOPERATOR = QuantFormat.QDQ, QuantFormat.QOperator

# Format, type of activations, type of weights, whether each output channel has a scale, further options.
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
    parser.add_argument("--networks", nargs="*", choices=list(IMAGE_NETWORKS), help="to make; all if none is named")
    parser.add_argument("--sizes", nargs="+", type=int, default=[64, 224], help="pixels of a side of their images")
    parser.add_argument("--forms", nargs="+", default=["qdq", "integer"], help=f"of either: integer, {', '.join(FORMS)}")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    dynamic = {"integer": False} if "integer" in arguments.forms else {}
    static = [form for form in arguments.forms if form != "integer"]
    for model in arguments.of or ():
        write(arguments.folder, model.stem, onnx.load(model), dynamic, static)
    if arguments.networks is not None:
        for name in arguments.networks or IMAGE_NETWORKS:
            for size in arguments.sizes:
                write(arguments.folder, f"{name}_{size}", IMAGE_NETWORKS[name](size), dynamic, static)
    if arguments.of or arguments.networks is not None:
        return
    write(arguments.folder, "encoder", encoder(arguments.layers), {"dynamic": False})
    write(arguments.folder, "resnet18", resnet18(), {"integer": False})
    write(arguments.folder, "mobilenet", mobilenet(), {"integer": False, "integer_channels": True}, FORMS)
    write(arguments.folder, "long_encoder", encoder(arguments.layers // 2, rows=384), {"dynamic": False})


if __name__ == "__main__":
    main()

"""Operators with others put on."""
import copy

import numpy as np
from onnx import helper

from .case import MICROSOFT, Case


def activation(draw, listed):
    more = ["Clip"] if listed else ["Softplus", "Elu", "Selu", "Softsign", "ThresholdedRelu"]
    name = draw.pick("Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", *more)
    numbers = {"LeakyRelu": [0.1], "HardSigmoid": [0.3, 0.4], "Clip": [-0.5, 0.7], "Elu": [0.5],
               "ThresholdedRelu": [0.2]}.get(name, [])
    if listed:
        return {"activation": name, "activation_params": numbers or None}
    return {"activation": name, **dict(zip(("activation_alpha", "activation_beta"), numbers))}


def fused_conv(draw):
    case = Case(tolerance=(1e-3, 1e-4))
    groups = draw.pick(1, 2)
    channels, outs, size = 2 * draw.whole(1, 3), 2 * draw.whole(1, 3), draw.whole(4, 7)
    names = [case.input("x", draw.floats(2, channels, size, size)), case.constant("w", draw.floats(outs, channels // groups, 3, 3)),
             case.constant("b", draw.floats(outs) if draw.chance() else None)]
    if draw.chance():
        names.append(case.input("z", draw.floats(2, outs, size, size)))
    case.node("FusedConv", names, ["y"], MICROSOFT, pads=[1, 1, 1, 1], group=groups, **activation(draw, True))
    case.output("y")
    return case


def fused_gemm(draw):
    case = Case(tolerance=(1e-3, 1e-4))
    m, k, n = draw.whole(1, 5), draw.whole(1, 9), draw.whole(1, 9)
    turn_a, turn_b = draw.pick(None, 1), draw.pick(None, 1)
    names = [case.input("a", draw.floats(*((k, m) if turn_a else (m, k)))),
             case.constant("b", draw.floats(*((n, k) if turn_b else (k, n)))),
             case.constant("c", draw.floats(*draw.pick((n,), (m, n), (1,))) if draw.chance() else None)]
    case.node("FusedGemm", names, ["y"], MICROSOFT, transA=turn_a, transB=turn_b, alpha=draw.pick(None, 0.5),
              beta=draw.pick(None, 2.0), **activation(draw, False))
    case.output("y")
    return case


def fused_matmul(draw):
    case = Case(tolerance=(1e-3, 1e-4))
    batch, m, k, n = [draw.whole(1, 4) for _ in range(2)], draw.whole(1, 5), draw.whole(1, 6), draw.whole(1, 5)
    options, names = {"alpha": draw.pick(None, 0.25)}, []
    for side, (rows, columns) in (("A", (m, k)), ("B", (k, n))):
        turned, moved = draw.pick(0, 1), draw.pick(0, 1)
        rows, columns = (columns, rows) if turned else (rows, columns)
        shape = [rows, *batch, columns] if moved else [*batch, rows, columns]
        options |= {"trans" + side: turned, "transBatch" + side: moved}
        names.append(case.input(side, draw.floats(*shape)))
    case.node("FusedMatMul", names, ["y"], MICROSOFT, **options)
    case.output("y")
    return case


def fused_matmul_activation(draw):
    """Which ONNX Runtime has for DirectML only: FusedMatMul and Relu."""
    case = fused_matmul(draw)
    case.oracle = copy.deepcopy(case)
    case.oracle.nodes[0].output[0] = case.oracle.nodes[0].name = "before"
    case.oracle.node("Relu", ["before"], ["y"])
    case.nodes[0].op_type = "FusedMatMulActivation"
    case.nodes[0].attribute.append(helper.make_attribute("activation", "Relu"))
    return case


def skip_layer_normalization(draw):
    case = Case(tolerance=(1e-3, 1e-4))
    batch, rows, width = draw.whole(1, 3), draw.whole(1, 4), draw.whole(2, 20)
    simplified = draw.chance()
    skip = draw.pick((batch, rows, width), (1, rows, width), (rows, width))
    names = [case.input("x", draw.floats(batch, rows, width)), case.input("skip", draw.floats(*skip)),
             case.constant("gamma", draw.floats(width))]
    if not simplified:
        names.append(case.constant("beta", draw.floats(width) if draw.chance() else None))
    names.append(case.constant("bias", draw.floats(width) if draw.chance() else None))
    op = "SkipSimplifiedLayerNormalization" if simplified else "SkipLayerNormalization"
    case.node(op, names, ["y", "", "", "sum"], MICROSOFT, epsilon=draw.pick(None, 1e-5))
    case.output("y")
    case.output("sum")
    return case


def embed_layer_normalization(draw):
    case = Case(tolerance=(1e-3, 1e-4))
    batch, rows, width, words = draw.whole(1, 3), draw.whole(1, 6), draw.whole(2, 20), 11
    segments = draw.chance()
    names = [case.input("ids", draw.whole(0, words - 1, (batch, rows), np.int32)),
             case.input("segments", draw.whole(0, 1, (batch, rows), np.int32) if segments else None),
             case.constant("word", draw.floats(words, width)), case.constant("position", draw.floats(12, width)),
             case.constant("segment", draw.floats(2, width) if segments else None),
             case.constant("gamma", draw.floats(width)), case.constant("beta", draw.floats(width)),
             case.input("mask", (np.arange(rows)[None] < draw.whole(1, rows, (batch, 1))).astype(np.int32) if draw.chance() else None),
             case.input("places", draw.whole(0, 11, (draw.pick(1, batch), rows), np.int32) if draw.chance() else None)]
    case.node("EmbedLayerNormalization", names, ["y", "count", "sum"], MICROSOFT, epsilon=draw.pick(None, 1e-5))
    case.output("y")
    case.output("count", np.int32)
    case.output("sum")
    return case


def causal_conv(draw):
    case = Case(tolerance=(1e-3, 1e-4))
    batch, channels, rows, taps, dilation = draw.whole(1, 3), draw.whole(1, 6), draw.whole(1, 7), draw.whole(2, 4), draw.pick(1, 1, 2)
    last = draw.pick(0, 0, 1)
    turn = (lambda x: x.transpose(0, 2, 1).copy()) if last else (lambda x: x)
    names = [case.input("x", turn(draw.floats(batch, channels, rows))), case.constant("w", draw.floats(channels, 1, taps)),
             case.constant("b", draw.floats(channels) if draw.chance() else None),
             case.input("past", turn(draw.floats(batch, channels, (taps - 1) * dilation)) if draw.chance() else None)]
    case.node("CausalConvWithState", names, ["y", "present"], MICROSOFT, activation=draw.pick(None, "silu", "swish"),
              dilation=None if dilation == 1 else dilation, channels_last=last or None)
    case.output("y")
    case.output("present")
    return case


CASES = {"FusedConv": fused_conv, "FusedGemm": fused_gemm, "FusedMatMul": fused_matmul,
         "FusedMatMulActivation": fused_matmul_activation,
         "SkipLayerNormalization": skip_layer_normalization, "EmbedLayerNormalization": embed_layer_normalization,
         "CausalConvWithState": causal_conv}

"""Operators that contain others."""
import copy

import numpy as np
from onnx import helper

from .case import MICROSOFT, Case, windowed


def activation(draw, listed):
    more = ["Clip", "HardSwish"] if listed else ["Softplus", "Elu", "Selu", "Softsign", "ThresholdedRelu", "ScaledTanh",
                                                 "ParametricSoftplus"]
    name = draw.pick("Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", *more)
    numbers = {"LeakyRelu": [0.1], "HardSigmoid": [0.3, 0.4], "Clip": [-0.5, 0.7], "Elu": [0.5],
               "ThresholdedRelu": [0.2], "HardSwish": [1 / 6, 0.5], "ScaledTanh": [0.7, 1.5],
               "ParametricSoftplus": [0.7, 1.5]}.get(name, [])
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
             case.constant("c", draw.floats(*draw.pick((n,), (m, n), (m, 1), (1,))) if draw.chance() else None)]
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
    """An operator that ONNX Runtime has only for DirectML, compared with FusedMatMul and Relu."""
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
    # With channels_last, channels may lie along several axes.
    axes = draw.pick((), (2,), (1, 3)) if last else ()
    channels *= int(np.prod(axes, dtype=np.int64))
    turn = (lambda x: x.swapaxes(-1, -2).reshape(*x.shape[:-2], x.shape[-1], *axes, -1).copy()) if last else (lambda x: x)
    window = draw.pick(0, 0, 1, 4)
    past = turn(draw.floats(*([window] if window else []), batch, channels, (taps - 1) * dilation))
    names = [case.input("x", turn(draw.floats(batch, channels, rows))), case.constant("w", draw.floats(channels, 1, taps)),
             case.constant("b", draw.floats(channels) if draw.chance() else None),
             case.input("past", past if draw.chance() else None)]
    case.node("CausalConvWithState", names, ["y", "present"], MICROSOFT, activation=draw.pick(None, "silu", "swish"),
              dilation=None if dilation == 1 else dilation, channels_last=last or None, state_window=window or None)
    case.output("y")
    case.output("present")
    if window:
        case.oracle = windowed(case, window, rows, "past", {"x": 1 if last else 2})
    return case


def branches(draw):
    """Several residual streams: their norms, and how they are mixed before and after a block."""
    dtype = draw.pick(np.float32, np.float32, np.float16)
    case = Case(tolerance=(1e-3, 1e-5) if dtype == np.float32 else (1e-2, 1e-2))
    lead, count, width = draw.pick((3,), (2, 3), (1, 1)), draw.whole(1, 4), draw.pick(1, 5, 16)
    flat = draw.chance()
    x = draw.floats(*lead, count, width, dtype=dtype)
    gates = [(*lead, count), (*lead, count, 1), (*lead, count, width)]
    names = [case.input("streams", x.reshape(*lead, -1) if flat else x)]
    kind = draw.pick("BranchwiseRMSNorm", "HyperConnectionPreMix", "HyperConnectionPostMix")
    more = {"num_branches": count if flat else None}
    other = draw.pick(np.float32, dtype)
    if kind == "BranchwiseRMSNorm":
        scale = draw.pick(None, (width,), (count, width), (count * width,))
        names.append(case.either(draw, "scale", draw.floats(*scale, dtype=other)) if scale else "")
        more["epsilon"] = draw.pick(None, 1e-3)
    elif kind == "HyperConnectionPreMix":
        if flat:
            gates.append((*lead, count * width))
        names.append(case.input("gate", draw.floats(*draw.pick(*gates), dtype=other)))
        more["reduction_scale"] = draw.pick(None, 0.5)
    else:
        names += [case.input("block", draw.floats(*lead, width, dtype=dtype)),
                  case.input("gate", draw.floats(*draw.pick(*gates), dtype=other)),
                  case.input("mix", draw.floats(*lead, count, count, dtype=other) if draw.chance() else None)]
    case.node(kind, names, ["y"], MICROSOFT, **more)
    case.as_float("y")
    return case


def gates(draw):
    dtype = draw.pick(np.float32, np.float16)
    case = Case(tolerance=(1e-3, 1e-6) if dtype == np.float32 else (2e-3, 2e-3))
    shape = draw.pick((5,), (3, 8), (2, 3, 4))
    x = case.input("x", draw.floats(*shape, dtype=dtype, scale=draw.pick(1, 10)))
    if draw.chance():
        case.node("GatedAdd", [x, case.input("y", draw.floats(*shape, dtype=dtype)),
                               case.input("gate", draw.floats(*shape[:-1], 1, dtype=dtype))], ["z"], MICROSOFT)
    else:
        scale = draw.floats(dtype=draw.pick(np.float32, dtype))
        case.node("ScaledSiLU", [x, case.either(draw, "scale", np.asarray(scale)) if draw.chance() else ""], ["z"], MICROSOFT,
                  alpha=draw.pick(None, 0.3, -2.0))
    case.as_float("z")
    return case


def swiglu(draw):
    """The operator of com.microsoft that ONNX Runtime has only on GPUs, written with basic operators."""
    case = Case(tolerance=(1e-3, 1e-5))
    shape, alpha, beta, limit = draw.pick((3, 8), (2, 3, 6)), draw.pick(1.0, 1.702), draw.pick(0.0, 1.0), draw.pick(0.0, 0.7)
    gate, up = draw.floats(*shape), draw.floats(*shape)
    case.input("gate", gate)
    case.input("up", up)
    oracle = copy.deepcopy(case)
    if draw.chance():
        case.node("Concat", ["gate", "up"], ["both"], axis=-1)
        names = ["both"]
    else:
        names = ["gate", "up"]
    case.node("SwiGLU", names, ["y"], MICROSOFT, activation_alpha=alpha, activation_beta=beta, limit=limit)
    g, l = "gate", "up"
    if limit > 0:
        high, low = oracle.constant("high", np.float32(limit)), oracle.constant("low", np.float32(-limit))
        g, l = oracle.node("Clip", [g, "", high], ["g"]), oracle.node("Clip", [l, low, high], ["l"])
    turned = oracle.node("Sigmoid", [oracle.node("Mul", [g, oracle.constant("alpha", np.float32(alpha))], ["scaled"])], ["open"])
    more = oracle.node("Add", [l, oracle.constant("beta", np.float32(beta))], ["more"])
    oracle.node("Mul", [oracle.node("Mul", [g, turned], ["activated"]), more], ["y"])
    for x in (case, oracle):
        x.output("y")
    case.oracle = oracle
    return case


CASES = {"SwiGLU": swiglu, "branches": branches, "gates": gates, "FusedConv": fused_conv, "FusedGemm": fused_gemm, "FusedMatMul": fused_matmul,
         "FusedMatMulActivation": fused_matmul_activation,
         "SkipLayerNormalization": skip_layer_normalization, "EmbedLayerNormalization": embed_layer_normalization,
         "CausalConvWithState": causal_conv}

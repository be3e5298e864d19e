"""Mixtures of experts."""
import copy

import numpy as np
from onnx import numpy_helper

from .blockwise import pack
from .case import MICROSOFT, Case


def routing(draw, quantised):
    """Options, and whether fc1 holds both halves, or fc3 the other."""
    kind = draw.pick("relu", "gelu", "silu", "identity", "swiglu", "swiglu", "swiglu")
    fusion = draw.pick(1, 1 if quantised else 2) if kind == "swiglu" else 0
    options = {"k": draw.whole(1, 3), "activation_type": kind, "normalize_routing_weights": draw.pick(None, 0, 1)}
    if kind == "swiglu":
        options |= {"swiglu_fusion": fusion, "activation_alpha": draw.pick(None, 1.702),
                    "activation_beta": draw.pick(None, 1.0), "swiglu_limit": draw.pick(None, 0.7)}
    return options, 2 if fusion else 1


def experts(quantised):
    def make(draw):
        case = Case(tolerance=(1e-3, 1e-4) if not quantised else (5e-3, 5e-3))
        count, width, inner, tokens = draw.whole(3, 6), draw.pick(32, 64), draw.pick(32, 64), draw.whole(1, 6)
        options, parts = routing(draw, quantised)
        bits, block = draw.pick(4, 8), draw.pick(0, 16, 32)
        if quantised and bits == 8 and block:
            block = 0  # which ONNX Runtime computes with activations of 8 bits
        shape = draw.pick((tokens, width), (1, tokens, width))
        names = [case.input("x", draw.floats(*shape)), case.input("router", draw.floats(tokens, count))]
        zeros = []
        for name, rows, columns in (("fc1", parts * inner, width), ("fc2", width, inner)):
            if quantised:
                numbers = draw.whole(0, 2 ** bits - 1, (count, rows, columns))
                blocks = columns // block if block else None
                size = (count, rows, blocks) if block else (count, rows)
                names += [case.constant(name, pack(numbers, bits)),
                          case.constant(name + "_scale", draw.positive(*size, low=0.005, high=0.03))]
                points = draw.whole(2 ** bits // 2 - 2, 2 ** bits // 2 + 1, size)
                zeros.append(case.constant(name + "_zero", pack(points, bits)) if draw.chance(0.4) else "")
            else:
                names.append(case.constant(name, draw.floats(count, rows, columns, scale=columns ** -0.5)))
            names.append(case.constant(name + "_bias", draw.floats(count, rows) if draw.chance() else None))
        if quantised:
            names += ["", "", "", *zeros]
            if bits == 4 and not block and any(zeros):
                case.tolerance = (1e-1, 1e-1)  # where ONNX Runtime is that far from the formula that it documents
            options |= {"expert_weight_bits": bits, "block_size": block or None, "accuracy_level": 1}
        case.node("QMoE" if quantised else "MoE", names, ["y"], MICROSOFT, **options)
        case.output("y")
        if options.get("swiglu_fusion") == 2:
            case.oracle = interleaved(case)
        return case
    return make


def interleaved(case):
    """The same with gates and lines of fc1 in turns: the only form that ONNX Runtime has for CPUs."""
    oracle = copy.deepcopy(case)
    for constant in oracle.constants:
        if constant.name.startswith("fc1"):
            array = numpy_helper.to_array(constant)
            halves = np.split(array, 2, axis=1)
            constant.CopyFrom(numpy_helper.from_array(np.stack(halves, 2).reshape(array.shape), constant.name))
    for attribute in oracle.nodes[0].attribute:
        if attribute.name == "swiglu_fusion":
            attribute.i = 1
    return oracle


CASES = {"MoE": experts(False), "QMoE": experts(True)}

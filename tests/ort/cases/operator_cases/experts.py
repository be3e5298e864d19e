"""Mixtures of experts."""
import copy

import numpy as np
from onnx import TensorProto, numpy_helper

from .blockwise import pack
from .case import MICROSOFT, Case


def routing(draw, quantised):
    """Draws options, and whether fc1 holds both halves or fc3 holds the other."""
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
            block = 0  # with blocks ONNX Runtime rounds activations to 8 bits
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
            options |= {"expert_weight_bits": bits, "block_size": block or None, "accuracy_level": 1}
        case.node("QMoE" if quantised else "MoE", names, ["y"], MICROSOFT, **options)
        case.output("y")
        if options.get("swiglu_fusion") == 2:
            case.oracle = interleaved(case)
        elif quantised and bits == 4 and not block and any(zeros):
            case.oracle = in_bytes(case)
        return case
    return make


def in_bytes(case):
    """The same numbers in 8 bits. For 4 bits with zero points for whole columns, ONNX Runtime rounds weights to 4 bits again, in blocks.
    Its results are up to 0.15 off those in f64 with these weights; Rondo's are within 1e-6."""
    oracle = copy.deepcopy(case)
    node = oracle.nodes[0]
    node.input.extend([""] * (13 - len(node.input)))
    for name, zero in (("fc1", 11), ("fc2", 12)):
        for constant in oracle.constants:
            if constant.name in (name, name + "_zero"):
                array = numpy_helper.to_array(constant)
                wide = np.stack([array & 15, array >> 4], -1).reshape(*array.shape[:-1], -1)
                constant.CopyFrom(numpy_helper.from_array(wide, constant.name))
        if not node.input[zero]:
            scales = next(c for c in oracle.constants if c.name == name + "_scale")
            node.input[zero] = oracle.constant(name + "_middle", np.full(tuple(scales.dims), 8, np.uint8))
    for attribute in node.attribute:
        if attribute.name == "expert_weight_bits":
            attribute.i = 8
    return oracle


def interleaved(case):
    """The same with interleaved gate and linear rows of fc1, the only form that ONNX Runtime has on CPUs."""
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


def routed(draw, case, tokens, count, chosen):
    """Tokens, and for each its experts and their shares: both [tokens, chosen]."""
    width = draw.pick(8, 16, 32)
    x = case.input("x", draw.floats(tokens, width))
    case.constant("chosen", np.array([chosen]))
    scores = case.node("Softmax", [case.input("router", draw.floats(tokens, count))], ["scores"], axis=-1)
    case.node("TopK", [scores, "chosen"], ["shares", "numbers"], axis=-1)
    return x, width


def ints(case, name, *values):
    return case.constant(name, np.array(values, np.int64))


def tokens_of_experts(draw):
    """As PyTorch's exporters write a loop over experts: each expert finds its tokens and adds its results to theirs."""
    case = Case(tolerance=(1e-3, 1e-4))
    tokens, count = draw.whole(1, 7), draw.whole(2, 5)
    x, width = routed(draw, case, tokens, count, draw.whole(1, min(count, 3)))
    case.node("OneHot", ["numbers", ints(case, "count", count), ints(case, "values", 0, 1)], ["hot"], axis=-1)
    case.node("Transpose", ["hot"], ["by_expert"], perm=[2, 1, 0])
    total = case.constant("nothing", np.zeros((tokens, width), np.float32))
    last, adds = ints(case, "last", -1), draw.chance()
    for name, value in (("zero", 0), ("one", 1)):
        case.constant(name, np.array(value, np.int64))
    for e in range(count):
        case.node("Gather", ["by_expert", case.constant(f"e{e}", np.array(e, np.int64))], [f"mask{e}"], axis=0)
        case.node("NonZero", [case.node("Cast", [f"mask{e}"], [f"is{e}"], to=TensorProto.BOOL)], [f"found{e}"])
        slots = case.node("Gather", [f"found{e}", "zero"], [f"slots{e}"], axis=0)
        places = case.node("Gather", [f"found{e}", "one"], [f"places{e}"], axis=0)
        rows = case.node("Gather", [x, places], [f"rows{e}"], axis=0)
        y = case.node("MatMul", [rows, case.constant(f"w{e}", draw.floats(width, width, scale=width ** -0.5))], [f"y{e}"])
        if draw.chance():
            y = case.node("Add", [y, case.constant(f"b{e}", draw.floats(width))], [f"biased{e}"])
        y = case.node("Mul", [y, case.node("Sigmoid", [y], [f"gate{e}"])], [f"silu{e}"])
        pair = [case.node("Unsqueeze", [part, last], [f"{part}_1"]) for part in (places, slots)]
        at = case.node("Concat", pair, [f"at{e}"], axis=-1)
        share = case.node("Unsqueeze", [case.node("GatherND", ["shares", at], [f"share{e}"]), last], [f"share{e}_1"])
        y = case.node("Mul", [y, share], [f"shared{e}"])
        if adds:
            total = case.node("ScatterND", [total, pair[0], y], [f"total{e}"], reduction="add")
        else:
            wide = case.node("Expand", [pair[0], case.node("Shape", [y], [f"shape{e}"])], [f"wide{e}"])
            case.node("ScatterElements", ["nothing", wide, y], [f"own{e}"], axis=0)
            total = case.node("Add", [total, f"own{e}"], [f"total{e}"])
    case.output(total)
    return case


def experts_in_groups(draw):
    """As transformers' exporter writes grouped matmuls: rows are sorted by expert, and each expert has a range."""
    case = Case(tolerance=(1e-3, 1e-4))
    tokens, count = draw.whole(1, 7), draw.whole(2, 5)
    chosen = draw.whole(1, min(count, 3))
    x, width = routed(draw, case, tokens, count, chosen)
    flat, rows = ints(case, "flat", -1), tokens * chosen
    case.node("Reshape", ["numbers", flat], ["experts"])
    case.node("TopK", ["experts", ints(case, "rows", rows)], ["sorted", "order"], axis=-1, largest=0)
    case.node("Div", ["order", ints(case, "each", chosen)], ["token"])
    case.node("Gather", [x, "token"], ["a"], axis=0)
    case.node("ScatterElements", [ints(case, "none", *[0] * count), "sorted", ints(case, "ones", *[1] * rows)],
              ["counts"], reduction="add", axis=0)
    case.node("CumSum", ["counts", case.constant("zero", np.array(0, np.int64))], ["ends"])
    case.node("Split", ["ends"], [f"end{e}" for e in range(count)], num_outputs=count)
    start, parts = "zero", []
    case.constant("one", np.array(1, np.int64))
    axis = ints(case, "axis", 0)
    for e in range(count):
        end = case.node("Squeeze", [f"end{e}", axis], [f"stop{e}"])
        case.node("Range", [start, end, "one"], [f"range{e}"])
        own = case.node("Gather", ["a", f"range{e}"], [f"own{e}"], axis=0)
        weight = case.constant(f"w{e}", draw.floats(width, width, scale=width ** -0.5))
        parts.append(case.node("MatMul", [own, weight], [f"part{e}"]))
        start = end
    case.node("Concat", parts, ["grouped"], axis=0)
    share = case.node("Gather", [case.node("Reshape", ["shares", flat], ["flat_shares"]), "order"], ["share"], axis=0)
    case.node("Mul", ["grouped", case.node("Unsqueeze", [share, flat], ["share_1"])], ["weighed"])
    case.node("Range", ["zero", case.constant("end", np.array(rows, np.int64)), "one"], ["line"])
    case.node("ScatterElements", ["order", "order", "line"], ["back"], axis=0)
    case.node("Gather", ["weighed", "back"], ["unsorted"], axis=0)
    case.node("Reshape", ["unsorted", ints(case, "by_token", tokens, chosen, width)], ["shaped"])
    case.node("ReduceSum", ["shaped", ints(case, "slot", 1)], ["y"], keepdims=0)
    case.output("y")
    return case


CASES = {"MoE": experts(False), "QMoE": experts(True), "tokens of experts": tokens_of_experts,
         "experts in groups": experts_in_groups}

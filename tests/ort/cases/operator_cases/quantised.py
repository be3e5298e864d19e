"""Quantised tensors in and out. Results that are rounded to 8 bits may be one step apart."""
import numpy as np

from .case import MICROSOFT, Case, has_dot_products

ONE_STEP = (0, 1.01)


def bytes_of(draw, dtype, *shape):
    return draw.whole(0, 255, shape, np.uint8) if dtype == np.uint8 else draw.whole(-128, 127, shape, np.int8)


def weights_of(draw, dtype, *shape):
    """Without dot products of bytes, ONNX Runtime saturates sums of two products of signed weights to 16 bits, so smaller weights are
    drawn there."""
    if dtype == np.uint8 or has_dot_products():
        return bytes_of(draw, dtype, *shape)
    return draw.whole(-64, 63, shape, np.int8)


def quantised(case, draw, name, dtype, *shape, optional=False):
    """A tensor, its scale and its zero point, which may be missing."""
    zero = None if optional and draw.chance(0.2) else bytes_of(draw, dtype)
    return [case.input(name, bytes_of(draw, dtype, *shape)), *scale_of(case, draw, name, zero)]


def scale_of(case, draw, name, zero):
    return [case.constant(name + "_scale", np.float32(draw.random.uniform(0.01, 0.05))),
            case.constant(name + "_zero", np.array(zero) if zero is not None else None)]


def finish(case, name="y"):
    case.as_float(name)
    return case


def binary(op):
    def make(draw):
        case, dtype = Case(tolerance=ONE_STEP), draw.pick(np.uint8, np.int8)
        shape = [draw.whole(1, 5) for _ in range(draw.whole(1, 4))]
        other = [draw.pick(1, d) for d in shape][draw.whole(0, len(shape) - 1):]
        names = quantised(case, draw, "a", dtype, *shape) + quantised(case, draw, "b", dtype, *other)
        case.node(op, names + scale_of(case, draw, "y", bytes_of(draw, dtype)), ["y"], MICROSOFT)
        return finish(case)
    return make


def unary(op, **attributes):
    def make(draw):
        case, dtype = Case(tolerance=ONE_STEP), draw.pick(np.uint8, np.int8)
        shape = [draw.whole(1, 5) for _ in range(draw.whole(2, 4))]
        names = quantised(case, draw, "x", dtype, *shape, optional=True)
        if op == "QLinearSoftmax":
            y = [case.constant("y_scale", np.float32(1 / 256)),
                 case.constant("y_zero", np.array(0 if dtype == np.uint8 else -128, dtype))]
        else:
            y = scale_of(case, draw, "y", bytes_of(draw, dtype))
        extra = {name: value(draw, len(shape)) for name, value in attributes.items()}
        case.node(op, names + y, ["y"], MICROSOFT, **extra)
        return finish(case)
    return make


def pool(op):
    def make(draw):
        case, dtype = Case(tolerance=ONE_STEP), draw.pick(np.uint8, np.int8)
        last = draw.pick(0, 1)
        shape = [draw.whole(1, 2), draw.whole(1, 5), draw.whole(3, 8), draw.whole(3, 8)]
        shape = [shape[0], *shape[2:], shape[1]] if last else shape
        names = quantised(case, draw, "x", dtype, *shape) + scale_of(case, draw, "y", bytes_of(draw, dtype))
        extra = {} if op == "QLinearGlobalAveragePool" else {
            "kernel_shape": [2, 3], "strides": draw.pick([1, 1], [2, 1]), "pads": draw.pick([0, 0, 0, 0], [1, 1, 0, 1]),
            "count_include_pad": draw.pick(None, 1)}
        case.node(op, names, ["y"], MICROSOFT, channels_last=last, **extra)
        return finish(case)
    return make


def concat(draw):
    case, dtype = Case(tolerance=ONE_STEP), draw.pick(np.uint8, np.int8)
    shape, axis = [draw.whole(1, 4) for _ in range(3)], draw.whole(-3, 2)
    names = scale_of(case, draw, "y", bytes_of(draw, dtype))
    for part in range(draw.whole(1, 4)):
        shape[axis] = draw.whole(1, 4)
        names += quantised(case, draw, f"x{part}", dtype, *shape)
    case.node("QLinearConcat", names, ["y"], MICROSOFT, axis=axis)
    return finish(case)


def where(draw):
    case, dtype = Case(tolerance=ONE_STEP), draw.pick(np.uint8, np.int8)
    shape = [draw.whole(1, 4) for _ in range(3)]
    names = [case.input("condition", draw.whole(0, 1, shape).astype(np.bool_))]
    names += quantised(case, draw, "a", dtype, *shape) + quantised(case, draw, "b", dtype, *shape)
    case.node("QLinearWhere", names + scale_of(case, draw, "y", bytes_of(draw, dtype)), ["y"], MICROSOFT)
    return finish(case)


def conv(draw):
    case, dtype = Case(tolerance=ONE_STEP), np.uint8
    last, groups = draw.pick(0, 1), draw.pick(1, 1, 2)
    channels, outs = 2 * draw.whole(1, 3), 2 * draw.whole(1, 4)
    shape = [draw.whole(1, 2), channels, draw.whole(4, 7), draw.whole(4, 7)]
    shape = [shape[0], *shape[2:], shape[1]] if last else shape
    kind = draw.pick(np.uint8, np.int8)
    names = quantised(case, draw, "x", dtype, *shape)
    names += [case.constant("w", weights_of(draw, kind, outs, channels // groups, 3, 3)),
              case.constant("w_scale", draw.positive(*draw.pick((), (outs,)), low=0.001)),
              case.constant("w_zero", np.array(draw.whole(100, 140), np.uint8) if kind == np.uint8 else np.array(0, np.int8))]
    names += [case.constant("y_scale", np.float32(draw.random.uniform(0.1, 0.5))),
              case.constant("y_zero", np.array(draw.whole(100, 150), np.uint8)),
              case.constant("bias", draw.whole(-500, 500, (outs,), np.int32) if draw.chance() else None)]
    case.node("QLinearConv", names, ["y"], MICROSOFT, channels_last=last, group=groups,
              pads=draw.pick(None, [1, 1, 1, 1]), strides=draw.pick(None, [2, 2]))
    return finish(case)


def matmul_integer_to_float(draw):
    case, kind, weight = Case(tolerance=(1e-4, 1e-3)), draw.pick(np.uint8, np.int8), draw.pick(np.uint8, np.int8)
    weight = np.int8 if kind == np.int8 else weight
    k, n = draw.whole(1, 40), draw.whole(1, 20)
    rows = draw.pick((3,), (2, 4))
    columns = draw.pick((), (n,))
    names = [case.input("a", bytes_of(draw, kind, *rows, k)), case.either(draw, "b", weights_of(draw, weight, k, n)),
             case.constant("a_scale", np.float32(0.02)), case.constant("b_scale", draw.positive(*columns)),
             case.constant("a_zero", bytes_of(draw, kind) if draw.chance() else None),
             case.constant("b_zero", bytes_of(draw, weight, *columns) if draw.chance() else None),
             case.constant("bias", draw.floats(n) if draw.chance() else None)]
    case.node("MatMulIntegerToFloat", names, ["y"], MICROSOFT)
    case.output("y")
    return case


def dynamic_quantize_matmul(draw):
    case, weight = Case(tolerance=(1e-3, 1e-2)), draw.pick(np.uint8, np.int8)
    k, n = draw.whole(1, 40), draw.whole(1, 20)
    columns = draw.pick((), (n,))
    names = [case.input("a", draw.floats(*draw.pick((3,), (2, 4)), k)), case.constant("b", weights_of(draw, weight, k, n)),
             case.constant("b_scale", draw.positive(*columns)),
             case.constant("b_zero", bytes_of(draw, weight, *columns) if draw.chance() else None),
             case.constant("bias", draw.floats(n) if draw.chance() else None)]
    case.node("DynamicQuantizeMatMul", names, ["y"], MICROSOFT)
    case.output("y")
    return case


def qgemm(draw):
    kind = draw.pick(np.uint8, np.int8)
    weight = np.int8 if kind == np.int8 else draw.pick(np.uint8, np.int8)
    rounded = draw.chance()
    case = Case(tolerance=ONE_STEP if rounded else (1e-4, 1e-3))
    m, k, n = draw.whole(1, 6), draw.whole(1, 30), draw.whole(1, 9)
    turn_a, turn_b = draw.pick(None, 1), draw.pick(None, 1)
    columns = draw.pick((), (n,))
    names = [case.input("a", bytes_of(draw, kind, *((k, m) if turn_a else (m, k)))), case.constant("a_scale", np.float32(0.03)),
             case.constant("a_zero", bytes_of(draw, kind)),
             case.constant("b", weights_of(draw, weight, *((n, k) if turn_b else (k, n)))),
             case.constant("b_scale", draw.positive(*columns)), case.constant("b_zero", bytes_of(draw, weight, *columns)),
             case.constant("c", draw.whole(-900, 900, draw.pick((n,), (1, n), (m, n)), np.int32) if draw.chance() else None)]
    if rounded:
        names += [case.constant("y_scale", np.float32(1.5)), case.constant("y_zero", bytes_of(draw, kind))]
    case.node("QGemm", names, ["y"], MICROSOFT, transA=turn_a, transB=turn_b, alpha=draw.pick(None, 0.5))
    return finish(case)


def qattention(draw):
    case, weight = Case(tolerance=(1e-3, 1e-3)), draw.pick(np.uint8, np.int8)
    batch, rows, heads, size, width = draw.whole(1, 3), draw.whole(1, 5), draw.whole(1, 3), 8, 16
    before = draw.pick(0, 0, 4)
    columns = draw.pick((), (3 * heads * size,))
    names = [case.input("input", bytes_of(draw, np.uint8, batch, rows, width)),
             case.constant("weight", weights_of(draw, weight, width, 3 * heads * size)),
             case.constant("bias", draw.floats(3 * heads * size)), case.constant("input_scale", np.float32(0.01)),
             case.constant("weight_scale", draw.positive(*columns, low=0.002, high=0.006)),
             case.input("mask", draw.whole(1, rows, (batch,), np.int32) if not before and draw.chance() else None),
             case.constant("input_zero", np.array(128, np.uint8)),
             case.constant("weight_zero", np.full(columns, 120 if weight == np.uint8 else 3, weight)),
             case.input("past", draw.floats(2, batch, heads, before, size) if before else None)]
    outputs = ["y"] + (["present"] if before else [])
    case.node("QAttention", names, outputs, MICROSOFT, num_heads=heads, unidirectional=draw.pick(None, 1))
    for name in outputs:
        case.output(name)
    return case


def dynamic_quantize_lstm(draw):
    case = Case()
    steps, batch, width, hidden = draw.pick(draw.whole(1, 6), 20), draw.whole(1, 3), draw.pick(draw.whole(2, 8), 40), draw.pick(
        draw.whole(2, 8), 32)
    direction = draw.pick("forward", "reverse", "bidirectional")
    two = 2 if direction == "bidirectional" else 1
    each, kind = draw.chance(), draw.pick(np.int8, np.uint8)
    names = [case.input("x", draw.floats(steps, batch, width))]
    scales = []
    for name, rows in (("W", width), ("R", hidden)):
        names.append(case.constant(name, weights_of(draw, kind, two, rows, 4 * hidden)))
        shape = (two, 4 * hidden) if each else (two,)
        scales += [case.constant(name + "_scale", draw.positive(*shape, low=0.002, high=0.004)),
                   case.constant(name + "_zero", np.full(shape, 120 if kind == np.uint8 else 0, kind))]
    lengths = np.r_[steps, draw.whole(1, steps, (batch - 1,))].astype(np.int32) if draw.chance(0.3) else None
    # Among many sums one may round to the other side. Going backward, ONNX Runtime rounds states that are equally far from each
    # row's own end together; Rondo rounds states of the same time together.
    apart = 2e-2 if lengths is not None and direction != "forward" and batch > 1 else 3e-3 if steps > 6 else 1e-4
    case.tolerance = (apart, apart)
    names += [case.constant("B", draw.floats(two, 8 * hidden) if draw.chance() else None), case.input("lengths", lengths),
              *(case.input(f"initial_{state}", draw.floats(two, batch, hidden) if draw.chance(0.3) else None) for state in "hc"),
              case.constant("P", draw.floats(two, 3 * hidden) if draw.chance(0.3) else None)]
    case.node("DynamicQuantizeLSTM", names + scales, ["y", "y_h", "y_c"], MICROSOFT, hidden_size=hidden, direction=direction)
    for name in ("y", "y_h", "y_c"):
        case.output(name)
    return case


CASES = {
    "QLinearAdd": binary("QLinearAdd"), "QLinearMul": binary("QLinearMul"), "QLinearSigmoid": unary("QLinearSigmoid"),
    "QLinearLeakyRelu": unary("QLinearLeakyRelu", alpha=lambda draw, rank: draw.pick(0.1, 0.3)),
    "QLinearSoftmax": unary("QLinearSoftmax", opset=lambda draw, rank: draw.pick(11, 13),
                            axis=lambda draw, rank: draw.pick(None, draw.whole(-rank, rank - 1))),
    "QLinearAveragePool": pool("QLinearAveragePool"), "QLinearGlobalAveragePool": pool("QLinearGlobalAveragePool"),
    "QLinearConcat": concat, "QLinearWhere": where, "QLinearConv": conv,
    "MatMulIntegerToFloat": matmul_integer_to_float, "DynamicQuantizeMatMul": dynamic_quantize_matmul, "QGemm": qgemm,
    "QAttention": qattention, "DynamicQuantizeLSTM": dynamic_quantize_lstm,
}

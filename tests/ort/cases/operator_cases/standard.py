"""Operators of ai.onnx in exported language models and quantised models."""
import numpy as np
from onnx import TensorProto

from .blockwise import narrow
from .case import MICROSOFT, Case
from .quantised import ONE_STEP, bytes_of, finish, weights_of


def attention(draw):
    opset = draw.pick(23, 24)
    dtype = draw.pick(np.float32, np.float32, np.float16)
    case = Case(opset, (1e-3, 3e-5) if dtype == np.float32 else (2e-2, 1e-2))
    batch, rows, groups, size = draw.whole(1, 3), draw.pick(1, 2, 5, 33), draw.whole(1, 3), draw.pick(2, 8, 16, 64)
    heads, value, past = groups * draw.whole(1, 3), draw.pick(size, 5), draw.pick(None, None, 0, 1, 7)
    # With a past and a different number of keys, runtimes differ in what is causal.
    keys = draw.pick(rows, rows, 1, 6, 40) if past is None else rows
    total = keys + (past or 0)
    joined = draw.chance()

    def heads_of(length, count, features):
        x = draw.floats(batch, length, count, features, dtype=dtype)
        return x.reshape(batch, length, -1) if joined else x.transpose(0, 2, 1, 3).copy()

    names = [case.input("q", heads_of(rows, heads, size)), case.input("k", heads_of(keys, groups, size)),
             case.input("v", heads_of(keys, groups, value)), case.input("mask", mask_of(draw, batch, heads, rows, total, dtype))]
    caches = [None if past is None else draw.floats(batch, groups, past, n, dtype=dtype) for n in (size, value)]
    names += [case.input(name, cache) for name, cache in zip(("past_k", "past_v"), caches)]
    if opset == 24 and past is None and draw.chance(0.4):
        names.append(case.input("real", draw.whole(1, total, (batch,))))
    outputs = ["y"] + (["present_k", "present_v"] if past is not None else [])
    case.node("Attention", names, outputs, is_causal=draw.pick(None, 0, 1), scale=draw.pick(None, 0.3),
              softcap=draw.pick(None, 0.0, 3.0), q_num_heads=heads if joined else None,
              kv_num_heads=groups if joined else None)
    for name in outputs:
        case.as_float(name)
    return case


def mask_of(draw, batch, heads, rows, keys, dtype):
    """A mask in any shape that broadcasts; some rows may drop every key."""
    kind = draw.pick(None, np.bool_, dtype)
    shape = draw.pick((rows, keys), (1, keys), (keys,), (heads, rows, keys), (1, 1, rows, keys), (batch, 1, 1, keys),
                      (batch, 1, rows, keys), (1, heads, rows, keys), (batch, heads, rows, keys))
    dropped = draw.whole(0, 1, shape).astype(np.bool_)
    if draw.chance(0.7):
        dropped[..., 0] = False
    if kind is np.bool_:
        return ~dropped
    return None if kind is None else np.where(dropped, -np.inf, draw.floats(*shape)).astype(dtype)


def rotary_embedding(draw):
    microsoft, dtype = draw.chance(), draw.pick(np.float32, np.float16)
    case = Case(23, (1e-3, 1e-5) if dtype == np.float32 else (1e-2, 5e-3))
    batch, rows, heads, size = draw.whole(1, 3), draw.whole(1, 6), draw.whole(1, 4), draw.pick(8, 16, 32, 64)
    apart, part = draw.chance(), draw.chance(0.4)
    rotated, most = draw.pick(2, 4, 6, 8) if part else size, rows + 10
    x = case.input("x", draw.floats(*((batch, heads, rows, size) if apart else (batch, rows, heads * size)), dtype=dtype))
    form = draw.pick("first", "each") if microsoft else draw.pick("each", "none")
    table = (batch, rows) if form == "none" else (most,)
    angles = [case.either(draw, name, draw.floats(*table, rotated // 2, dtype=dtype)) for name in ("cosine", "sine")]
    places = {"first": lambda: draw.whole(0, 10, (1,)), "each": lambda: draw.whole(0, most - 1, (batch, rows)),
              "none": lambda: None}[form]()
    places = case.input("positions", places)
    case.node("RotaryEmbedding", [x, places, *angles] if microsoft else [x, *angles, places], ["y"],
              MICROSOFT if microsoft else "", interleaved=draw.pick(None, 0, 1),
              num_heads=heads if part or not (apart or microsoft) else draw.pick(None, heads),
              rotary_embedding_dim=rotated if part else None)
    case.as_float("y")
    return case


# ------------------------------------------------------------------------------------- quantisation

NUMBERS = {TensorProto.UINT8: (0, 255), TensorProto.INT8: (-128, 127), TensorProto.UINT16: (0, 65535),
           TensorProto.INT16: (-32768, 32767), TensorProto.UINT4: (0, 15), TensorProto.INT4: (-8, 7)}
WIDE = {TensorProto.UINT8: np.uint8, TensorProto.INT8: np.int8, TensorProto.UINT16: np.uint16, TensorProto.INT16: np.int16}


def integers(case, name, data_type, numbers):
    """A constant of any of NUMBERS."""
    if data_type in WIDE:
        return case.constant(name, np.asarray(numbers, WIDE[data_type]))
    return narrow(case, name, np.asarray(numbers), data_type)


def scales_for(draw, shape):
    """The shape of scales for a tensor of `shape`, and the attributes for it."""
    axis, form = draw.whole(-len(shape), len(shape) - 1), draw.pick("one", "each", "blocks")
    if form == "one":
        return (), {}
    if form == "each":
        return (shape[axis],), {"axis": axis}
    block, scales = draw.pick(1, 2, 3, 4, 16, 64), list(shape)
    scales[axis] = -(-shape[axis] // block)
    return tuple(scales), {"axis": axis, "block_size": block}


def zero_points(draw, data_type, shape):
    low, high = NUMBERS[data_type]
    return np.asarray(draw.whole(max(low, -1000), min(high, 1000), shape if shape else (1,))).reshape(shape)


def quantize_dequantize(draw):
    data_type = draw.pick(*NUMBERS)
    case = Case(draw.pick(21, 23, 24), (1e-3, 1e-5))
    shape = [draw.pick(1, 2, 5, 7, 16, 33) for _ in range(draw.whole(1, 4))]
    scales, attributes = scales_for(draw, shape)
    zero = zero_points(draw, data_type, scales) if draw.chance(0.7) else None
    with_scale = [case.either(draw, "scale", draw.positive(*scales, low=0.02, high=0.5).reshape(scales)),
                  "" if zero is None else integers(case, "zero", data_type, zero)]
    case.node("QuantizeLinear", [case.input("x", draw.floats(*shape, scale=draw.pick(1, 5, 100))), *with_scale], ["q"],
              output_dtype=data_type if zero is None else None, **attributes)
    case.node("DequantizeLinear", ["q", *with_scale], ["y"], **attributes)
    case.output("y")
    return case


def dequantized_weight(draw):
    """A stored weight in any form, read by a matmul and perhaps by another node."""
    data_type = draw.pick(*NUMBERS)
    case = Case(tolerance=(1e-3, 2e-4))
    low, high = NUMBERS[data_type]
    k, n, turned, lead = draw.pick(1, 5, 16, 33, 64, 130), draw.pick(1, 3, 16, 17, 48), draw.chance(), draw.pick((), (), (2,))
    shape = (*lead, n, k) if turned else (*lead, k, n)
    scales, attributes = scales_for(draw, shape)
    names = [integers(case, "w", data_type, draw.whole(low, high, shape)),
             case.constant("scale", (draw.positive(*scales, low=-5, high=5) / (high - low)).astype(np.float32).reshape(scales))]
    if draw.chance(0.6):
        names.append(integers(case, "zero", data_type, zero_points(draw, data_type, scales)))
    last = case.node("DequantizeLinear", names, ["wide"], **attributes)
    if turned:
        last = case.node("Transpose", [last], ["turned"], perm=[*range(len(lead)), len(lead) + 1, len(lead)])
    case.node("MatMul", [case.input("x", draw.floats(draw.pick(1, 2, 9, 17, 70), k)), last], ["y"])
    case.output("y")
    if draw.chance(0.2):
        case.node("Neg", [last], ["negative"])
        case.output("negative")
    return case


def rows_of_a_table(draw):
    """A quantised embedding whose rows are looked up; perhaps a matmul reads it as well."""
    data_type = draw.pick(*NUMBERS)
    case = Case(tolerance=(1e-3, 2e-4))
    low, high = NUMBERS[data_type]
    shape = (draw.pick(2, 17, 40, 300), draw.pick(1, 5, 16, 33, 96))
    scales, attributes = scales_for(draw, shape)
    names = [integers(case, "table", data_type, draw.whole(low, high, shape)),
             case.constant("scale", (draw.positive(*scales, low=-5, high=5) / (high - low)).astype(np.float32).reshape(scales))]
    if draw.chance():
        names.append(integers(case, "zero", data_type, zero_points(draw, data_type, scales)))
    wide = case.node("DequantizeLinear", names, ["wide"], **attributes)
    axis = draw.pick(0, 0, 1)
    index = draw.whole(-shape[axis], shape[axis] - 1, draw.pick((1,), (2, 3), (70,)))
    rows = case.node("Gather", [wide, case.input("index", index)], ["rows"], axis=axis)
    case.output(rows)
    if axis == 0 and draw.chance(0.4):
        case.node("MatMul", [rows, case.node("Transpose", [wide], ["turned"], perm=[1, 0])], ["scores"])
        case.output("scores")
    return case


def matmul_integer(draw):
    case, kinds = Case(tolerance=(0, 0)), [draw.pick(np.uint8, np.int8) for _ in range(2)]
    m, k, n = draw.pick(1, 2, 17, 70), draw.pick(1, 3, 32, 65, 300), draw.pick(1, 5, 16, 70)
    lead = draw.pick((), (2,), (2, 3))
    batch = draw.pick((), lead)
    names = [case.input("a", bytes_of(draw, kinds[0], *lead, m, k)), case.either(draw, "b", weights_of(draw, kinds[1], *batch, k, n)),
             case.constant("a_zero", np.asarray(bytes_of(draw, kinds[0])) if draw.chance() else None),
             case.constant("b_zero", np.asarray(bytes_of(draw, kinds[1], *draw.pick((), (1,), () if batch else (n,)))))]
    case.node("MatMulInteger", names, ["y"])
    case.output("y", np.int32)
    return case


def conv_integer(draw):
    case, kinds = Case(tolerance=(0, 0)), [draw.pick(np.uint8, np.int8) for _ in range(2)]
    groups, spatial = draw.pick(1, 1, 2, 4), draw.pick(1, 2, 2)
    channels, outs = groups * draw.whole(1, 4), groups * draw.whole(1, 3)
    names = [case.input("x", weights_of(draw, kinds[0], draw.whole(1, 2), channels, *draw.whole(5, 9, (spatial,)))),
             case.either(draw, "w", weights_of(draw, kinds[1], outs, channels // groups, *draw.whole(1, 3, (spatial,)))),
             case.constant("x_zero", np.asarray(weights_of(draw, kinds[0])) if draw.chance() else None),
             case.constant("w_zero", np.asarray(bytes_of(draw, kinds[1])) if draw.chance() else None)]
    case.node("ConvInteger", names, ["y"], group=groups, pads=draw.pick(None, [1] * 2 * spatial),
              strides=draw.pick(None, [2] * spatial), dilations=draw.pick(None, [2] * spatial))
    case.output("y", np.int32)
    return case


def qlinear_matmul(draw):
    case, kind = Case(tolerance=ONE_STEP), draw.pick(np.uint8, np.int8)
    weight = draw.pick(np.uint8, np.int8) if kind == np.uint8 else np.int8
    m, k, n = draw.pick(1, 2, 17, 70), draw.pick(1, 3, 32, 65), draw.pick(1, 5, 16, 70)
    lead = draw.pick((), (2,), (2, 3))
    batch = draw.pick((), lead)
    columns = () if batch else draw.pick((), (1,), (n,))
    names = [case.input("a", bytes_of(draw, kind, *lead, m, k)), case.constant("a_scale", np.float32(0.02)),
             case.constant("a_zero", np.asarray(bytes_of(draw, kind))), case.either(draw, "b", weights_of(draw, weight, *batch, k, n)),
             case.constant("b_scale", np.asarray(draw.positive(*columns))), case.constant("b_zero", np.asarray(bytes_of(draw, weight, *columns))),
             case.constant("y_scale", np.float32(0.5)), case.constant("y_zero", np.asarray(bytes_of(draw, kind)))]
    case.node("QLinearMatMul", names, ["y"])
    return finish(case)


def many_dims(draw):
    """9 to 12 dims: transposed, added with broadcasting, sliced, concatenated and reduced. Rondo's limit is 12."""
    case = Case(21)
    rank = draw.whole(9, 12)
    shape = [draw.pick(1, 1, 2, 2, 3) for _ in range(rank)]
    x = case.input("x", draw.floats(*shape))
    order = [int(axis) for axis in draw.random.permutation(rank)]
    case.node("Transpose", [x], ["turned"], perm=order)
    shape = [shape[axis] for axis in order]
    other = case.input("other", draw.floats(*[extent if draw.chance() else 1 for extent in shape[draw.whole(0, 3):]]))
    case.node("Add", ["turned", other], ["sum"])
    axis = draw.whole(0, rank - 1)
    case.node("Concat", ["sum", "turned"], ["joined"], axis=axis)
    case.node("Slice", ["joined", case.constant("from", np.array([1])), case.constant("to", np.array([9])),
                        case.constant("axis", np.array([axis]))], ["cut"])
    case.node("Softmax", ["cut"], ["soft"], axis=draw.whole(-rank, rank - 1))
    axes = sorted(int(axis) for axis in draw.random.choice(rank, draw.whole(1, 4), replace=False))
    case.node(draw.pick("ReduceSum", "ReduceMax"), ["soft", case.constant("axes", np.array(axes))], ["reduced"],
              keepdims=draw.pick(0, 1))
    for name in ("cut", "reduced"):
        case.as_float(name)
    return case


CASES = {"Attention of ai.onnx": attention, "9 to 12 dims": many_dims, "RotaryEmbedding": rotary_embedding,
         "QuantizeLinear and DequantizeLinear": quantize_dequantize, "DequantizeLinear of a weight": dequantized_weight,
         "rows of a dequantised table": rows_of_a_table,
         "MatMulInteger": matmul_integer, "ConvInteger": conv_integer, "QLinearMatMul": qlinear_matmul}

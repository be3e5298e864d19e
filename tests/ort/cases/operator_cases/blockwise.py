"""Weights of 2, 4 and 8 bits in blocks."""
import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from .case import MICROSOFT, Case


def pack(numbers, bits):
    """Packs small numbers [..., n] into [..., ceil(n * bits / 8)] bytes, the first in the lowest bits."""
    each = 8 // bits
    short = -numbers.shape[-1] % each
    wide = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, short)]).astype(np.uint32)
    wide = wide.reshape(*numbers.shape[:-1], -1, each)
    return sum(wide[..., i] << (i * bits) for i in range(each)).astype(np.uint8)


def matmul_nbits(draw):
    dtype = draw.pick(np.float32, np.float32, np.float16)
    case = Case(tolerance=(1e-3, 1e-4) if dtype == np.float32 else (2e-2, 2e-2))
    bits, block = draw.pick(2, 4, 4, 8), draw.pick(16, 32, 64, 128, 256)
    k, n = draw.pick(1, 16, 33, 40, 64, 100, 128, 129, 256), draw.pick(draw.whole(1, 40), 130)
    rows = draw.pick((1,), (3,), (70,), (1, 1), (2, 5), (2, 1, 3))
    level = draw.pick(None, 0, 1, 2, 3, 4)
    if level == 4:  # ONNX Runtime rounds activations to 8 bits in blocks; numbers are up to 4, weights up to 0.1 * 2^bits
        case.tolerance = (5e-2, 4 * 4 / 254 * k ** 0.5 * 0.05 * 2 ** bits)
    blocks = -(-k // block)
    a = case.input("A", draw.floats(*rows, k, dtype=dtype))
    weights = draw.whole(0, 2 ** bits - 1, (n, blocks, block))
    names = [a, case.constant("B", pack(weights, bits)),
             case.constant("scales", draw.positive(*draw.pick((n, blocks), (n * blocks,)), dtype=dtype))]
    zero = draw.pick(None, "packed", "packed", "plain")
    if zero == "packed":
        points = pack(draw.whole(0, 2 ** bits - 1, (n, blocks)), bits)
        names.append(case.constant("zero_points", points.reshape(draw.pick((n, -1), (-1,)))))
    elif zero == "plain":
        names.append(case.constant("zero_points", draw.positive(n, blocks, high=2 ** bits - 1, dtype=dtype)))
    else:
        names.append("")
    groups = draw.random.permutation(np.arange(k) // block).astype(np.int32)
    # With g_idx and zero points, ONNX Runtime's CPU provider takes the middle of the range for every zero point.
    names.append(case.constant("g_idx", groups) if zero is None and bits != 2 and draw.chance(0.7) else "")
    names += [case.constant("bias", draw.floats(n, dtype=dtype) if draw.chance(0.4) else None)]
    case.node("MatMulNBits", names, ["Y"], MICROSOFT, bits=bits, block_size=block, N=n, K=k,
              accuracy_level=draw.pick(None, 1))
    case.as_float("Y")
    return case


def narrow(case, name, numbers, data_type):
    raw = pack((numbers.reshape(-1) % 16)[None], 4)[0].tobytes()
    case.constants.append(helper.make_tensor(name, data_type, numbers.shape, raw, raw=True))
    return name


def index_into(draw, size):
    """Indices, also negative ones, and sometimes one out of range, which gives zeros."""
    index = draw.whole(-size, size - 1, draw.pick((3,), (2, 2), (1,), ()), draw.pick(np.int32, np.int64))
    return np.where(draw.random.random(np.shape(index)) < 0.1, draw.pick(size, -size - 1), index).astype(np.asarray(index).dtype)


FLOATS = {TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
          TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz, TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
          TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn}


def gather_floats(draw, case, dtype, gather, quantize, shape):
    """A table of FP8 or FP4, perhaps with a single block along its axis and one scale for all other axes."""
    case.opset = 23
    data_type, block = draw.pick(*FLOATS), draw.pick(0, 16, 32)
    blocks = [draw.pick(1, n) for n in shape]
    blocks[quantize] = -(-shape[quantize] // block) if block else 1
    numbers = draw.floats(*shape, scale=2).astype(FLOATS[data_type])
    codes = numbers.view(np.uint8)
    raw = pack(codes.reshape(1, -1), 4) if data_type == TensorProto.FLOAT4E2M1 else codes
    case.constants.append(helper.make_tensor("data", data_type, shape, raw.tobytes(), raw=True))
    case.node("GatherBlockQuantized", ["data", case.input("indices", index_into(draw, shape[gather])),
                                       case.constant("scales", draw.positive(*blocks, dtype=dtype))], ["output"], MICROSOFT,
              block_size=block, gather_axis=gather, quantize_axis=quantize)
    case.as_float("output")
    return case


def gather_block_quantized(draw):
    dtype = draw.pick(np.float32, np.float16)
    case = Case(tolerance=(1e-3, 1e-5) if dtype == np.float32 else (1e-2, 1e-2))
    form = draw.pick("bytes", "bytes", "uint4", "int4")
    bits = draw.pick(2, 4, 8) if form == "bytes" else 4
    block = draw.pick(16, 32)
    rank = draw.pick(2, 2, 3)
    gather = 0 if form == "bytes" else draw.whole(0, rank - 1)
    quantize = draw.pick(*[axis for axis in range(rank) if axis != gather])
    shape = [draw.whole(2, 6) for _ in range(rank)]
    shape[-1] = draw.pick(16, 48, 64)
    if quantize != rank - 1:
        shape[quantize] = draw.whole(1, 40)
    if draw.chance(0.3):
        return gather_floats(draw, case, dtype, gather, quantize, shape)
    blocks = list(shape)
    blocks[quantize] = -(-shape[quantize] // block)
    low, high = (-8, 7) if form == "int4" else (0, 2 ** bits - 1)
    numbers, points = draw.whole(low, high, shape), draw.whole(low, high, blocks)
    names = []
    for name, values in (("data", numbers), ("zero_points", points)):
        if name == "zero_points" and draw.chance():
            names.append("")
        elif form == "bytes":
            names.append(case.constant(name, pack(values, bits)))
        else:
            names.append(narrow(case, name, values, TensorProto.INT4 if form == "int4" else TensorProto.UINT4))
    index = index_into(draw, shape[gather])
    case.node("GatherBlockQuantized", [names[0], case.input("indices", index),
                                       case.constant("scales", draw.positive(*blocks, dtype=dtype)), names[1]],
              ["output"], MICROSOFT, bits=bits if form == "bytes" else None, block_size=block,
              gather_axis=gather, quantize_axis=quantize)
    case.as_float("output")
    return case


def dequantize_narrow(draw):
    case = Case()
    form, bits = draw.pick(TensorProto.INT4, TensorProto.UINT4), 4
    low = -8 if form == TensorProto.INT4 else 0
    rows, columns, block = draw.whole(1, 40), draw.whole(1, 9), draw.pick(0, 0, 16)
    scales = (-(-rows // block), columns) if block else (columns,)
    numbers = [draw.whole(low, low + 15, shape) for shape in ((rows, columns), scales)]
    names = [narrow(case, "w", numbers[0], form), case.constant("scales", draw.positive(*scales))]
    if draw.chance():
        names.append(narrow(case, "zero_points", numbers[1], form))
    case.node("DequantizeLinear", names, ["wide"], axis=0 if block else 1, block_size=block or None)
    case.node("MatMul", [case.input("x", draw.floats(2, rows)), "wide"], ["y"])
    case.output("y")
    return case


CASES = {"MatMulNBits": matmul_nbits, "GatherBlockQuantized": gather_block_quantized,
         "DequantizeLinear of 4 bits": dequantize_narrow}

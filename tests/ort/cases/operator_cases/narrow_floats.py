"""FLOAT8E8M0, and weights of FP4 and FP8 in blocks."""
import copy

import ml_dtypes
import numpy as np
from onnx import TensorProto

from .case import MICROSOFT, Case

FP4, E4M3, E8M0 = ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu


def cast_to_powers(draw):
    """Numbers close to powers of two, and far from them; also negative numbers and 0 if ONNX Runtime defines their result."""
    case = Case(24, (0, 0))
    powers = np.ldexp(np.float32(1), draw.whole(-126, 127, (64,), np.int32))
    x = np.nextafter(powers, np.where(draw.whole(0, 1, (64,)) == 1, np.float32(np.inf), np.float32(0)))
    x = np.concatenate([powers, x, powers * draw.positive(64, low=0.5, high=2), [0, np.inf, np.nan, -1, 2.0**-127]])
    case.node("Cast", [case.input("x", x.astype(np.float32))], ["powers"], to=TensorProto.FLOAT8E8M0,
              round_mode=draw.pick(None, "up", "down", "nearest"), saturate=draw.pick(None, 0, 1))
    case.as_float("powers")
    return case


def powers_as_scales(draw):
    """ONNX Runtime has no kernel for E8M0 scales, so it gets the same scales in f32."""
    case = Case(24, (1e-5, 1e-3))
    rows, columns = draw.whole(1, 48), 32 * draw.whole(1, 4)
    scales = np.ldexp(np.float32(1), draw.whole(-6, 3, (rows, columns // 32), np.int32))
    blocks = {"axis": 1, "block_size": 32}
    weight = draw.chance()
    q = draw.floats(rows, columns, scale=2).astype(FP4)
    if weight:
        case.constant("q", q)
    else:
        case.input("x", draw.floats(rows, columns, scale=3))
        case.node("QuantizeLinear", ["x", "scales"], ["q"], output_dtype=TensorProto.INT8, **blocks)
    case.node("DequantizeLinear", ["q", "scales"], ["wide"], output_dtype=TensorProto.FLOAT, **blocks)
    if weight:
        case.node("Transpose", ["wide"], ["turned"])
        case.node("MatMul", [case.input("a", draw.floats(draw.whole(1, 5), columns)), "turned"], ["y"])
    case.output("y" if weight else "wide")
    case.oracle = copy.deepcopy(case)
    if weight:
        case.oracle.constants.clear()
        case.oracle.nodes.pop(0)
        case.oracle.constant("wide", q.astype(np.float32) * np.repeat(scales, 32, 1))
    else:
        case.oracle.constant("scales", scales)
    case.constant("scales", scales.astype(E8M0))
    return case


def floats_of(draw, shape, dtype):
    return draw.floats(*shape).astype(dtype)


def packed(codes):
    """Packs two FP4 numbers in a byte, the first in the low bits."""
    codes = codes.view(np.uint8)
    return codes[..., 0::2] | codes[..., 1::2] << 4


def experts(draw):
    """Experts in FP4, NVFP4 and FP8, compared with MoE with the same numbers, because ONNX Runtime has them only on GPUs."""
    case, plain = Case(tolerance=(1e-3, 1e-4)), Case()
    kind, count, tokens = draw.pick("fp4", "nvfp4", "fp8"), draw.whole(2, 4), draw.whole(1, 6)
    width, inner = 32 * draw.whole(1, 3), 32 * draw.whole(1, 3)
    square = draw.pick(0, 16, 64) if kind == "fp8" else 0
    by_rows = kind == "nvfp4" and draw.chance()
    options = {"k": draw.whole(1, 2), "activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": draw.pick(None, 1.702),
               "swiglu_limit": draw.pick(None, 0.7), "normalize_routing_weights": 1}
    for one in (case, plain):
        one.inputs = {"x": draw.floats(tokens, width), "router": draw.floats(tokens, count)} if one is case else dict(case.inputs)
    names, plain_names, of_experts = ["x", "router"], ["x", "router"], []
    for layer, rows, columns in (("fc1", 2 * inner, width), ("fc2", width, inner)):
        codes = floats_of(draw, (count, rows, columns), E4M3 if kind == "fp8" else FP4)
        size = square or (columns if kind == "fp8" else 32 if kind == "fp4" else 16)
        lines = -(-rows // square) if square else rows
        scales = draw.positive(count, lines, -(-columns // size), low=0.02, high=0.2)
        scales = scales.astype(E8M0 if kind == "fp4" else E4M3 if kind == "nvfp4" else np.float32)
        one_each = draw.positive(count, low=0.5, high=1.5)
        of_blocks, of_each = kind != "fp8" or square, kind != "fp8" or not square
        numbers = codes.astype(np.float32)
        if of_blocks:
            wide = np.repeat(scales.astype(np.float32), size, 2)[:, :, :columns]
            numbers = numbers * (np.repeat(wide, square, 1)[:, :rows] if square else wide)
        if of_each:
            numbers = numbers * one_each[:, None, None] * (1 if of_blocks else 0.1)
            one_each = one_each * np.float32(1 if of_blocks else 0.1)
        laid = codes if kind == "fp8" else packed(codes if by_rows else codes.swapaxes(1, 2).copy())
        if by_rows:  # the dims keep the other order
            laid = laid.reshape(count, columns, rows // 2)
        bias = draw.floats(count, rows) if draw.chance() else None
        names += [case.constant(layer, laid), case.constant(layer + "_scales", scales if of_blocks else None),
                  case.constant(layer + "_bias", bias)]
        of_experts.append(case.constant(layer + "_all", one_each if of_each else None))
        plain_names += [plain.constant(layer, numbers.astype(np.float32)), plain.constant(layer + "_bias", bias)]
    names += [""] * (15 - len(names)) + of_experts
    case.node("QMoE", names, ["y"], MICROSOFT, quant_type=kind, expert_weight_bits=8 if kind == "fp8" else 4,
              block_size=square or None, weights_prepacked=1 if by_rows else None, **options)
    plain.node("MoE", plain_names, ["y"], MICROSOFT, **options)
    for one in (case, plain):
        one.output("y")
    case.oracle = plain
    return case


def products(draw):
    """MatMulBlockQuantizedFp4Weight and ...Fp8Weight compared with MatMul, in f16 like the operators."""
    case, plain = Case(tolerance=(1e-2, 2e-2)), Case()
    fp4, n, k = draw.chance(), draw.whole(1, 80), 2 * draw.whole(1, 80)
    block = draw.pick(16, 32, 64)
    codes = floats_of(draw, (n, k), FP4 if fp4 else E4M3)
    scales = draw.positive(n, -(-k // block), low=0.05, high=0.2).astype(E4M3 if fp4 else np.float32)
    numbers = codes.astype(np.float32) * np.repeat(scales.astype(np.float32), block, 1)[:, :k] * (0.5 if fp4 else 1)
    a, bias = draw.floats(draw.whole(1, 5), k, dtype=np.float16), draw.floats(n, dtype=np.float16) if draw.chance() else None
    of_a = None if fp4 or draw.chance() else np.float32(0.125)
    names = [case.input("a", a), case.constant("b", packed(codes) if fp4 else codes),
             case.constant("scales", scales.view(np.uint8) if fp4 else scales)]
    names += [case.constant("all", np.float32(0.5)), ""] if fp4 else [case.constant("of_a", of_a)]
    case.node(f"MatMulBlockQuantizedFp{4 if fp4 else 8}Weight", [*names, case.constant("bias", bias)], ["y"], MICROSOFT, block_size=block)
    plain.inputs = dict(case.inputs)
    rounded = plain.node("Cast", ["a"], ["wide"], to=TensorProto.FLOAT)
    if of_a is not None:
        scale = [plain.constant("of_a", of_a), plain.constant("zero", np.zeros((), E4M3))]
        rounded = plain.node("DequantizeLinear", [plain.node("QuantizeLinear", ["wide", *scale], ["q"]), *scale], ["rounded"])
    last = plain.node("MatMul", [rounded, plain.constant("w", numbers.T.copy().astype(np.float32))], ["product"])
    if bias is not None:
        last = plain.node("Add", [last, plain.constant("bias", bias.astype(np.float32))], ["sum"])
    plain.node("Identity", [last], ["y_f32"])
    plain.output("y_f32")
    case.as_float("y")
    case.oracle = plain
    return case


CASES = {"Cast to FLOAT8E8M0": cast_to_powers, "scales of FLOAT8E8M0": powers_as_scales, "QMoE, FP4 and FP8": experts,
         "MatMulBlockQuantized": products}

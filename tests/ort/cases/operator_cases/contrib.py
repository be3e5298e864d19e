"""Operators of com.microsoft, most of which ONNX Runtime's CPU provider lacks. Expected values come from the schemas' formulas in
numpy, or from an equivalent model that it can run."""
import copy
import math

import numpy as np

from .case import MICROSOFT, Case

erf = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def expected(case, **outputs):
    """The case with its given outputs; each is compared as f32."""
    case.oracle = Case(tolerance=case.tolerance)
    for name, array in outputs.items():
        case.as_float(name)
        case.oracle.constant(name, np.asarray(array, np.float32))
        case.oracle.as_float(name)
    return case


def tolerance_of(dtype):
    return (1e-3, 2e-5) if dtype == np.float32 else (1e-2, 1e-2)


def group_norm(draw):
    """GroupNorm or SkipGroupNorm."""
    dtype, skips, last = draw.pick(np.float32, np.float16), draw.chance(), draw.chance()
    case = Case(tolerance=tolerance_of(dtype))
    groups = draw.whole(1, 4)
    n, h, w, channels = draw.whole(1, 2), draw.whole(1, 5), draw.whole(1, 5), groups * draw.whole(2, 4)
    turn = (lambda x: x) if last else (lambda x: np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
    x, epsilon = draw.floats(n, h, w, channels, dtype=dtype), draw.pick(None, 1e-3)
    gamma, beta = (draw.floats(channels) for _ in range(2))
    names = [case.input("X", turn(x)), case.constant("gamma", gamma), case.constant("beta", beta)]
    total = x.astype(np.float64)
    if skips:
        form = draw.pick("all", "row", "column")
        skip = draw.floats(n, h, w, channels, dtype=dtype) if form == "all" else draw.floats(n, 1, 1, channels, dtype=dtype)
        bias = draw.floats(channels, dtype=dtype) if draw.chance() else None
        given = turn(skip) if form == "all" else skip if form == "row" else skip[:, 0, 0]
        names += [case.input("skip", given), case.constant("bias", bias)]
        total = (total + skip + (0 if bias is None else bias)).astype(dtype).astype(np.float64)
    parts = total.reshape(n, h * w, groups, -1)
    mean, variance = (f(parts, axis=(1, 3), keepdims=True) for f in (np.mean, np.var))
    activation = draw.pick(0, 1)
    y = ((parts - mean) / np.sqrt(variance + (epsilon or 1e-5))).reshape(x.shape) * gamma + beta
    y = y * sigmoid(y) if activation else y
    wants = skips and draw.chance()
    case.node("SkipGroupNorm" if skips else "GroupNorm", names, ["Y", *(["S"] if wants else [])], MICROSOFT, groups=groups,
              channels_last=None if last and draw.chance() else int(last), activation=activation, epsilon=epsilon)
    return expected(case, Y=turn(y), **({"S": turn(total)} if wants else {}))


def biases(draw):
    """BiasAdd, BiasSplitGelu, BiasSoftmax or GemmFastGelu."""
    dtype, kind = draw.pick(np.float32, np.float16), draw.pick("BiasAdd", "BiasSplitGelu", "BiasSoftmax", "GemmFastGelu")
    case = Case(tolerance=tolerance_of(dtype))
    n, s, c = draw.whole(1, 3), draw.whole(1, 5), 2 * draw.whole(1, 6)
    x, bias = draw.floats(n, s, c, dtype=dtype), draw.floats(c, dtype=dtype)
    wide = x.astype(np.float64)
    options = {}
    if kind == "BiasSoftmax":
        x = draw.floats(n, 2, 3, s, dtype=dtype)
        axis, inner = draw.pick(3, -1, 2), draw.pick(0, 1)
        lead, tail = x.shape[:axis % 4], x.shape[axis % 4:]
        shape = (n, 1, *([1] * (axis % 4 - 2)), *tail) if inner else (1, *x.shape[1:])
        bias = draw.floats(*shape, dtype=dtype)
        z = (x.astype(np.float64) + bias).reshape(*lead, -1)
        z = np.exp(z - z.max(-1, keepdims=True))
        y, options = (z / z.sum(-1, keepdims=True)).reshape(x.shape), {"axis": axis, "is_inner_broadcast": inner}
    elif kind == "BiasAdd":
        skip = case.input("skip", draw.floats(n, s, c, dtype=dtype))
        y = wide + bias + case.inputs[skip]
    elif kind == "BiasSplitGelu":
        left, right = np.split(wide + bias, 2, -1)
        y = left * right * 0.5 * (1 + erf(right / np.sqrt(2)))
    else:
        w = draw.floats(c, 7, dtype=dtype)
        bias = draw.floats(7, dtype=dtype) if draw.chance() else None
        z = (wide @ w).astype(dtype).astype(np.float64) + (0 if bias is None else bias)
        y = z * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z ** 3)))
    names = [case.input("x", x)]
    names += [case.constant("w", w), case.constant("bias", bias)] if kind == "GemmFastGelu" else [case.either(draw, "bias", bias)]
    names += ["skip"] if kind == "BiasAdd" else []
    case.node(kind, names, ["y"], MICROSOFT, **options)
    return expected(case, y=y)


def turned(draw):
    """GemmaRotaryEmbedding, ComplexMul or ComplexMulConj."""
    kind = draw.pick("GemmaRotaryEmbedding", "ComplexMul", "ComplexMulConj")
    case = Case(tolerance=(1e-2, 1e-2) if kind[0] == "G" else (1e-3, 1e-5))
    b, h, s, d = draw.whole(1, 2), draw.whole(1, 3), draw.whole(1, 4), draw.pick(4, 8)
    if kind == "GemmaRotaryEmbedding":
        emb = case.input("emb", draw.floats(b, s, d))
        parts = [case.input(name, draw.floats(b, h, s, d, dtype=np.float16)) for name in ("q", "q_rot", "k", "k_rot")]
        case.node(kind, [emb, *parts], ["y", "z"], MICROSOFT)
        cosine, sine = (f(case.inputs["emb"])[:, None] for f in (np.cos, np.sin))
        q, q_rot, k, k_rot = (case.inputs[name].astype(np.float32) for name in parts)
        return expected(case, y=q * cosine + q_rot * sine, z=k * cosine + k_rot * sine)
    x, y = draw.floats(b, s, d, 2), draw.floats(draw.pick(1, b), draw.pick(1, s), d, 2)
    case.node(kind, [case.input("a", x), case.input("b", y)], ["y"], MICROSOFT)
    u, v = x[..., 0] + 1j * x[..., 1], y[..., 0] + 1j * y[..., 1]
    z = u * (v.conj() if kind == "ComplexMulConj" else v)
    return expected(case, y=np.stack([z.real, z.imag], -1))


def bucket_of(apart, both, buckets, most):
    """transformers' T5Attention._relative_position_bucket for numbers. `apart`: the key's position minus the query's."""
    first = 0
    if both:
        buckets //= 2
        first = buckets if apart > 0 else 0
        apart = abs(apart)
    else:
        apart = max(-apart, 0)
    exact = buckets // 2
    if apart < exact:
        return first + apart
    far = np.log(np.float32(apart / exact)) / np.float32(np.log(most / exact)) * np.float32(buckets - exact)
    return first + min(exact + int(far), buckets - 1)


def relative_position_bias(draw):
    case = Case()
    both, buckets, heads, n = draw.chance(), draw.pick(8, 16, 32), draw.whole(1, 3), draw.whole(1, 40)
    most = draw.pick(32, 100, 128)
    table = draw.floats(buckets, heads)
    length = case.constant("n", np.array([n], np.int64))
    case.node("RelativePositionBias", [case.constant("table", table), length, length], ["y"], MICROSOFT, max_distance=most,
              is_bidirectional=int(both) if both or draw.chance() else None)
    place = np.array([[bucket_of(k - q, both, buckets, most) for k in range(n)] for q in range(n)])
    case.input("unused", np.zeros(1, np.float32))
    case.node("Identity", ["unused"], ["same"])
    case.output("same")
    case = expected(case, y=table[place].transpose(2, 0, 1)[None])
    case.oracle.constant("zero", np.zeros(1, np.float32))
    case.oracle.node("Identity", ["zero"], ["same"])
    case.oracle.outputs = {name: case.oracle.outputs.get(name, 1) for name in case.outputs}
    return case


def gated_relative_position_bias(draw):
    dtype = draw.pick(np.float32, np.float16)
    case = Case(tolerance=tolerance_of(dtype))
    b, s, h, d, wide = draw.whole(1, 3), draw.whole(1, 6), draw.whole(1, 3), draw.pick(4, 8), 2 * draw.whole(1, 4)
    query, bias = draw.floats(b, s, h * d, dtype=dtype), draw.floats(h * d, dtype=dtype)
    places, w = draw.floats(1, h, s, s, dtype=dtype), draw.floats(d, wide, dtype=dtype)
    added, scale = draw.floats(wide, dtype=dtype), draw.floats(1, h, 1, 1, dtype=dtype)
    names = [case.input("query", query), case.constant("query_bias", bias), case.input("places", places),
             case.constant("w", w), case.constant("w_bias", added), case.constant("scale", scale)]
    case.node("GatedRelativePositionBias", names, ["y"], MICROSOFT, num_heads=h)
    q = (query.astype(np.float64) + bias).reshape(b, s, h, d).transpose(0, 2, 1, 3)
    u, r = np.split(sigmoid((q @ w + added).reshape(b, h, s, 2, wide // 2).sum(-1)), 2, -1)
    return expected(case, y=(u * (r * scale - 1) + 2) * places)


def channels_last(draw):
    """NhwcConv or NhwcMaxPool."""
    pools = draw.chance()
    case = Case(tolerance=(1e-3, 1e-4))
    kernel, channels = draw.whole(1, 3), draw.whole(1, 5)
    h, w = draw.whole(kernel, 8), draw.whole(kernel, 8)
    options = {"kernel_shape": [kernel, kernel], "strides": draw.pick(None, [2, 1]), "pads": draw.pick(None, [kernel // 2] * 4),
               "dilations": draw.pick(None, [1, 1])}
    if pools:
        dtype = draw.pick(np.int8, np.uint8)
        case.input("x", draw.whole(-100 if dtype == np.int8 else 0, 100, (2, h, w, channels), dtype))
        case.node("NhwcMaxPool", ["x"], ["y"], MICROSOFT, **options)
        case.as_float("y")
        return case
    case.input("x", draw.floats(2, h, w, channels))
    out = draw.whole(1, 5)
    names = [case.constant("w", draw.floats(out, channels, kernel, kernel)),
             case.constant("bias", draw.floats(out) if draw.chance() else None)]
    case.oracle = copy.deepcopy(case)
    case.node("NhwcConv", ["x", *names], ["y"], MICROSOFT, **options)
    case.oracle.node("Transpose", ["x"], ["first"], perm=[0, 3, 1, 2])
    case.oracle.node("Conv", ["first", *names], ["made"], **options)
    case.oracle.node("Transpose", ["made"], ["y"], perm=[0, 2, 3, 1])
    for each in (case, case.oracle):
        each.output("y")
    return case


def expand_dims(draw):
    case = Case()
    axis = np.array(draw.whole(-3, 2), np.int32)
    case.node("ExpandDims", [case.input("x", draw.floats(2, 3)), case.constant("axis", axis)], ["y"], MICROSOFT)
    case.output("y")
    return case


def rows_of_texts(draw):
    """VarlenCausalConvWithState."""
    dtype = draw.pick(np.float32, np.float16)
    case = Case(tolerance=tolerance_of(dtype))
    texts, channels, taps, dilation = draw.whole(1, 4), draw.whole(1, 6), draw.whole(2, 4), draw.pick(None, 1, 2)
    lengths = draw.whole(1, 6, (texts,))
    ends, before = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), (taps - 1) * (dilation or 1)
    x, past = draw.floats(int(ends[-1]), channels, dtype=dtype), draw.floats(texts, channels, before, dtype=dtype)
    w, bias = draw.floats(channels, 1, taps, dtype=dtype), draw.floats(channels, dtype=dtype) if draw.chance() else None
    slots, activation = draw.pick(0, 0, 3), draw.pick(None, "none", "silu", "swish")
    captured = draw.whole(0, 5, (texts,), np.int32) if slots else None
    names = [case.input("x", x), case.constant("w", w), case.either(draw, "ends", ends), case.constant("bias", bias),
             case.input("past", past), case.input("captured", captured)]
    case.node("VarlenCausalConvWithState", names, ["y", "kept", *(["taken"] if slots else [])], MICROSOFT, dilation=dilation,
              activation=activation, state_update_capacity=slots or None)
    for name in ("y", "kept", *(["taken"] if slots else [])):
        case.as_float(name)
    return case


def shared_buffers(draw):
    """Past and present in one buffer: Attention, DecoderMaskedSelfAttention, MultiHeadAttention and DecoderMaskedMultiHeadAttention.
    Their oracles have a growing past."""
    kind = draw.pick("Attention", "DecoderMaskedSelfAttention", "MultiHeadAttention", "DecoderMaskedMultiHeadAttention")
    case = Case(tolerance=(1e-3, 2e-5))
    batch, heads, size = draw.whole(1, 3), draw.whole(1, 3), draw.pick(4, 8)
    masked, joined = kind.startswith("Decoder"), kind.endswith("SelfAttention") or kind == "Attention"
    rows = 1 if masked else draw.whole(1, 4)
    before = draw.whole(1, 6)
    total, width = before + rows, heads * size
    room = total + draw.whole(0, 4)
    shares = draw.chance(0.7)
    mask = draw.whole(0, 1, (batch, total), np.int32) if draw.chance() else None
    if mask is not None:
        mask[:, 0] = 1
    bias = draw.floats(draw.pick(1, batch), draw.pick(1, heads), rows, total) if draw.chance(0.3) and not joined else None
    causal = draw.pick(None, 1) if not masked else None
    options = {"num_heads": heads, "scale": draw.pick(None, 0.3), "mask_filter_value": draw.pick(None, -50000.0)}
    caches = draw.floats(2, batch, heads, room, size)
    case.input("mask", mask)
    case.input("bias", bias)
    parts = [draw.floats(batch, rows, width) for _ in range(3)]
    if joined:
        case.input("x", draw.floats(batch, rows, 12))
        case.constant("w", draw.floats(12, 3 * width, scale=0.3))
        case.constant("b", draw.floats(3 * width))
    else:
        for name, part in zip("qkv", parts):
            case.input(name, part)
    length = np.array([before], np.int32)
    oracle = copy.deepcopy(case)
    m, a = "mask" if mask is not None else "", "bias" if bias is not None else ""
    for each, shared in ((case, shares), (oracle, False)):
        held = caches if shared else np.ascontiguousarray(caches[:, :, :, :before])
        more = {"past_present_share_buffer": 1} if shared and kind != "MultiHeadAttention" else {}
        names = []
        if joined:
            each.input("past", held)
            names = ["x", "w", "b", m, "past", ""]
            outputs = ["y", "present"]
        else:
            each.input("past_k", held[0])
            each.input("past_v", held[1])
            own = kind == "DecoderMaskedMultiHeadAttention" and each is case
            names = ["q", "k", "v", m, a, "past_k", "past_v"] if own else ["q", "k", "v", "", m, a, "past_k", "past_v"]
            outputs = ["y", "present_k", "present_v"]
        if shared or (each is case and kind == "DecoderMaskedSelfAttention"):
            names.append(each.input("before", length))
        op = kind if each is case else "Attention" if joined else "MultiHeadAttention"
        each.node(op, names, outputs, MICROSOFT, **options, **more, unidirectional=causal)
        each.output("y")
        for name in outputs[1:]:
            axis = 3 if joined else 2
            if shared:
                each.node("Slice", [name, each.constant(name + "_0", np.array([0])), each.constant(name + "_1", np.array([total])),
                                    each.constant(name + "_2", np.array([axis]))], [name + "_held"])
            else:
                each.node("Identity", [name], [name + "_held"])
            each.output(name + "_held")
    case.oracle = oracle
    return case


CASES = {"GroupNorm, SkipGroupNorm": group_norm, "BiasAdd, BiasSplitGelu, BiasSoftmax, GemmFastGelu": biases,
         "GemmaRotaryEmbedding, ComplexMul": turned, "RelativePositionBias": relative_position_bias,
         "GatedRelativePositionBias": gated_relative_position_bias, "NhwcConv, NhwcMaxPool": channels_last,
         "ExpandDims": expand_dims, "VarlenCausalConvWithState": rows_of_texts, "past and present in one buffer": shared_buffers}

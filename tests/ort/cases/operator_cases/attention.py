"""Attention in the forms that exported language models and encoders have."""
import copy

import numpy as np
from onnx import helper

from .case import MICROSOFT, Case, windowed


def angles(positions, half):
    rates = 1.0 / 10000.0 ** (np.arange(half) / half)
    angle = np.arange(positions)[:, None] * rates[None]
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def lengths_of(draw, batch, rows, capacity):
    """The number of positions of each entry before and after a run of `rows`."""
    if batch == 1 or rows == 1:
        after = draw.whole(rows, capacity, (batch,))
        return after - rows, after
    return np.zeros(batch, np.int64), draw.whole(1, rows, (batch,))  # with several rows of several entries, nothing is cached yet


def cache(draw, shape, dtype, bits):
    if bits == 8:
        return draw.whole(-128, 127, shape, np.int8)
    if bits == 4:
        return draw.whole(0, 255, (*shape[:3], shape[3] // 2), np.uint8)
    return draw.floats(*shape, dtype=dtype)


def group_query_attention(draw):
    dtype = draw.pick(np.float32, np.float32, np.float16)
    bits = draw.pick(0, 0, 0, 8, 4)
    tolerance = (1e-3, 2e-5) if dtype == np.float32 and bits == 0 else (2e-2, 1e-2)
    case = Case(tolerance=tolerance)
    batch, rows = draw.whole(1, 3), draw.pick(1, 1, 2, 5)
    groups, size = draw.whole(1, 3), draw.pick(16, 32)
    heads = groups * draw.whole(1, 3)
    capacity = draw.whole(rows, 20)
    prompt = draw.chance(0.3)
    before, after = (np.zeros(batch, np.int64), draw.whole(1, rows, (batch,))) if prompt else \
        lengths_of(draw, batch, rows, capacity)
    prompt = prompt or bool((before == 0).all() and rows > 1)
    total = rows if prompt else int(after.max())
    grows = not prompt and batch == 1 and before[0] > 0 and draw.chance(0.3)
    if grows:
        capacity = int(before[0])
    has_past = grows or not prompt or draw.chance() or bits != 0
    packed, rotary = draw.chance(), draw.chance(0.6)
    parts = [draw.floats(batch, rows, n * size, dtype=dtype) for n in (heads, groups, groups)]
    names = [case.input("query", np.concatenate(parts, 2)), "", ""] if packed else \
        [case.input(name, part) for name, part in zip(("query", "key", "value"), parts)]
    norms = [draw.floats(size, dtype=dtype) for _ in range(2)] if bits == 0 and draw.chance(0.2) else None
    shape = (batch, groups, capacity, size)
    past = [case.input(name, cache(draw, shape, dtype, bits) if has_past else None)
            for name in ("past_key", "past_value")]
    rest = [case.input("seqlens_k", (after - 1).astype(np.int32)),
            case.either(draw, "total_sequence_length", np.array(total, np.int32)) if not grows else
            case.constant("total_sequence_length", np.array(total, np.int32))]
    half = draw.pick(size // 2, 8) if rotary else 0
    cosine, sine = angles(capacity + rows + 1, half) if rotary else (None, None)
    rest += [case.constant(name, None if a is None else a.astype(dtype))
             for name, a in (("cos", cosine), ("sin", sine))]
    positions = before[:, None] + np.arange(rows)[None] if rotary and draw.chance(0.3) else None
    rest.append(case.input("position_ids", positions))
    window = draw.pick(-1, -1, 1, 3, 7)
    if draw.chance(0.25) and not grows:
        bias = draw.floats(draw.pick(1, batch), draw.pick(1, heads), rows, total, dtype=dtype)
    else:
        bias = None
    rest += [case.input("attention_bias", bias),
             case.constant("head_sink", draw.floats(heads, dtype=dtype) if draw.chance(0.25) else None)]
    kind = draw.pick("PER_TENSOR", "PER_CHANNEL") if bits else None
    width = (1,) if kind == "PER_TENSOR" else (1, groups, 1, size)
    rest += [case.constant(name, draw.positive(*width, low=0.02, high=0.06) if bits else None)
             for name in ("k_scale", "v_scale")]
    rest += [case.constant(name, norm) for name, norm in zip(("q_norm", "k_norm"), norms or (None, None))]
    scores = draw.pick(None, None, None, 1, 2)
    case.node("GroupQueryAttention", [*names, *past, *rest],
              ["output", "present_key", "present_value", *([] if scores is None else ["scores"])], MICROSOFT,
              qk_output=scores, num_heads=heads, kv_num_heads=groups, do_rotary=int(rotary) if rotary else None,
              rotary_interleaved=draw.pick(None, 0, 1) if rotary else None,
              local_window_size=window if window > 0 else None, scale=draw.pick(None, None, 0.3),
              softcap=draw.pick(None, None, 2.0), smooth_softmax=draw.pick(None, None, 1),
              k_quant_type=kind, v_quant_type=kind, kv_cache_bit_width=bits if bits else None)
    real = np.arange(rows)[None] < (after - before)[:, None]
    case.as_float("output", real[:, :, None])
    positions = max(total, capacity) if has_past else rows
    held = np.arange(positions)[None] < after[:, None]
    for name in ("present_key", "present_value"):
        case.as_float(name, held[:, None, :, None])
    if scores is not None:  # scores of padding rows, and after the present positions, are unspecified
        case.node("Slice", ["scores", case.constant("from", np.array([0])), case.constant("to", np.array([total])),
                            case.constant("along", np.array([3]))], ["present_scores"])
        case.as_float("present_scores", real[:, None, :, None])
    if norms:
        case.oracle = normalised_before(case, parts, norms, size)
    return case


def grouped_chunks(draw):
    """Chunks of prompts padded to one length (query_seqlens), for texts of any lengths; and queries that see all keys."""
    case = Case(tolerance=(1e-3, 3e-5))
    batch, rows, groups, size = draw.whole(1, 4), draw.pick(1, 3, 9, 66), draw.pick(1, 2, 3, 5, 7), draw.pick(16, 48, 80, 128)
    heads, causal = groups * draw.pick(1, 2, 3, 5), draw.chance(0.8)
    capacity = rows + draw.pick(0, 1, 7, 50, 260)
    now, before = draw.whole(0, rows, (batch,)), draw.whole(0, capacity - rows, (batch,))
    now = np.where(before + now == 0, 1, now) if causal else np.full(batch, rows)
    if not causal:
        batch, before, now = 1, before[:1], now[:1]
    after = before + now
    total = draw.pick(max(rows, int(after.max())), capacity) if causal else int(after.max())
    names = [case.input(name, draw.floats(batch, rows, count * size)) for name, count in
             (("query", heads), ("key", groups), ("value", groups))]
    names += [case.input(name, draw.floats(batch, groups, capacity, size)) for name in ("past_key", "past_value")]
    names += [case.input("seqlens_k", (after - 1).astype(np.int32)), case.either(draw, "total", np.array(total, np.int32))]
    tables = angles(capacity + rows, size // 2) if draw.chance() else (None, None)
    names += [case.either(draw, name, table) for name, table in zip(("cos", "sin"), tables)] + [""]
    bias = draw.floats(draw.pick(1, batch), draw.pick(1, heads), rows, total) if draw.chance(0.2) else None
    names += [case.input("bias", bias), case.constant("sink", draw.floats(heads) if draw.chance(0.3) else None)]
    names += ["", "", "", "", case.input("query_seqlens", now.astype(np.int32) if causal else None)]
    case.node("GroupQueryAttention", names, ["output", "present_key", "present_value"], MICROSOFT, num_heads=heads,
              kv_num_heads=groups, do_rotary=int(tables[0] is not None), causal=None if causal and draw.chance() else int(causal),
              local_window_size=draw.pick(None, -1, 1, 4, 20) if causal else None, softcap=draw.pick(None, 30.0),
              scale=draw.pick(None, 0.05), smooth_softmax=draw.pick(None, 0, 1, -1))
    held = (np.arange(capacity)[None] < after[:, None])[:, None, :, None]
    for name, counts in (("output", (np.arange(rows)[None] < now[:, None])[:, :, None]), ("present_key", held),
                         ("present_value", held)):
        zero = case.constant(name + "_0", np.float32(0))
        case.output(case.node("Where", [case.constant(name + "_counts", counts), name, zero], [name + "_kept"]))
    return case


def normalised_before(case, parts, norms, size):
    """The same without the norms of queries and keys, which ONNX Runtime has only on GPUs; they are applied to the inputs instead."""
    def norm(x, weight):
        heads = x.astype(np.float32).reshape(*x.shape[:2], -1, size)
        heads = heads / np.sqrt((heads * heads).mean(-1, keepdims=True) + 1e-6) * weight.astype(np.float32)
        return heads.reshape(x.shape).astype(x.dtype)

    parts = [norm(parts[0], norms[0]), norm(parts[1], norms[1]), parts[2]]
    oracle = copy.deepcopy(case)
    if "key" in case.inputs:
        oracle.inputs.update(zip(("query", "key", "value"), parts))
    else:
        oracle.inputs["query"] = np.concatenate(parts, 2)
    node = oracle.nodes[0]
    del node.input[14:]
    while not node.input[-1]:
        del node.input[-1]
    oracle.constants = [c for c in oracle.constants if c.name not in ("q_norm", "k_norm")]
    return oracle


def mask_of(draw, batch, rows, keys, kinds):
    kind = draw.pick(*kinds)
    if kind == "ends":
        return draw.whole(1, keys, (batch,), np.int32)
    if kind == "ends and starts":
        starts = draw.whole(0, keys - 1, (batch,))
        return np.concatenate([draw.whole(1, keys, (batch,)).clip(starts + 1), starts]).astype(np.int32)
    if kind == "keys":
        mask = draw.whole(0, 1, (batch, keys), np.int32)
        mask[:, 0] = 1
        return mask
    if kind == "all":
        mask = draw.whole(0, 1, (batch, rows, keys), np.int32)
        mask[:, :, 0] = 1
        return mask
    return None


def multi_head_attention(draw):
    case = Case(tolerance=(1e-3, 2e-5))
    batch, rows, heads, size = draw.whole(1, 3), draw.whole(1, 6), draw.whole(1, 4), draw.pick(4, 8, 16)
    form = draw.pick("separate", "separate", "packed", "packed keys", "cached", "past", "past")
    keys = rows if form in ("packed", "past") else draw.whole(1, 9)
    value = draw.pick(size, size, 12) if form == "separate" else size
    before = draw.whole(1, 9) if form == "past" else 0
    total = before + keys
    q = draw.floats(batch, rows, heads, size)
    k, v = draw.floats(batch, keys, heads, size), draw.floats(batch, keys, heads, value)
    flat = [x.reshape(*x.shape[:2], -1) for x in (q, k, v)]
    if form == "packed":
        names = [case.input("query", np.stack([q, k, v], 3)), "", ""]
    elif form == "packed keys":
        names = [case.input("query", flat[0]), case.input("key", np.stack([k, v], 3)), ""]
    elif form == "cached":
        names = [case.input("query", flat[0]), case.input("key", k.transpose(0, 2, 1, 3)),
                 case.input("value", v.transpose(0, 2, 1, 3))]
    else:
        names = [case.input(name, x) for name, x in zip(("query", "key", "value"), flat)]
    bias = draw.floats(heads * (2 * size + value)) if form in ("separate", "past", "cached") and draw.chance() else None
    names.append(case.constant("bias", bias))
    names.append(case.input("key_padding_mask", mask_of(draw, batch, rows, total,
                                                        (None, None, "ends", "keys", "all"))))
    scores = draw.floats(draw.pick(1, batch), draw.pick(1, heads), rows, total) if draw.chance(0.3) else None
    names.append(case.input("attention_bias", scores))
    past = draw.floats(batch, heads, before, size) if before else None
    names += [case.input("past_key", past), case.input("past_value", None if past is None else past[::-1].copy())]
    outputs = ["output"] + (["present_key", "present_value"] if form == "past" else [])
    if draw.chance(0.2) and not form.startswith("packed"):
        outputs = [*outputs, "", ""][:3] + ["scores"]
    case.node("MultiHeadAttention", names, outputs, MICROSOFT, num_heads=heads, scale=draw.pick(None, 0.2),
              unidirectional=draw.pick(None, None, 1) if keys == rows else None,
              mask_filter_value=draw.pick(None, -50000.0))
    for name in filter(None, outputs):
        case.output(name)
    if form.startswith("packed"):  # ONNX Runtime has packed forms only on GPUs
        case.oracle = copy.deepcopy(case)
        case.oracle.inputs.update(zip(("query", "key", "value"), flat))
        case.oracle.nodes[0].input[:3] = ["query", "key", "value"]
    return case


def attention(draw):
    case = Case(tolerance=(1e-3, 2e-5))
    batch, rows, heads, size, width = draw.whole(1, 3), draw.whole(1, 6), draw.whole(1, 4), draw.pick(4, 8), 20
    before = draw.pick(0, 0, 1, 5)
    value = draw.pick(size, 12) if not before else size
    total, columns = before + rows, heads * (2 * size + value)
    causal = draw.pick(None, 1)
    turned = draw.pick(None, None, size, size // 2)
    kinds = (None, "keys", "all") + (() if before else ("ends",)) + (() if before or causal or turned else ("ends and starts",))
    scores = draw.floats(draw.pick(1, batch), draw.pick(1, heads), rows, total) if draw.chance(0.3) and not before else None
    names = [case.input("input", draw.floats(batch, rows, width)),
             case.constant("weights", draw.floats(width, columns, scale=0.3)),
             case.constant("bias", draw.floats(columns) if draw.chance(0.8) else None),
             case.input("mask_index", mask_of(draw, batch, rows, total, kinds)),
             case.input("past", draw.floats(2, batch, heads, before, size) if before else None),
             case.input("attention_bias", scores)]
    outputs = ["output"] + (["present"] if before else [])
    case.node("Attention", names, outputs, MICROSOFT, num_heads=heads, scale=draw.pick(None, 0.2),
              unidirectional=causal, mask_filter_value=draw.pick(None, -50000.0),
              qkv_hidden_sizes=None if value == size else [heads * size, heads * size, heads * value],
              do_rotary=1 if turned else None, rotary_embedding_dim=turned if turned and turned < size else None)
    for name in outputs:
        case.output(name)
    if turned:
        case.oracle = turned_before(case, turned, heads, (heads * size, heads * size, heads * value), before)
    return case


def turned_before(case, turned, heads, widths, before):
    """The same by a matmul, RotaryEmbedding and MultiHeadAttention, because ONNX Runtime has do_rotary only on GPUs."""
    oracle = copy.deepcopy(case)
    node = oracle.nodes.pop()
    given = dict(zip(("input", "weights", "bias", "mask", "past", "scores"), node.input))
    flat = oracle.node("MatMul", [given["input"], given["weights"]], ["product"])
    if given.get("bias"):
        flat = oracle.node("Add", [flat, given["bias"]], ["biased"])
    parts = ["queries", "keys", "values"]
    oracle.node("Split", [flat, oracle.constant("widths", np.array(widths))], parts, axis=2)
    table = np.arange(before + 16)[:, None] / 10000.0 ** (np.arange(0, turned, 2) / turned)
    for name, numbers in (("cosines", np.cos(table)), ("sines", np.sin(table))):
        oracle.constant(name, numbers.astype(np.float32))
    first = oracle.constant("first", np.array([before]))
    partly = turned if turned < widths[0] // heads else None
    for i in (0, 1):
        parts[i] = oracle.node("RotaryEmbedding", [parts[i], first, "cosines", "sines"], [parts[i] + "_turned"], MICROSOFT,
                               num_heads=heads, rotary_embedding_dim=partly)
    halves = ["", ""]
    if before:
        for i, half in enumerate(halves):
            halves[i] = oracle.node("Gather", ["past", oracle.constant(f"half_{i}", np.array(i))], [f"past_{i}"])
    kept = {a.name: helper.get_attribute_value(a) for a in node.attribute
            if a.name in ("num_heads", "scale", "unidirectional", "mask_filter_value")}
    oracle.node("MultiHeadAttention", [*parts, "", given.get("mask", ""), given.get("scores", ""), *halves],
                ["output"] + (["present_0", "present_1"] if before else []), MICROSOFT, **kept)
    if before:
        line = oracle.constant("line", np.array([0]))
        rows = [oracle.node("Unsqueeze", [f"present_{i}", line], [f"row_{i}"]) for i in (0, 1)]
        oracle.node("Concat", rows, ["present"], axis=0)
    return oracle


def linear_attention(draw):
    case = Case(tolerance=(1e-3, 1e-4))
    batch, rows, key, value = draw.whole(1, 2), draw.pick(1, 1, 3, 6), draw.pick(4, 8), draw.pick(4, 8)
    heads = draw.whole(1, 3)
    queries = heads * draw.whole(1, 3)
    rule = draw.pick("linear", "gated", "delta", "gated_delta")
    k = draw.floats(batch, rows, heads, key)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    decay = -draw.positive(batch, rows, draw.pick(heads, heads * key), low=0.01, high=1) if "gated" in rule else None
    beta = draw.positive(batch, rows, draw.pick(1, heads), low=0.1, high=0.9) if "delta" in rule else None
    window = draw.pick(0, 0, 1, 4)
    past = draw.floats(*([window] if window else []), batch, heads, key, value) if draw.chance() else None
    names = [case.input("query", draw.floats(batch, rows, queries * key)), case.input("key", k.reshape(batch, rows, -1)),
             case.input("value", draw.floats(batch, rows, heads * value)), case.input("past_state", past),
             case.input("decay", decay), case.input("beta", beta)]
    case.node("LinearAttention", names, ["y", "present_state"], MICROSOFT, q_num_heads=queries, kv_num_heads=heads,
              update_rule=rule, scale=draw.pick(None, 0.4), state_window=window or None)
    case.output("y")
    case.output("present_state")
    if window:
        case.oracle = windowed(case, window, rows, "past_state", dict.fromkeys(("query", "key", "value", "decay", "beta"), 1))
    return case


def gated_delta_net(draw):
    dtype = draw.pick(np.float32, np.float32, np.float16)
    case = Case(tolerance=(1e-3, 1e-4) if dtype == np.float32 else (2e-2, 1e-2))
    texts, rows, key, value = draw.whole(1, 3), draw.pick(1, 1, 3, 6), draw.pick(4, 8, 20), draw.pick(4, 8, 12)
    shared = draw.whole(1, 3)
    heads = shared * draw.whole(1, 3)
    form = draw.pick("texts", "rows", "ends", "packed", "packed texts", "packed ends")
    total = texts * rows
    lead = (texts, rows) if "texts" in form else (total,)
    rule = draw.pick("linear", "gated", "delta", "gated_delta", None)
    gated, delta = rule in (None, "gated", "gated_delta"), rule in (None, "delta", "gated_delta")
    normed = draw.chance()
    q, k = draw.floats(*lead, shared, key, dtype=dtype), draw.floats(*lead, shared, key)
    k = (k if normed else k / np.linalg.norm(k, axis=-1, keepdims=True)).astype(dtype)
    v = draw.floats(*lead, heads, value, dtype=dtype)
    if "packed" in form:
        flat = [x.reshape(*lead, -1) for x in (q, k, v)]
        names = [case.input("query", np.concatenate(flat, -1)), "", ""]
    else:
        names = [case.input("query", q), case.input("key", k), case.input("value", v)]
    ends = np.sort(draw.whole(0, total, (texts + 1,))).astype(np.int32)
    ends[0], ends[-1] = 0, total
    names.append(case.either(draw, "cu_seqlens", ends) if "ends" in form else "")
    each = draw.chance(0.3)
    gate_type = draw.pick(dtype, np.float32)
    gate = draw.pick(None, "none", "softplus", "qwen", "sigmoid", "kda") if gated else None
    decay = -draw.positive(*lead, heads, *((key,) if each else ()), low=0.01, high=1, dtype=gate_type) if gated else None
    activation = draw.pick(None, "none", "sigmoid") if delta else None
    names += [case.input("decay", decay),
              case.input("beta", draw.positive(*lead, heads, low=0.1, high=0.9, dtype=gate_type) if delta else None)]
    needed = "packed" in form or form == "rows"
    names.append(case.input("initial_state", draw.floats(texts, heads, value, key) if needed or draw.chance() else None))
    gates = gate not in (None, "none")
    bias = draw.pick((heads, key), (heads * key,), (heads,)) if each else (heads,)
    names += [case.constant("a_log", draw.floats(heads, scale=0.3) if gates else None),
              case.constant("dt_bias", draw.floats(*bias) if gates else None)]
    capacity = draw.whole(1, 4) if "ends" not in form and draw.chance(0.3) else None
    if capacity:
        names += [case.input("capture_count", np.full(texts, 8, np.int32)),
                  case.either(draw, "active", np.array([draw.whole(0, 1)], np.int32)) if draw.chance() else ""]
    outputs = ["y", "final_state"] + (["updates"] if capacity else [])
    case.node("GatedDeltaNet", names, outputs, MICROSOFT, update_rule=rule, gate_activation=gate,
              beta_activation=activation, qk_l2_norm=1 if normed else None, scale=draw.pick(None, 0.4),
              gate_lower_bound=draw.pick(None, -3.0), state_update_capacity=capacity)
    case.as_float("y")
    case.output("final_state")
    if capacity and capacity <= rows:
        case.output("updates")
    return case


def sparse_attention(draw):
    dtype = draw.pick(np.float32, np.float32, np.float16)
    case = Case(tolerance=(1e-3, 2e-5) if dtype == np.float32 else (2e-2, 1e-2))
    batch, groups, size, block = draw.whole(1, 3), draw.whole(1, 2), draw.pick(16, 32), draw.pick(16, 16, 32)
    heads = groups * draw.pick(1, 2, 4)
    blocks = draw.whole(1, 6)
    layouts = draw.pick(*[n for n in (1, 2, 4, 8) if heads % n == 0])
    capacity = draw.pick(blocks * block, blocks * block - draw.whole(0, block - 1))
    prompt = draw.chance(0.4)
    rows = draw.whole(2, min(capacity, 40)) if prompt and capacity > 1 else 1
    # ONNX Runtime reads unwritten scores if entries differ in length, so all have the same length.
    total = rows if prompt else draw.whole(1, capacity)
    after = np.full(batch, total)
    mask = np.tril(draw.whole(0, 1, (layouts, blocks, blocks)))
    mask[:, np.arange(blocks), np.arange(blocks)] = 1
    columns = [np.concatenate([np.nonzero(row)[0] for row in layout]) for layout in mask]
    widest = min(max(len(c) for c in columns) + draw.whole(0, 2), blocks * blocks)
    columns = np.stack([np.pad(c, (0, widest - len(c)), constant_values=-1) for c in columns]).astype(np.int32)
    starts = np.pad(mask.sum(-1).cumsum(-1), ((0, 0), (1, 0))).astype(np.int32)
    packed, rotary = draw.chance(), draw.chance(0.6)
    parts = [draw.floats(batch, rows, n * size, dtype=dtype) for n in (heads, groups, groups)]
    names = [case.input("query", np.concatenate(parts, 2)), "", ""] if packed else \
        [case.input(name, part) for name, part in zip(("query", "key", "value"), parts)]
    names += [case.input(name, draw.floats(batch, groups, capacity, size, dtype=dtype)) for name in ("past_key", "past_value")]
    names += [case.constant("block_row_indices", starts), case.constant("block_col_indices", columns),
              case.either(draw, "total_sequence_length", np.array([total], np.int32).reshape(draw.pick((), (1,)))),
              case.input("key_total_sequence_lengths", after.astype(np.int32))]
    cosine, sine = angles(capacity + rows, size // 2) if rotary else (None, None)
    names += [case.constant(name, None if a is None else a.astype(dtype)) for name, a in (("cos", cosine), ("sin", sine))]
    case.node("SparseAttention", names, ["output", "present_key", "present_value"], MICROSOFT, num_heads=heads,
              kv_num_heads=groups, sparse_block_size=block, do_rotary=int(rotary) if rotary else None,
              rotary_interleaved=draw.pick(None, 0, 1) if rotary else None, scale=draw.pick(None, None, 0.3))
    for name in ("output", "present_key", "present_value"):
        case.as_float(name)
    case.oracle = copy.deepcopy(case)
    for name in ("key", "value"):
        case.oracle.in_place[f"present_{name}"] = f"past_{name}"
        case.oracle.output(f"present_{name}", dtype)
    return case


CASES = {"LinearAttention": linear_attention, "GatedDeltaNet": gated_delta_net,
         "SparseAttention": sparse_attention, "GroupQueryAttention": group_query_attention,
         "GroupQueryAttention of padded chunks": grouped_chunks, "MultiHeadAttention": multi_head_attention,
         "Attention": attention}

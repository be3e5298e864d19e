"""Several matmuls of one input, choices of experts and quantised embeddings. Operators that ONNX Runtime has only on GPUs are compared
with an equivalent model."""
import numpy as np
from onnx import TensorProto, numpy_helper

from .blockwise import pack
from .case import MICROSOFT, Case


class Both:
    """A case and its oracle, which share inputs and constants."""

    def __init__(self, **options):
        self.case, self.oracle = Case(**options), Case(**options)
        self.case.oracle = self.oracle

    def input(self, name, array):
        self.oracle.input(name, array)
        return self.case.input(name, array)

    def constant(self, name, array):
        self.oracle.constant(name, array)
        return self.case.constant(name, array)

    def output(self, name):
        self.case.as_float(name)
        self.oracle.as_float(name)


def weights_of(both, draw, name, n, k, bits, block, dtype):
    blocks = -(-k // block)
    return [both.constant(name + "_B", pack(draw.whole(0, 2 ** bits - 1, (n, blocks, block)), bits)),
            both.constant(name + "_scales", draw.positive(n, blocks, dtype=dtype)),
            both.constant(name + "_bias", draw.floats(n, dtype=dtype) if draw.chance() else None)]


def projected(oracle, x, weights, n, k, bits, block, y):
    inner = weights[:2] + ["", ""] + weights[2:]
    return oracle.node("MatMulNBits", [x, *inner], [y], MICROSOFT, N=n, K=k, bits=bits, block_size=block)


def projections(draw):
    """MatMulNBitsMlp or MatMulNBitsQkv."""
    mlp, dtype = draw.chance(), draw.pick(np.float32, np.float32, np.float16)
    both = Both(tolerance=(1e-3, 1e-4) if dtype == np.float32 else (2e-2, 2e-2))
    oracle = both.oracle
    bits, block, k = draw.pick(2, 4, 4, 8), draw.pick(16, 32), draw.pick(32, 40, 64)
    a = both.input("A", draw.floats(*draw.pick((3,), (1, 1), (2, 3)), k, dtype=dtype))
    normed, epsilon = not mlp or draw.chance(0.7), draw.pick(None, 1e-3)
    skip = both.input("skip", draw.floats(*both.case.inputs["A"].shape, dtype=dtype) if normed and draw.chance() else None)
    scale = both.constant("norm", draw.floats(k, dtype=dtype) if normed else None)
    x, total = a, ""
    if normed:
        total = oracle.node("Add", [a, skip], ["sum"]) if skip else ""
        x = oracle.node("SimplifiedLayerNormalization", [total or a, scale], ["normed"], axis=-1,
                        epsilon=epsilon or (1e-5 if mlp else 1e-6))
    sizes = {"gate": draw.whole(1, 40)} if mlp else {"Q": draw.whole(1, 40), "K": draw.whole(1, 20)}
    sizes |= {"up": sizes["gate"]} if mlp else {"V": sizes["K"]}
    weights = {name: weights_of(both, draw, name, n, k, bits, block, dtype) for name, n in sizes.items()}
    wants = bool(total) and draw.chance()
    outputs = (["Y"] if mlp else ["Q", "K", "V"]) + (["total"] if wants else [])
    attributes = {"N": sizes["gate"], "activation": "silu"} if mlp else {"Nq": sizes["Q"], "Nkv": sizes["K"]}
    inputs = [a, skip, scale, *(i for three in weights.values() for i in three)]
    both.case.node("MatMulNBitsMlp" if mlp else "MatMulNBitsQkv", inputs, outputs, MICROSOFT, K=k, bits=bits,
                   block_size=block, epsilon=epsilon, **attributes)
    made = [projected(oracle, x, weights[name], sizes[name], k, bits, block, name) for name in sizes]
    if mlp:
        open_ = oracle.node("Mul", [made[0], oracle.node("Sigmoid", [made[0]], ["opened"])], ["silu"])
        oracle.node("Mul", [open_, made[1]], ["Y"])
    if wants:
        oracle.node("Identity", [total], ["total"])
    for name in outputs:
        both.output(name)
    return both.case


def router_gate_up(draw):
    both = Both(tolerance=(1e-3, 1e-4), opset=20)
    oracle, k, routes, wide = both.oracle, draw.whole(1, 30), draw.whole(1, 9), draw.whole(1, 20)
    names = [both.input("X", draw.floats(*draw.pick((3,), (2, 3)), k)), both.constant("W", draw.floats(k, routes + 2 * wide))]
    limit, alpha, beta = draw.pick(None, 2.0), draw.pick(None, 1.702), draw.pick(None, 1.0)
    both.case.node("RouterGateUpProj", names, ["router", "activated"], MICROSOFT, router_size=routes, limit=limit,
                   activation_alpha=alpha, activation_beta=beta)
    y = oracle.node("MatMul", names, ["y"])
    oracle.node("Split", [y, oracle.constant("parts", np.array([routes, wide, wide]))], ["router", "gate", "up"], axis=-1)
    gate, up = "gate", "up"
    if limit:
        least, most = oracle.constant("least", np.float32(-limit)), oracle.constant("most", np.float32(limit))
        gate = oracle.node("Clip", [gate, "", most], ["low_gate"])
        up = oracle.node("Clip", [up, least, most], ["low_up"])
    turned = oracle.node("Mul", [gate, oracle.constant("alpha", np.float32(alpha or 1))], ["turned"])
    opened = oracle.node("Mul", [gate, oracle.node("Sigmoid", [turned], ["open"])], ["opened"])
    oracle.node("Mul", [opened, oracle.node("Add", [up, oracle.constant("beta", np.float32(beta or 0))], ["line"])], ["activated"])
    for name in ("router", "activated"):
        both.output(name)
    return both.case


def group_router(draw):
    """MoEGroupRouter; the oracle takes the best by TopK and scatters them to their places."""
    both = Both(tolerance=(1e-3, 1e-4))
    oracle, groups = both.oracle, draw.pick(1, 1, 2, 4)
    each = draw.whole(2, 6)
    experts, used = groups * each, draw.whole(1, groups)
    k, best = draw.whole(1, used * each), draw.pick(None, 1, 3)
    scores = groups == 1 and draw.chance()
    width = draw.pick(None, 256) if scores else None
    tokens = draw.whole(1, 4)
    lead = (tokens,) if width or draw.chance() else (1, tokens)
    names = [both.input("logits", draw.floats(*lead, width or experts)), both.constant("bias", draw.floats(experts, scale=0.3))]
    weight = both.constant("weight", draw.floats(experts, width, scale=0.1) if width else None)
    sentinel = draw.pick(None, -50.0)
    outputs = ["", "scores", "weights"] if scores else ["probs"]
    both.case.node("MoEGroupRouter", [*names, weight], outputs, MICROSOFT, n_group=groups, topk_group=used, top_k=k,
                   group_topk=best, router_sentinel=sentinel)
    ints = lambda name, *values: oracle.constant(name, np.array(values, np.int64))
    x = names[0]
    if width:
        x = oracle.node("MatMul", [x, oracle.node("Transpose", [weight], ["turned"], perm=[1, 0])], ["projected"])
    x = oracle.node("Reshape", [x, ints("rows", tokens, experts)], ["flat"])
    opened = oracle.node("Sigmoid", [x], ["weights"])
    summed = oracle.node("Add", [opened, names[1]], ["scores"])
    for name in outputs[1:] if scores else []:
        both.output(name)
    if scores:
        return both.case

    def chosen(values, rows, count, of, name):
        """1 where a value is among the `count` largest of its row."""
        oracle.node("TopK", [values, ints(name + "_k", count)], [name + "_values", name + "_places"], axis=-1)
        ones = oracle.constant(name + "_ones", np.ones((rows, count), np.float32))
        zeros = oracle.constant(name + "_zeros", np.zeros((rows, of), np.float32))
        return oracle.node("ScatterElements", [zeros, name + "_places", ones], [name], axis=-1)

    grouped = oracle.node("Reshape", [summed, ints("grouped_shape", tokens, groups, each)], ["grouped"])
    oracle.node("TopK", [grouped, ints("best_k", min(best or 2, each))], ["best", "best_places"], axis=-1)
    sums = oracle.node("ReduceSum", ["best", ints("last", -1)], ["sums"], keepdims=0)
    kept = oracle.node("Reshape", [chosen(sums, tokens, used, groups, "kept"), ints("kept_shape", tokens, groups, 1)], ["kept_groups"])
    lost = oracle.node("Mul", [oracle.node("Sub", [kept, oracle.constant("one", np.float32(1))], ["minus"]),
                               oracle.constant("far", np.float32(1e6))], ["lost"])
    left = oracle.node("Reshape", [oracle.node("Add", [grouped, lost], ["left3"]), "rows"], ["left"])
    taken = oracle.node("Cast", [chosen(left, tokens, k, experts, "taken")], ["taken_bool"], to=TensorProto.BOOL)
    oracle.node("Where", [taken, oracle.node("Log", [opened], ["log"]),
                          oracle.constant("sentinel", np.float32(-10000 if sentinel is None else sentinel))], ["probs"])
    both.output("probs")
    return both.case


def quantised_embeddings(draw):
    case, kind = Case(tolerance=(1e-3, 1e-3)), draw.pick(np.uint8, np.int8)
    low, high = (0, 255) if kind == np.uint8 else (-128, 127)
    batch, rows, width, words = draw.whole(1, 3), draw.whole(1, 6), draw.pick(4, 8, 16), draw.whole(2, 9)
    segments, whole = draw.chance(), lambda *shape: draw.whole(low, high, shape, kind)
    tables = {"words": whole(words, width), "positions": whole(rows + 2, width), "kinds": whole(2, width) if segments else None,
              "gamma": whole(width), "beta": whole(width)}
    names = [case.input("ids", draw.whole(0, words - 1, (batch, rows), np.int32)),
             case.input("segments", draw.whole(0, 1, (batch, rows), np.int32) if segments else None)]
    names += [case.constant(name, table) for name, table in tables.items()]
    names.append(case.input("mask", draw.whole(0, 1, (batch, rows), np.int32) if draw.chance() else None))
    names += [case.constant(name + "_scale", None if table is None else np.float32(draw.random.uniform(0.01, 0.05)))
              for name, table in tables.items()]
    names += [case.constant(name + "_zero", None if table is None else np.asarray(draw.whole(low, high, (), kind)))
              for name, table in tables.items()]
    case.node("QEmbedLayerNormalization", names, ["y", "count"], MICROSOFT, epsilon=draw.pick(None, 1e-5))
    case.output("y")
    case.output("count", np.int32)
    return case


def adapters(draw):
    """MatMulNBitsQLoRA. Adapters may be inputs, and may be empty."""
    dtype = draw.pick(np.float32, np.float32, np.float16)
    both = Both(tolerance=(1e-3, 1e-4) if dtype == np.float32 else (3e-2, 1))  # sums have hundreds of terms
    n, k, rank = draw.whole(1, 40), draw.pick(32, 40, 64), draw.pick(3, 8, 16, 40)
    bits, block, lora_bits, lora_block = draw.pick(2, 4, 8), draw.pick(16, 32), draw.pick(4, 8), draw.pick(16, 32)
    x = both.input("X", draw.floats(*draw.pick((3,), (1, 1), (2, 3)), k, dtype=dtype))
    given, empty = draw.chance(), draw.pick("", "", "", "A", "B")
    base, down, up = ([*w[:2], ""] for w in (
        weights_of(both, draw, "W", n, k, bits, block, dtype), weights_of(both, draw, "A", rank, k, lora_bits, lora_block, dtype),
        weights_of(both, draw, "B", n, rank, lora_bits, lora_block, dtype)))
    left = {name: both.constant(name + "_none", np.zeros(shape, np.uint8)) for name, shape in (
        ("A", (0, -(-k // lora_block), lora_block * lora_bits // 8)), ("B", (n, 0, lora_block * lora_bits // 8)))}
    if given and not empty:
        for name in ("A_B", "B_B"):
            held = next(c for c in both.case.constants if c.name == name)
            for one in (both.case, both.oracle):
                one.constants = [c for c in one.constants if c.name != name]
            both.input(name, numpy_helper.to_array(held))
    both.case.node("MatMulNBitsQLoRA", [x, *base[:2], left["A"] if empty == "A" else down[0], down[1], left["B"] if empty == "B" else up[0], up[1]],
                   ["Y"], MICROSOFT, N=n, K=k, bits=bits, block_size=block, lora_bits=lora_bits, lora_block_size=lora_block)
    last = projected(both.oracle, x, base, n, k, bits, block, "first" if not empty else "Y")
    if not empty:
        low = projected(both.oracle, x, down, rank, k, lora_bits, lora_block, "low")
        both.oracle.node("Add", [last, projected(both.oracle, low, up, n, rank, lora_bits, lora_block, "more")], ["Y"])
    both.output("Y")
    return both.case


CASES = {"projections of one input": projections, "MatMulNBitsQLoRA": adapters, "RouterGateUpProj": router_gate_up, "MoEGroupRouter": group_router,
         "QEmbedLayerNormalization": quantised_embeddings}

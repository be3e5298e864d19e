"""Decoders as onnxruntime-genai's model builder writes them for the families that it knows, with two layers and random
weights: attention in GroupQueryAttention, weights of 4 and 8 bits, norms and rotary angles in ONNX Runtime's operators."""
import random

import numpy as np
from onnx import TensorProto, helper

from decoder_models import FLOAT, INT64, MICROSOFT, MOST, WORDS, Model
from operator_cases.blockwise import pack

LAYERS, HIDDEN, WIDE = 2, 64, 96

# The options of a family. heads, groups: number of query heads, and of key and value heads. size: of a head. rotary: how much of a
# head is rotated. window: for the layers in `windowed`. norm: "rms" or "layer". act: of the MLP. post: norms also, or only, after
# attention and MLP. block, bits, zero: of the weights. row_groups: rows share scales in any order (g_idx). inner_bias: a bias in the
# MatMulNBits. positions: an input of the attention.
_PLAIN = {"heads": 4, "groups": 2, "size": 16, "rotary": None, "interleaved": 0, "packed": False, "bias": False,
          "head_norms": None, "window": None, "windowed": (0, 1), "softcap": 0.0, "scale": None, "norm": "rms",
          "act": "silu", "gated": True, "post": None, "embeds": "table", "embed_scale": None, "residual_scale": None,
          "logits_scale": None, "logits_cap": None, "no_rope": (), "long_rope": None, "local_base": None, "sink": False,
          "experts": None, "block": 32, "bits": 4, "head_bits": None, "zero": True, "qdq": False, "last_only": False,
          "hidden_states": False, "cache_bits": 0, "words": WORDS, "float_zero": False, "row_groups": False,
          "inner_bias": False, "positions": False}

FAMILIES = {
    "llama": {},
    "llama, heads of 128, one of keys": {"size": 128, "heads": 2, "groups": 1, "bits": 8, "block": 64},
    "llama, heads of 80, blocks of 128": {"size": 80, "block": 128, "zero": False, "words": 53},
    "llama, heads of 96, weights in QDQ": {"size": 96, "qdq": True, "bits": 4},
    "llama, the head in 8 bits, last row": {"head_bits": 8, "last_only": True, "words": 131},
    "llama, embeddings given": {"embeds": "given", "hidden_states": True},
    "llama, a shared table": {"embeds": "shared", "head_bits": 8},
    "llama, a cache in 8 bits": {"cache_bits": 8},
    "mistral": {"window": 3},
    "qwen2": {"bias": True, "packed": True},
    "qwen3": {"head_norms": "head", "size": 32},
    "gemma2": {"window": 5, "windowed": (0,), "softcap": 20.0, "scale": 0.3, "post": "both", "act": "gelu",
               "embed_scale": 8.0, "logits_cap": 10.0, "size": 256, "heads": 2, "groups": 1},
    "gemma3": {"window": 4, "windowed": (0,), "head_norms": "head", "post": "both", "act": "gelu", "embed_scale": 8.0,
               "local_base": 100.0},
    "phi3": {"packed": True, "window": 20},
    "phi3, long rotary": {"packed": True, "long_rope": 8},
    "phi3, part of it turned": {"packed": True, "rotary": 16, "size": 32},
    "phi2": {"norm": "layer", "bias": True, "act": "gelu", "gated": False, "rotary": 16, "size": 32},
    "smollm3": {"no_rope": (1,)},
    "granite": {"embed_scale": 12.0, "residual_scale": 0.22, "logits_scale": 0.25, "scale": 0.1},
    "olmo2": {"head_norms": "all", "post": "only"},
    "chatglm": {"rotary": 16, "size": 32, "interleaved": 1, "bias": True, "packed": True, "groups": 1},
    "nemotron": {"norm": "layer", "act": "relu2", "gated": False, "rotary": 16, "size": 32},
    "gpt-oss": {"bias": True, "sink": True, "window": 6, "windowed": (0,), "experts": (4, 2, 4)},
    "gpt-oss, experts in 8 bits": {"bias": True, "sink": True, "window": 6, "windowed": (0,), "experts": (4, 2, 8)},
}


def drawn(seed):
    """Draws a family with random heads, sizes, options and weights."""
    draw = random.Random(seed)
    pick, chance = draw.choice, lambda probability: draw.random() < probability
    size, groups = pick([16, 32, 48, 64, 80, 96, 112, 128, 256]), pick([1, 1, 2, 3])
    packed = chance(0.4)
    return {"size": size, "groups": groups, "heads": groups * pick([1, 2, 3, 4]), "packed": packed, "bias": chance(0.3),
            "head_norms": None if packed or chance(0.7) else pick(["head", "all"]), "window": pick([None, None, 1, 3, 8]),
            "windowed": pick([(0,), (0, 1), (1,)]), "softcap": pick([0.0, 0.0, 15.0]), "scale": pick([None, 0.2]),
            "norm": pick(["rms", "layer"]), "act": pick(["silu", "gelu", "relu2"]), "gated": chance(0.7),
            "post": pick([None, None, "both", "only"]), "interleaved": pick([0, 0, 1]), "sink": chance(0.3),
            "block": pick([16, 32, 64, 128, 256]), "bits": pick([2, 4, 4, 8]), "zero": chance(0.6),
            "last_only": chance(0.3), "rotary": size // 2 if size % 32 == 0 and chance(0.3) else None,
            "no_rope": pick([(), (), (0,)]), "long_rope": pick([None, None, 7]), "words": pick([50, 53, 64]),
            "embeds": pick(["table", "table", "shared"]), "experts": pick([None, None, None, (4, 2, 4), (3, 1, 8)]),
            "local_base": pick([None, None, 100.0]), "embed_scale": pick([None, 3.0]), "logits_cap": pick([None, 5.0]),
            "float_zero": chance(0.3), "row_groups": chance(0.3), "inner_bias": chance(0.5), "positions": chance(0.3)}


class Builder(Model):
    def __init__(self, family):
        super().__init__(21)
        self.f = _PLAIN | (FAMILIES[family] if isinstance(family, str) else family)

    def drawn(self, rows, columns, bits):
        """Returns numbers [columns, blocks, block] and scales [columns, blocks]."""
        blocks = -(-rows // self.f["block"])
        middle = 2 ** (bits - 1)
        numbers = self.random.integers(0, 2 ** bits, (columns, blocks, self.f["block"]))
        step = 3.0 / np.sqrt(rows) / middle
        return numbers, self.random.uniform(step / 2, step, (columns, blocks)).astype(np.float32)

    def zero_points(self, shape, bits):
        """A table as packed numbers, or as floats, because ONNX Runtime has no packed table with 8 bits."""
        middle = 2 ** (bits - 1)
        if self.f["float_zero"] and bits != 8:
            return self.weight((middle + self.random.uniform(-1, 1, shape)).astype(np.float32))
        return self.weight(pack(self.random.integers(middle - 1, middle + 2, shape), bits))

    def project(self, x, rows, columns, bits=None, bias=None):
        f = self.f
        bits = bits or f["bits"]
        numbers, scales = self.drawn(rows, columns, bits)
        bias = f["bias"] if bias is None else bias
        if f["qdq"]:
            signed = (numbers - 8).reshape(columns, -1)[:, :rows]
            name = f"w{len(self.weights)}"
            self.weights.append(helper.make_tensor(name, TensorProto.INT4, signed.shape, pack(
                signed.reshape(1, -1) % 16, 4)[0].tobytes(), raw=True))
            w = self.op("DequantizeLinear", name, self.weight(scales), axis=1, block_size=f["block"])
            y = self.op("MatMul", x, self.op("Transpose", w, perm=[1, 0]))
        else:
            inputs = [x, self.weight(pack(numbers, bits)), self.weight(scales)]
            inputs += [self.zero_points(scales.shape, bits) if f["zero"] else "", "", ""]
            if f["row_groups"] and not f["zero"] and bits == 4:  # as GPTQ leaves them
                groups = self.random.permutation(np.arange(rows) // f["block"])
                inputs[4] = self.weight(groups.astype(np.int32))
            if bias and f["inner_bias"]:
                inputs[5], bias = self.numbers(columns, scale=0.2), False
            while not inputs[-1]:
                inputs.pop()
            y = self.op("MatMulNBits", *inputs, domain=MICROSOFT, bits=bits, block_size=f["block"], N=columns, K=rows)
        return self.op("Add", y, self.numbers(columns, scale=0.2)) if bias else y

    def scaled(self, x, factor):
        return x if factor is None else self.op("Mul", x, self.weight(np.array(factor, np.float32)))

    def normalised(self, x, size=HIDDEN):
        weight = self.weight((1 + 0.2 * self.random.standard_normal(size)).astype(np.float32))
        if self.f["norm"] == "layer":
            return self.op("LayerNormalization", x, weight, self.numbers(size, scale=0.1), epsilon=1e-5, axis=-1)
        return self.op("SimplifiedLayerNormalization", x, weight, epsilon=1e-5, axis=-1)

    def add_norm(self, skip, y):
        """Returns the sum of both, and the normalised sum."""
        weight = self.weight((1 + 0.2 * self.random.standard_normal(HIDDEN)).astype(np.float32))
        names = [f"norm{len(self.nodes)}", "", "", f"sum{len(self.nodes)}"]
        if self.f["norm"] == "layer":
            out = self.op("SkipLayerNormalization", skip, y, weight, self.numbers(HIDDEN, scale=0.1), domain=MICROSOFT,
                          epsilon=1e-5, outputs=names)
        else:
            out = self.op("SkipSimplifiedLayerNormalization", skip, y, weight, domain=MICROSOFT, epsilon=1e-5,
                          outputs=names)
        return out[3], out[0]

    def angles(self, base=10000.0, stretch=1.0, positions=MOST):
        half = (self.f["rotary"] or self.f["size"]) // 2
        angle = np.arange(positions)[:, None] / (base ** (np.arange(half) / half) * stretch)[None]
        return [f(angle).astype(np.float32) for f in (np.cos, np.sin)]

    def caches(self):
        """Cosines and sines; for a short and a long text if they differ."""
        limit = self.f["long_rope"]
        if limit is None:
            return [self.weight(a) for a in self.angles()]
        def branch(name, arrays):
            nodes = [helper.make_node("Constant", [], [f"{name}_{i}"], value=helper.make_tensor(
                f"{name}_{i}_value", FLOAT, a.shape, a.tobytes(), raw=True)) for i, a in enumerate(arrays)]
            infos = [helper.make_tensor_value_info(f"{name}_{i}", FLOAT, a.shape) for i, a in enumerate(arrays)]
            return helper.make_graph(nodes, name, [], infos)
        total = self.op("Gather", self.op("Shape", "attention_mask"), self.weight(np.array(1, np.int64)), axis=0)
        return self.op("If", self.op("Greater", total, self.weight(np.array(limit, np.int64))), outputs=2,
                       then_branch=branch("long", self.angles(stretch=4.0)),
                       else_branch=branch("short", self.angles(positions=limit)))

    def head_norm(self, x, count):
        kind, size = self.f["head_norms"], self.f["size"]
        if kind is None:
            return x
        if kind == "all":
            return self.normalised(x, count * size)
        x = self.normalised(self.op("Reshape", x, self.ints(0, 0, count, size)), size)
        return self.op("Reshape", x, self.ints(0, 0, count * size))

    def attention(self, layer, y, last, total, caches):
        f = self.f
        heads, groups, size = f["heads"], f["groups"], f["size"]
        if f["packed"]:
            names = [self.project(y, HIDDEN, (heads + 2 * groups) * size), "", ""]
        else:
            names = [self.project(y, HIDDEN, count * size) for count in (heads, groups, groups)]
            names[:2] = [self.head_norm(x, count) for x, count in zip(names, (heads, groups))]
        turns = layer not in f["no_rope"]
        names += [f"past_key_values.{layer}.key", f"past_key_values.{layer}.value", last, total]
        names += caches if turns else ["", ""]
        names += ["position_ids" if turns and f["positions"] else "", ""]
        names += [self.weight(self.random.standard_normal(heads).astype(np.float32)) if f["sink"] else ""]
        more = {"local_window_size": f["window"]} if f["window"] and layer in f["windowed"] else {}
        if f["cache_bits"]:
            names += [self.weight(np.full(1, 0.05, np.float32)) for _ in range(2)]
            more |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": f["cache_bits"]}
        while not names[-1]:
            names.pop()
        y = self.op("GroupQueryAttention", *names, domain=MICROSOFT, num_heads=heads, kv_num_heads=groups,
                    do_rotary=int(turns), rotary_interleaved=f["interleaved"], softcap=f["softcap"],
                    scale=f["scale"] or size ** -0.5, outputs=[f"attended{layer}", f"present.{layer}.key",
                                                               f"present.{layer}.value"], **more)[0]
        return self.project(y, heads * size, HIDDEN)

    def mixture(self, y):
        count, chosen, bits = self.f["experts"]
        scores = self.op("Reshape", self.project(y, HIDDEN, count), self.ints(-1, count))
        names = [y, scores]
        for rows, columns in ((HIDDEN, 2 * WIDE), (WIDE, HIDDEN)):
            numbers = self.random.integers(0, 2 ** bits, (count, columns, rows))
            step = 2.0 / np.sqrt(rows) / 2 ** (bits - 1)
            names += [self.weight(pack(numbers, bits)),
                      self.weight(self.random.uniform(step / 2, step, (count, columns)).astype(np.float32)),
                      self.weight((0.1 * self.random.standard_normal((count, columns))).astype(np.float32))]
        return self.op("QMoE", *names, domain=MICROSOFT, k=chosen, activation_type="swiglu", swiglu_fusion=1,
                       activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0, normalize_routing_weights=1,
                       expert_weight_bits=bits)

    def mlp(self, y):
        f = self.f
        if f["experts"]:
            return self.mixture(y)
        up = self.project(y, HIDDEN, WIDE)
        gate = self.project(y, HIDDEN, WIDE) if f["gated"] else up
        if f["act"] == "silu":
            gate = self.op("Mul", gate, self.op("Sigmoid", gate))
        elif f["act"] == "gelu":
            gate = self.op("FastGelu", gate, domain=MICROSOFT)
        else:
            gate = self.op("Relu", gate)
            gate = self.op("Mul", gate, gate)
        return self.project(self.op("Mul", gate, up) if f["gated"] else gate, WIDE, HIDDEN)

    def ports(self):
        f = self.f
        if f["embeds"] == "given":
            self.input("inputs_embeds", FLOAT, "batch_size", "sequence_length", HIDDEN)
        else:
            self.input("input_ids", INT64, "batch_size", "sequence_length")
        self.input("attention_mask", INT64, "batch_size", "total_sequence_length")
        if f["positions"]:
            self.input("position_ids", INT64, "batch_size", "sequence_length")
        kind = TensorProto.INT8 if f["cache_bits"] else FLOAT
        for layer in range(LAYERS):
            for part in ("key", "value"):
                for name, add, length in (("past_key_values", self.input, "past_sequence_length"),
                                          ("present", self.output, "total_sequence_length")):
                    add(f"{name}.{layer}.{part}", kind, "batch_size", f["groups"], length, f["size"])

    def embedded(self):
        f = self.f
        if f["embeds"] == "given":
            return "inputs_embeds"
        if f["embeds"] == "shared":
            self.table = (self.random.integers(0, 256, (f["words"], 2, 32), dtype=np.uint8),
                          self.random.uniform(0.002, 0.01, (f["words"], 2)).astype(np.float32))
            shared = [self.weight(self.table[0].reshape(f["words"], HIDDEN), "table"), "input_ids",
                      self.weight(self.table[1], "table_scales")]
            return self.op("GatherBlockQuantized", *shared, domain=MICROSOFT, bits=8, block_size=32)
        return self.op("Gather", self.numbers(f["words"], HIDDEN, scale=1), "input_ids")

    def logits(self, y):
        f = self.f
        if f["last_only"]:
            y = self.op("Gather", y, self.weight(np.array([-1], np.int64)), axis=1)
        if f["embeds"] == "shared":
            table = self.op("Reshape", "table", self.ints(f["words"], 2, 32))
            y = self.op("MatMulNBits", y, table, "table_scales", domain=MICROSOFT, bits=8, block_size=32, N=f["words"],
                        K=HIDDEN)
        else:
            y = self.project(y, HIDDEN, f["words"], f["head_bits"], bias=False)
        y = self.scaled(y, f["logits_scale"])
        if f["logits_cap"]:
            y = self.scaled(self.op("Tanh", self.scaled(y, 1 / f["logits_cap"])), f["logits_cap"])
        self.nodes.append(helper.make_node("Identity", [y], ["logits"], name="/logits"))
        self.output("logits", FLOAT, "batch_size", 1 if f["last_only"] else "sequence_length", f["words"])

    def build(self):
        f = self.f
        self.ports()
        x = self.scaled(self.embedded(), f["embed_scale"])
        one = self.weight(np.array(1, np.int64))
        last = self.op("Cast", self.op("Sub", self.op("ReduceSum", "attention_mask", self.ints(1), keepdims=0), one),
                       to=TensorProto.INT32)
        total = self.op("Cast", self.op("Gather", self.op("Shape", "attention_mask"), one, axis=0), to=TensorProto.INT32)
        caches = self.caches()
        local = [self.weight(a) for a in self.angles(f["local_base"])] if f["local_base"] else caches
        behind = f["post"] is not None
        skip, y = x, x if f["post"] == "only" else self.normalised(x)
        for layer in range(LAYERS):
            y = self.attention(layer, y, last, total, local if layer in f["windowed"] else caches)
            y = self.scaled(self.normalised(y) if behind else y, f["residual_scale"])
            if f["post"] == "only":
                skip = y = self.op("Add", skip, y)
            else:
                skip, y = self.add_norm(skip, y)
            y = self.mlp(y)
            y = self.scaled(self.normalised(y) if behind else y, f["residual_scale"])
            if f["post"] == "only" and layer + 1 < LAYERS:
                skip = y = self.op("Add", skip, y)
            else:
                skip, y = self.add_norm(skip, y)
        if f["hidden_states"]:
            self.nodes.append(helper.make_node("Identity", [y], ["hidden_states"], name="/hidden_states"))
            self.output("hidden_states", FLOAT, "batch_size", "sequence_length", HIDDEN)
        self.logits(y)
        return super().build()


ALL = {f"builder's {name}": lambda name=name: Builder(name).build() for name in FAMILIES}

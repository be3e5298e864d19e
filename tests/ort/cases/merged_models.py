"""Decoders as Optimum merges them: one model whose input use_cache_branch selects one of two graphs of an If, the one for
a text's first tokens or the one for later tokens; weights, and inputs, are outside of both. Decoders alone, and decoders
with an encoder, for which the first graph computes keys and values from the encoder's result. Two layers, with random weights."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from decoder_models import (ENCODED, FLOAT, HEADS, HIDDEN, INT64, LAYERS, MICROSOFT, MOST, SIZE, WIDE, WORDS, Model, causal,
                            rates_of_length, rotate)

BOOL = TensorProto.BOOL


class Merged(Model):
    """Writes both graphs one after the other. The second has the same random weights as the first, in the same order."""

    def __init__(self, opset=18):
        super().__init__(opset)
        self.drawn, self.again = [], None

    def numbers(self, *shape, scale=None):
        if self.again is not None:
            self.again += 1
            return self.drawn[self.again - 1]
        self.drawn.append(super().numbers(*shape, scale=scale))
        return self.drawn[-1]

    def graph(self, name, results):
        """The graph of the nodes written since the last one. `results`: its outputs in order."""
        nodes, self.nodes = self.nodes, []
        infos = [helper.make_tensor_value_info(result, FLOAT, None) for result in results]
        self.again = 0
        return helper.make_graph(nodes, name, [], infos)


def attended(m, q, k, v, mask=None, scale=SIZE ** -0.5):
    scores = m.op("MatMul", q, m.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = m.op("Mul", scores, m.weight(np.array(scale, np.float32)))
    weights = m.op("Softmax", m.op("Add", scores, mask) if mask else scores, axis=-1)
    return m.joined(m.op("MatMul", weights, v))


def added_of(m, mask):
    """Converts a mask [b, t] of ones and zeros to numbers [b, 1, 1, t] that are added to scores."""
    kept = m.op("Cast", m.op("Unsqueeze", mask, m.ints(1, 2)), to=FLOAT)
    least = m.weight(np.array(np.finfo(np.float32).min))
    return m.op("Mul", m.op("Sub", m.weight(np.array(1, np.float32)), kept), least)


def buckets(m, past, total):
    """T5's bias of scores [1, heads, s, t] by distance, with transformers' int64 buckets for one direction."""
    one, scalar = m.weight(np.array(1, np.int64)), m.ints()
    rows = m.op("Range", m.op("Reshape", past, scalar), m.op("Reshape", total, scalar), one)
    keys = m.op("Range", m.weight(np.array(0, np.int64)), m.op("Reshape", total, scalar), one)
    apart = m.op("Sub", m.op("Unsqueeze", keys, m.ints(0)), m.op("Unsqueeze", rows, m.ints(1)))
    far = m.op("Neg", m.op("Min", apart, m.weight(np.array(0, np.int64))))
    count, exact, most = 16, 8, 64
    real = m.op("Cast", m.op("Max", far, one), to=FLOAT)
    wide = m.op("Mul", m.op("Div", m.op("Log", m.op("Div", real, m.weight(np.array(exact, np.float32)))),
                            m.weight(np.array(np.log(most / exact), np.float32))), m.weight(np.array(count - exact, np.float32)))
    wide = m.op("Add", m.op("Cast", wide, to=INT64), m.weight(np.array(exact, np.int64)))
    wide = m.op("Min", wide, m.weight(np.array(count - 1, np.int64)))
    bucket = m.op("Where", m.op("Less", far, m.weight(np.array(exact, np.int64))), far, wide)
    table = m.op("Gather", m.numbers(count, HEADS, scale=1), bucket)
    return m.op("Unsqueeze", m.op("Transpose", table, perm=[2, 0, 1]), m.ints(0))


def decoder(m, form, first, empty, slower):
    """Writes one of the two graphs. Returns the names of its results: logits, and keys and values by layer. `slower`: a form of rates_of_length."""
    encoded = form in ("bart", "t5", "whisper")
    own = ".decoder" if encoded else ""
    rows = m.dim("input_ids", 1)
    past = m.ints(0) if first else m.dim(f"past_key_values.0{own}.key", 2)
    total = rows if first else m.op("Add", past, rows)
    x = m.op("Gather", m.numbers(WORDS, HIDDEN, scale=1), "input_ids")
    added = causal(m, past, total)
    turn = lambda y: y
    if form in ("gpt2", "bart", "whisper"):
        line = m.op("Range", m.op("Squeeze", past), m.op("Squeeze", total), m.weight(np.array(1, np.int64)))
        line = m.op("Add", line, m.weight(np.array(2 if form == "bart" else 0, np.int64)))
        x = m.op("Add", x, m.op("Unsqueeze", m.op("Gather", m.numbers(MOST, HIDDEN, scale=1), line), m.ints(0)))
    elif form == "t5":
        added = m.op("Add", added, buckets(m, past, total))
    else:
        turned = m.op("Mul", m.op("Cast", m.op("Unsqueeze", "position_ids", m.ints(2)), to=FLOAT), rates_of_length(m, slower, total))
        turned = m.op("Unsqueeze", m.op("Concat", turned, turned, axis=-1), m.ints(1))
        cosine, sine = m.op("Cos", turned), m.op("Sin", turned)
        turn = lambda y: rotate(m, y, cosine, sine)
    if not encoded:
        added = m.op("Add", added, added_of(m, "attention_mask"))
    theirs = added_of(m, "encoder_attention_mask") if form in ("bart", "t5") else None
    presents = []
    for layer in range(LAYERS):
        y = m.norm(x)
        q, k, v = (m.heads(m.product(HIDDEN, HEADS * SIZE, y), HEADS) for _ in range(3))
        q, k = turn(q), turn(k)
        if not first:
            k, v = (m.op("Concat", f"past_key_values.{layer}{own}.{part}", now, axis=2) for part, now in (("key", k), ("value", v)))
        presents += [k, v]
        x = m.op("Add", x, m.product(HEADS * SIZE, HIDDEN, attended(m, q, k, v, added)))
        if encoded:
            q = m.heads(m.product(HIDDEN, HEADS * SIZE, m.norm(x)), HEADS)
            weights = [m.numbers(HIDDEN, HEADS * SIZE) for _ in range(2)]
            if first:
                k, v = (m.heads(m.op("MatMul", "encoder_hidden_states", w), HEADS) for w in weights)
                presents += [k, v]
            else:
                k, v = (f"past_key_values.{layer}.encoder.{part}" for part in ("key", "value"))
                nothing = np.zeros((0, HEADS, 1, SIZE), np.float32)
                presents += [m.op("Constant", value=numpy_helper.from_array(nothing, "nothing")) if empty else
                             m.op("Identity", name) for name in (k, v)]
            x = m.op("Add", x, m.product(HEADS * SIZE, HIDDEN, attended(m, q, k, v, theirs)))
        y = m.norm(x)
        x = m.op("Add", x, m.gated(m.product, y) if form in ("llama", "t5") else m.product(WIDE, HIDDEN, m.op(
            "Gelu", m.product(HIDDEN, WIDE, y), domain=MICROSOFT)))
    return [m.product(HIDDEN, WORDS, m.norm(x)), *presents]


def merged(form, empty=True, slower=None):
    """`slower`: how Llama's angles depend on the text's length. `empty`: the graph with a past gives empty tensors for keys and values that
    do not change, as Optimum does; otherwise it passes them on."""
    m = Merged()
    encoded = form in ("bart", "t5", "whisper")
    m.input("input_ids", INT64, "batch_size", "sequence_length")
    if form in ("bart", "t5"):
        m.input("encoder_attention_mask", INT64, "batch_size", "encoder_sequence_length")
    source = ENCODED if form == "whisper" else "encoder_sequence_length"
    if encoded:
        m.input("encoder_hidden_states", FLOAT, "batch_size", source, HIDDEN)
    else:
        m.input("attention_mask", INT64, "batch_size", "past_sequence_length + sequence_length")
    if form == "llama":
        m.input("position_ids", INT64, "batch_size", "sequence_length")
    names = [f"{layer}{kind}.{part}" for layer in range(LAYERS) for kind in ((".decoder", ".encoder") if encoded else ("",))
             for part in ("key", "value")]
    for name in names:
        length = "encoder_sequence_length_out" if ".encoder" in name else "past_sequence_length"
        m.input("past_key_values." + name, FLOAT, "batch_size", HEADS, length, SIZE)
    m.input("use_cache_branch", BOOL, 1)
    graphs = {}
    for first in (True, False):
        results = decoder(m, form, first, empty, slower)
        graphs["else_branch" if first else "then_branch"] = m.graph("no_past" if first else "with_past", results)
    m.op("If", "use_cache_branch", outputs=["logits", *("present." + name for name in names)], **graphs)
    m.output("logits", FLOAT, "batch_size", "sequence_length", WORDS)
    for name in names:
        length = "encoder_sequence_length_out" if ".encoder" in name else "past_sequence_length + sequence_length"
        m.output("present." + name, FLOAT, "batch_size", HEADS, length, SIZE)
    return m.build()


def encoder():
    """The encoder's output, to which its decoder attends: [batch, tokens, HIDDEN]."""
    m = Model(18)
    m.input("input_ids", INT64, "batch_size", "encoder_sequence_length")
    m.input("attention_mask", INT64, "batch_size", "encoder_sequence_length")
    x = m.op("Gather", m.numbers(WORDS, HIDDEN, scale=1), "input_ids")
    q, k, v = (m.heads(m.product(HIDDEN, HEADS * SIZE, m.norm(x)), HEADS) for _ in range(3))
    y = attended(m, q, k, v, added_of(m, "attention_mask"))
    m.nodes.append(helper.make_node("Add", [x, m.product(HEADS * SIZE, HIDDEN, y)], ["last_hidden_state"], name="/encoded"))
    m.output("last_hidden_state", FLOAT, "batch_size", "encoder_sequence_length", HIDDEN)
    return m.build()


ALL = {"merged gpt2": lambda: merged("gpt2"), "merged llama": lambda: merged("llama"), "merged bart": lambda: merged("bart"),
       "merged t5": lambda: merged("t5"), "merged whisper": lambda: merged("whisper"),
       "merged bart, encoder's passed on": lambda: merged("bart", False),
       "merged whisper, encoder's passed on": lambda: merged("whisper", False),
       "merged llama, angles by the greatest position": lambda: merged("llama", slower="Where"),
       "merged llama, angles by all positions": lambda: merged("llama", slower="If"),
       "merged llama, angles worked out of the length": lambda: merged("llama", slower="NTK")}

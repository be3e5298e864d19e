"""Decoders with two layers and random weights in the forms that exporters write. Each function returns an ONNX model with open
dimensions, and the names of its inputs and caches."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
LAYERS, HIDDEN, HEADS, GROUPS, SIZE, WIDE, WORDS, MOST, ENCODED = 2, 64, 4, 2, 16, 96, 50, 128, 12
SLIDING = 7  # positions of a window
LIMIT = 8  # longest short text
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Model:
    """Collects nodes and weights; random numbers come from one seed."""

    def __init__(self, opset=21):
        self.opset = opset
        self.nodes, self.weights, self.inputs, self.outputs, self.random = [], [], [], [], np.random.default_rng(1)

    def weight(self, array, name=None):
        name = name or f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *values):
        return self.weight(np.array(values, np.int64))

    def numbers(self, *shape, scale=None):
        scale = scale or 1.5 / np.sqrt(shape[0])
        return self.weight((self.random.standard_normal(shape) * scale).astype(np.float32))

    def op(self, kind, *inputs, outputs=1, domain="", **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain,
                                           name=f"/{kind}_{len(self.nodes)}", **attributes))
        return names[0] if len(names) == 1 else names

    def input(self, name, dtype, *dims):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def output(self, name, dtype, *dims):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, dims))

    def build(self):
        graph = helper.make_graph(self.nodes, "decoder", self.inputs, self.outputs, self.weights)
        return helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)])

    # ------------------------------------------------------------------------------ parts

    def dim(self, x, axis):
        return self.op("Gather", self.op("Shape", x), self.ints(axis), axis=0)  # [1]

    def packed(self, rows, columns, x, zero=True):
        """x @ W with 4-bit W in blocks of 32."""
        blocks = rows // 32
        inputs = [x, self.weight(self.random.integers(0, 256, (columns, blocks, 16), dtype=np.uint8)),
                  self.weight(self.random.uniform(0.01, 0.05, (columns, blocks)).astype(np.float32))]
        if zero:
            inputs.append(self.weight(self.random.integers(0x70, 0x99, (columns, -(-blocks // 2)), dtype=np.uint8)))
        return self.op("MatMulNBits", *inputs, domain=MICROSOFT, bits=4, block_size=32, N=columns, K=rows)

    def product(self, rows, columns, x):
        return self.op("MatMul", x, self.numbers(rows, columns))

    def gated(self, project, x):
        gate, up = project(HIDDEN, WIDE, x), project(HIDDEN, WIDE, x)
        return project(WIDE, HIDDEN, self.op("Mul", self.op("Mul", gate, self.op("Sigmoid", gate)), up))

    def norm(self, x):
        square = self.op("ReduceMean", self.op("Mul", x, x), self.ints(-1), keepdims=1)
        root = self.op("Sqrt", self.op("Add", square, self.weight(np.array([1e-5], np.float32))))
        return self.op("Mul", self.op("Div", x, root), self.numbers(HIDDEN, scale=1))

    def heads(self, x, count):
        """Splits [b, s, count * size] into heads: [b, count, s, size]."""
        return self.op("Transpose", self.op("Reshape", x, self.ints(0, 0, count, SIZE)), perm=[0, 2, 1, 3])

    def joined(self, x):
        return self.op("Reshape", self.op("Transpose", x, perm=[0, 2, 1, 3]), self.ints(0, 0, HEADS * SIZE))


def angles():
    rates = 1.0 / 10000.0 ** (np.arange(SIZE // 2) / (SIZE // 2))
    return np.arange(MOST)[:, None] * rates[None]


def caches(m, past, total, heads=GROUPS, sliding=False):
    for layer in range(LAYERS):
        both = ("past_sliding_length", "total_sliding_length") if sliding and layer == 0 else (past, total)
        for part in ("key", "value"):
            m.input(f"past_key_values.{layer}.{part}", FLOAT, "batch_size", heads, both[0], SIZE)
            m.output(f"present.{layer}.{part}", FLOAT, "batch_size", heads, both[1], SIZE)


def builder(norms=False, window=None, sliding=False):
    """As ONNX Runtime's model builder: GroupQueryAttention over a cache of any length, 4-bit weights. `sliding`: the first layer's cache
    holds only its window, and the other layers have no window."""
    m = Model()
    m.input("input_ids", INT64, "batch_size", "sequence_length")
    m.input("attention_mask", INT64, "batch_size", "total_sequence_length")
    caches(m, "past_sequence_length", "total_sequence_length", sliding=sliding)
    table = m.weight(m.random.integers(0, 256, (WORDS, HIDDEN // 2), dtype=np.uint8))
    scales = m.weight(m.random.uniform(0.05, 0.2, (WORDS, HIDDEN // 32)).astype(np.float32))
    x = m.op("GatherBlockQuantized", table, "input_ids", scales, domain=MICROSOFT, bits=4, block_size=32)
    last = m.op("Cast", m.op("Sub", m.op("ReduceSum", "attention_mask", m.ints(1), keepdims=0),
                             m.weight(np.array(1, np.int64))), to=TensorProto.INT32)
    total = m.op("Cast", m.op("Gather", m.op("Shape", "attention_mask"), m.weight(np.array(1, np.int64)), axis=0),
                 to=TensorProto.INT32)
    cosine, sine = (m.weight(f(angles()).astype(np.float32)) for f in (np.cos, np.sin))
    skip, y = x, m.op("SimplifiedLayerNormalization", x, m.numbers(HIDDEN, scale=1), epsilon=1e-5, axis=-1)

    def add_norm(skip, y):
        out = m.op("SkipSimplifiedLayerNormalization", skip, y, m.numbers(HIDDEN, scale=1), domain=MICROSOFT,
                   epsilon=1e-5, outputs=[f"norm{len(m.nodes)}", "", "", f"sum{len(m.nodes)}"])
        return out[3], out[0]

    for layer in range(LAYERS):
        extra = {} if window is None or (sliding and layer > 0) else {"local_window_size": window}
        extra |= {"sliding_window_cache": 1} if sliding and layer == 0 else {}
        qkv = m.packed(HIDDEN, (HEADS + 2 * GROUPS) * SIZE, y)
        names = [qkv, "", "", f"past_key_values.{layer}.key", f"past_key_values.{layer}.value", last, total, cosine, sine]
        y = m.op("GroupQueryAttention", *names, domain=MICROSOFT, num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1,
                 outputs=[f"attended{layer}", f"present.{layer}.key", f"present.{layer}.value"], **extra)[0]
        skip, y = add_norm(skip, m.packed(HEADS * SIZE, HIDDEN, y, zero=False))
        skip, y = add_norm(skip, m.gated(m.packed, y))
    m.nodes.append(helper.make_node("Identity", [m.packed(HIDDEN, WORDS, y)], ["logits"], name="/logits"))
    m.output("logits", FLOAT, "batch_size", "sequence_length", WORDS)
    return m.build()


def rotate(m, x, cosine, sine):
    half = SIZE // 2
    low = m.op("Slice", x, m.ints(0), m.ints(half), m.ints(3))
    high = m.op("Slice", x, m.ints(half), m.ints(2 ** 62), m.ints(3))
    turned = m.op("Concat", m.op("Neg", high), low, axis=-1)
    return m.op("Add", m.op("Mul", x, cosine), m.op("Mul", turned, sine))


def repeated(m, x):
    """Repeats each key and value head for every query head of its group."""
    shape = m.op("Concat", m.dim(x, 0), m.ints(GROUPS, HEADS // GROUPS), m.dim(x, 2), m.ints(SIZE), axis=0)
    wide = m.op("Expand", m.op("Unsqueeze", x, m.ints(2)), shape)
    shape = m.op("Concat", m.dim(x, 0), m.ints(HEADS), m.dim(x, 2), m.ints(SIZE), axis=0)
    return m.op("Reshape", wide, shape)


LEAST = np.finfo(np.float32).min


def causal(m, past, total, least=LEAST):
    """A mask [1, 1, s, total] of floats: `least` where a key's position is after the query's."""
    zero, one = (m.weight(np.array(i, np.int64)) for i in (0, 1))
    scalar = m.ints()
    rows = m.op("Range", m.op("Reshape", past, scalar), m.op("Reshape", total, scalar), one)
    columns = m.op("Range", zero, m.op("Reshape", total, scalar), one)
    late = m.op("Greater", m.op("Unsqueeze", columns, m.ints(0)), m.op("Unsqueeze", rows, m.ints(1)))
    mask = m.op("Where", late, m.weight(np.array(least, np.float32)), m.weight(np.array(0, np.float32)))
    return m.op("Unsqueeze", mask, m.ints(0, 1))


def joined_layer(m, y, added, turn=lambda x: x, layer=0, scale=lambda x: x):
    """Attention as separate operators over concatenated caches; `turn` rotates queries and keys."""
    q = turn(m.heads(m.product(HIDDEN, HEADS * SIZE, y), HEADS))
    k = turn(m.heads(m.product(HIDDEN, GROUPS * SIZE, y), GROUPS))
    v = m.heads(m.product(HIDDEN, GROUPS * SIZE, y), GROUPS)
    k, v = (m.op("Concat", f"past_key_values.{layer}.{part}", now, axis=2, outputs=[f"present.{layer}.{part}"])
            for part, now in (("key", k), ("value", v)))
    scores = m.op("MatMul", q, m.op("Transpose", repeated(m, k), perm=[0, 1, 3, 2]))
    scores = m.op("Add", scale(m.op("Mul", scores, m.weight(np.array(SIZE ** -0.5, np.float32)))), added)
    return m.joined(m.op("MatMul", m.op("Softmax", scores, axis=-1), repeated(m, v)))


def rates_of_length(m, form, total):
    """The angles' steps [1, 1, SIZE / 2], which are smaller for texts of more than LIMIT positions. `form` is how the model decides:
    "Where" by the largest position, "If" by all positions, "NTK" by a base computed from their number."""
    rates = (1.0 / 10000.0 ** (np.arange(SIZE // 2) / (SIZE // 2))).astype(np.float32)[None, None]
    if form is None:
        return m.weight(rates)
    limit = m.ints(LIMIT)
    if form == "Where":
        end = m.op("Add", m.op("ReduceMax", "position_ids", keepdims=0), m.weight(np.array(1, np.int64)))
        return m.op("Where", m.op("Greater", end, limit), m.weight(rates / 4), m.weight(rates))
    if form == "If":
        def branch(name, array):
            node = helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, name))
            return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, FLOAT, array.shape)])
        longer = m.op("Greater", m.op("Squeeze", total), m.op("Squeeze", limit))
        return m.op("If", longer, then_branch=branch("slower", rates / 4), else_branch=branch("usual", rates))
    number = lambda x: m.weight(np.array(x, np.float32))
    length = m.op("Cast", m.op("Max", total, limit), to=FLOAT)
    stretch = m.op("Sub", m.op("Div", m.op("Mul", length, number(2)), number(LIMIT)), number(1))
    base = m.op("Mul", m.op("Pow", stretch, number(SIZE / (SIZE - 2))), number(10000))
    powers = m.weight((np.arange(SIZE // 2) / (SIZE // 2)).astype(np.float32)[None, None])
    return m.op("Reciprocal", m.op("Pow", base, powers))


def optimum(positions=True, mask=True, window=None, gathered=False, slower=None, least=LEAST):
    """As Optimum with past_key_values: attention as separate operators, concatenated caches. `slower`: a form of rates_of_length. `least`:
    the masks' number."""
    m = Model()
    m.input("input_ids", INT64, "batch_size", "sequence_length")
    both = "past_sequence_length + sequence_length"
    if mask:
        m.input("attention_mask", INT64, "batch_size", both)
    if positions is True:
        m.input("position_ids", INT64, "batch_size", "sequence_length")
    caches(m, "past_sequence_length", both)
    x = m.op("Gather", m.numbers(WORDS, HIDDEN, scale=1), "input_ids")
    past = m.dim("past_key_values.0.key", 2)
    total = m.op("Add", past, m.dim("input_ids", 1))
    added = causal(m, past, total, least)
    if window is not None:
        rows = m.op("Range", m.op("Squeeze", past), m.op("Squeeze", total), m.weight(np.array(1, np.int64)))
        columns = m.op("Range", m.weight(np.array(0, np.int64)), m.op("Squeeze", total), m.weight(np.array(1, np.int64)))
        age = m.op("Sub", m.op("Unsqueeze", rows, m.ints(1)), m.op("Unsqueeze", columns, m.ints(0)))
        old = m.op("Greater", age, m.ints(window))
        added = m.op("Where", old, m.weight(np.array(least, np.float32)), added)
    if mask:
        kept = m.op("Unsqueeze", "attention_mask", m.ints(1, 2))
        if gathered:  # by the index of each batch entry and key
            entries = m.op("Range", m.weight(np.array(0, np.int64)), m.op("Squeeze", m.dim("input_ids", 0)),
                           m.weight(np.array(1, np.int64)))
            keys = m.op("Range", m.weight(np.array(0, np.int64)), m.op("Squeeze", total), m.weight(np.array(1, np.int64)))
            shape = m.op("Concat", m.dim("input_ids", 0), m.ints(1, 1), total, m.ints(1), axis=0)
            index = [m.op("Expand", m.op("Reshape", line, m.ints(*to)), shape)
                     for line, to in ((entries, (-1, 1, 1, 1, 1)), (keys, (1, 1, 1, -1, 1)))]
            kept = m.op("GatherND", "attention_mask", m.op("Concat", *index, axis=-1))
        dropped = m.op("Equal", kept, m.ints(0))
        added = m.op("Where", dropped, m.weight(np.array(least, np.float32)), added)
    if positions == "of the mask":  # the last of a cumulative sum; 1 where nothing counts
        sums = m.op("Sub", m.op("CumSum", "attention_mask", m.weight(np.array(1, np.int64))), m.ints(1))
        sums = m.op("Where", m.op("Equal", "attention_mask", m.ints(0)), m.ints(1), sums)
        places = m.op("Slice", sums, m.op("Neg", m.dim("input_ids", 1)), m.ints(2 ** 62), m.ints(1))
    elif not positions:
        line = m.op("Range", m.op("Squeeze", past), m.op("Squeeze", total), m.weight(np.array(1, np.int64)))
        places = m.op("Unsqueeze", line, m.ints(0))
    else:
        places = "position_ids"
    rates = rates_of_length(m, slower, total)
    turn = m.op("Mul", m.op("Cast", m.op("Unsqueeze", places, m.ints(2)), to=FLOAT), rates)
    turn = m.op("Unsqueeze", m.op("Concat", turn, turn, axis=-1), m.ints(1))
    cosine, sine = m.op("Cos", turn), m.op("Sin", turn)
    for layer in range(LAYERS):
        y = joined_layer(m, m.norm(x), added, lambda x: rotate(m, x, cosine, sine), layer)
        x = m.op("Add", x, m.product(HEADS * SIZE, HIDDEN, y))
        x = m.op("Add", x, m.gated(m.product, m.norm(x)))
    m.nodes.append(helper.make_node("MatMul", [m.norm(x), m.numbers(HIDDEN, WORDS)], ["logits"], name="/logits"))
    m.output("logits", FLOAT, "batch_size", "sequence_length", WORDS)
    return m.build()


def biased(m, rows, columns, x):
    return m.op("Add", m.product(rows, columns, x), m.numbers(columns, scale=0.3))


def layer_norm(m, x):
    return m.op("LayerNormalization", x, m.numbers(HIDDEN, scale=1), m.numbers(HIDDEN, scale=1))


def cached(m, layer, k, v):
    return (m.op("Concat", f"past_key_values.{layer}.{part}", now, axis=2, outputs=[f"present.{layer}.{part}"])
            for part, now in (("key", k), ("value", v)))


def masked_ports(m):
    """Ports for tokens, a mask and the caches of all heads: the cached positions, and those plus the run's tokens."""
    m.input("input_ids", INT64, "batch_size", "sequence_length")
    both = "past_sequence_length + sequence_length"
    m.input("attention_mask", INT64, "batch_size", both)
    caches(m, "past_sequence_length", both, HEADS)
    past = m.dim("past_key_values.0.key", 2)
    return past, m.op("Add", past, m.dim("input_ids", 1))


def with_padding(m, added, least):
    dropped = m.op("Equal", m.op("Unsqueeze", "attention_mask", m.ints(1, 2)), m.ints(0))
    return m.op("Where", dropped, m.weight(np.array(least, np.float32)), added)


def with_logits(m, x):
    m.nodes.append(helper.make_node("MatMul", [layer_norm(m, x), m.numbers(HIDDEN, WORDS)], ["logits"], name="/logits"))
    m.output("logits", FLOAT, "batch_size", "sequence_length", WORDS)
    return m.build()


def opt(least=LEAST):
    """As Optimum exports OPT: learned positions counted by the mask, biases, queries scaled before the matmul, Relu."""
    m = Model()
    past, total = masked_ports(m)
    added = with_padding(m, causal(m, past, total, least), least)
    counted = m.op("Mul", m.op("CumSum", "attention_mask", m.weight(np.array(1, np.int64))), "attention_mask")
    places = m.op("Add", m.op("Slice", counted, past, m.ints(2 ** 62), m.ints(1)), m.ints(1))
    x = m.op("Add", m.op("Gather", m.numbers(WORDS, HIDDEN, scale=1), "input_ids"), m.op("Gather", m.numbers(MOST + 2, HIDDEN, scale=1), places))
    for layer in range(LAYERS):
        y = layer_norm(m, x)
        q, k, v = (biased(m, HIDDEN, HEADS * SIZE, y) for _ in range(3))
        q = m.heads(m.op("Mul", q, m.weight(np.array(SIZE ** -0.5, np.float32))), HEADS)
        k, v = cached(m, layer, m.heads(k, HEADS), m.heads(v, HEADS))
        scores = m.op("Add", m.op("MatMul", q, m.op("Transpose", k, perm=[0, 1, 3, 2])), added)
        scores = m.op("Max", scores, m.weight(np.array(least, np.float32)))
        y = m.joined(m.op("MatMul", m.op("Softmax", scores, axis=-1), v))
        x = m.op("Add", x, biased(m, HEADS * SIZE, HIDDEN, y))
        x = m.op("Add", x, biased(m, WIDE, HIDDEN, m.op("Relu", biased(m, HIDDEN, WIDE, layer_norm(m, x)))))
    return with_logits(m, x)


def neox(least=LEAST):
    """As Optimum exports GPT-NeoX: half of each head is rotated by tables, and attention and MLP are parallel."""
    m = Model()
    past, total = masked_ports(m)
    m.input("position_ids", INT64, "batch_size", "sequence_length")
    added = with_padding(m, causal(m, past, total, least), least)
    half = SIZE // 2
    line = np.arange(MOST)[:, None] / 10000.0 ** (np.arange(half // 2) / (half // 2))
    tables = (m.weight(f(np.concatenate([line, line], 1)).astype(np.float32)) for f in (np.cos, np.sin))
    cosine, sine = (m.op("Unsqueeze", m.op("Gather", table, "position_ids"), m.ints(1)) for table in tables)

    def turn(x):
        part, rest = (m.op("Slice", x, m.ints(a), m.ints(b), m.ints(3)) for a, b in ((0, half), (half, 2 ** 62)))
        low, high = (m.op("Slice", part, m.ints(a), m.ints(b), m.ints(3)) for a, b in ((0, half // 2), (half // 2, 2 ** 62)))
        turned = m.op("Concat", m.op("Neg", high), low, axis=-1)
        return m.op("Concat", m.op("Add", m.op("Mul", part, cosine), m.op("Mul", turned, sine)), rest, axis=-1)

    x = m.op("Gather", m.numbers(WORDS, HIDDEN, scale=1), "input_ids")
    for layer in range(LAYERS):
        qkv = biased(m, HIDDEN, 3 * HEADS * SIZE, layer_norm(m, x))
        q, k, v = (m.heads(m.op("Slice", qkv, m.ints(i * HEADS * SIZE), m.ints((i + 1) * HEADS * SIZE), m.ints(2)), HEADS) for i in range(3))
        k, v = cached(m, layer, turn(k), v)
        scores = m.op("MatMul", m.op("Mul", turn(q), m.weight(np.array(SIZE ** -0.5, np.float32))), m.op("Transpose", k, perm=[0, 1, 3, 2]))
        y = m.joined(m.op("MatMul", m.op("Softmax", m.op("Add", scores, added), axis=-1), v))
        wide = biased(m, HIDDEN, WIDE, layer_norm(m, x))
        gelu = m.op("Mul", wide, m.op("Sigmoid", m.op("Mul", wide, m.weight(np.array(1.702, np.float32)))))
        x = m.op("Add", x, m.op("Add", biased(m, HEADS * SIZE, HIDDEN, y), biased(m, WIDE, HIDDEN, gelu)))
    return with_logits(m, x)


def gpt2(form="pieces"):
    """Learned positions, and a triangular mask from which the new tokens' rows are sliced; or an operator with a past."""
    m = Model()
    m.input("input_ids", INT64, "batch_size", "sequence_length")
    both = "past_sequence_length + sequence_length"
    heads = HEADS
    if form == "Attention":
        for layer in range(LAYERS):
            m.input(f"past_{layer}", FLOAT, 2, "batch_size", heads, "past_sequence_length", SIZE)
            m.output(f"present_{layer}", FLOAT, 2, "batch_size", heads, both, SIZE)
    else:
        caches(m, "past_sequence_length", both, heads)
    first = "past_0" if form == "Attention" else "past_key_values.0.key"
    past = m.dim(first, 3 if form == "Attention" else 2)
    total = m.op("Add", past, m.dim("input_ids", 1))
    line = m.op("Range", m.op("Squeeze", past), m.op("Squeeze", total), m.weight(np.array(1, np.int64)))
    x = m.op("Add", m.op("Gather", m.numbers(WORDS, HIDDEN, scale=1), "input_ids"),
             m.op("Unsqueeze", m.op("Gather", m.numbers(MOST, HIDDEN, scale=1), line), m.ints(0)))
    triangle = m.weight(np.tril(np.ones((MOST, MOST), np.bool_))[None, None])
    for layer in range(LAYERS):
        y = m.op("LayerNormalization", x, m.numbers(HIDDEN, scale=1), m.numbers(HIDDEN, scale=1))
        if form == "Attention":
            y = m.op("Attention", y, m.numbers(HIDDEN, 3 * heads * SIZE), m.numbers(3 * heads * SIZE, scale=1), "",
                     f"past_{layer}", domain=MICROSOFT, num_heads=heads, unidirectional=1,
                     outputs=[f"attended{layer}", f"present_{layer}"])[0]
        elif form == "MultiHeadAttention":
            parts = [m.product(HIDDEN, heads * SIZE, y) for _ in range(3)]
            y = m.op("MultiHeadAttention", *parts, "", "", "", f"past_key_values.{layer}.key",
                     f"past_key_values.{layer}.value", domain=MICROSOFT, num_heads=heads, unidirectional=1,
                     outputs=[f"attended{layer}", f"present.{layer}.key", f"present.{layer}.value"])[0]
        else:
            q, k, v = (m.heads(m.product(HIDDEN, heads * SIZE, y), heads) for _ in range(3))
            k, v = (m.op("Concat", f"past_key_values.{layer}.{part}", now, axis=2,
                         outputs=[f"present.{layer}.{part}"]) for part, now in (("key", k), ("value", v)))
            kept = m.op("Slice", m.op("Slice", triangle, past, total, m.ints(2)), m.ints(0), total, m.ints(3))
            scores = m.op("Div", m.op("MatMul", q, m.op("Transpose", k, perm=[0, 1, 3, 2])),
                          m.weight(np.array(SIZE ** 0.5, np.float32)))
            scores = m.op("Where", kept, scores, m.weight(np.array(np.finfo(np.float32).min)))
            y = m.joined(m.op("MatMul", m.op("Softmax", scores, axis=-1), v))
        x = m.op("Add", x, m.product(heads * SIZE, HIDDEN, y))
        y = m.op("LayerNormalization", x, m.numbers(HIDDEN, scale=1), m.numbers(HIDDEN, scale=1))
        y = m.op("Gelu", m.product(HIDDEN, WIDE, y), domain=MICROSOFT)
        x = m.op("Add", x, m.product(WIDE, HIDDEN, y))
    m.nodes.append(helper.make_node("MatMul", [x, m.numbers(HIDDEN, WORDS)], ["logits"], name="/logits"))
    m.output("logits", FLOAT, "batch_size", "sequence_length", WORDS)
    return m.build()


def attention_operator(opset):
    """ai.onnx's Attention, which concatenates its caches itself, and RotaryEmbedding."""
    m = Model(opset)
    m.input("input_ids", INT64, "batch_size", "sequence_length")
    m.input("position_ids", INT64, "batch_size", "sequence_length")
    both = "past_sequence_length + sequence_length"
    caches(m, "past_sequence_length", both)
    x = m.op("Gather", m.numbers(WORDS, HIDDEN, scale=1), "input_ids")
    cosine, sine = (m.weight(f(angles()).astype(np.float32)) for f in (np.cos, np.sin))
    for layer in range(LAYERS):
        y = m.op("RMSNormalization", x, m.numbers(HIDDEN, scale=1))
        q, k = (m.op("RotaryEmbedding", m.product(HIDDEN, count * SIZE, y), cosine, sine, "position_ids", num_heads=count)
                for count in (HEADS, GROUPS))
        v = m.product(HIDDEN, GROUPS * SIZE, y)
        y = m.op("Attention", q, k, v, "", f"past_key_values.{layer}.key", f"past_key_values.{layer}.value",
                 q_num_heads=HEADS, kv_num_heads=GROUPS, is_causal=1,
                 outputs=[f"attended{layer}", f"present.{layer}.key", f"present.{layer}.value"])[0]
        x = m.op("Add", x, m.product(HEADS * SIZE, HIDDEN, y))
        x = m.op("Add", x, m.gated(m.product, m.norm(x)))
    m.nodes.append(helper.make_node("MatMul", [m.norm(x), m.numbers(HIDDEN, WORDS)], ["logits"], name="/logits"))
    m.output("logits", FLOAT, "batch_size", "sequence_length", WORDS)
    return m.build()


def whisper():
    """A decoder that also attends to an encoder's keys and values, which do not grow."""
    m = Model()
    m.input("input_ids", INT64, "batch_size", "sequence_length")
    both = "past_sequence_length + sequence_length"
    for layer in range(LAYERS):
        for part in ("key", "value"):
            name = f"{layer}.decoder.{part}"
            m.input("past_key_values." + name, FLOAT, "batch_size", HEADS, "past_sequence_length", SIZE)
            m.output("present." + name, FLOAT, "batch_size", HEADS, both, SIZE)
            m.input(f"past_key_values.{layer}.encoder.{part}", FLOAT, "batch_size", HEADS, ENCODED, SIZE)
    past = m.dim("past_key_values.0.decoder.key", 2)
    total = m.op("Add", past, m.dim("input_ids", 1))
    line = m.op("Range", m.op("Squeeze", past), m.op("Squeeze", total), m.weight(np.array(1, np.int64)))
    x = m.op("Add", m.op("Gather", m.numbers(WORDS, HIDDEN, scale=1), "input_ids"),
             m.op("Unsqueeze", m.op("Gather", m.numbers(MOST, HIDDEN, scale=1), line), m.ints(0)))
    added = causal(m, past, total)

    def attend(x, q, k, v, mask=None):
        scores = m.op("Mul", m.op("MatMul", q, m.op("Transpose", k, perm=[0, 1, 3, 2])),
                      m.weight(np.array(SIZE ** -0.5, np.float32)))
        weights = m.op("Softmax", m.op("Add", scores, mask) if mask else scores, axis=-1)
        return m.op("Add", x, m.product(HEADS * SIZE, HIDDEN, m.joined(m.op("MatMul", weights, v))))

    for layer in range(LAYERS):
        y = m.norm(x)
        q, k, v = (m.heads(m.product(HIDDEN, HEADS * SIZE, y), HEADS) for _ in range(3))
        k, v = (m.op("Concat", f"past_key_values.{layer}.decoder.{part}", now, axis=2,
                     outputs=[f"present.{layer}.decoder.{part}"]) for part, now in (("key", k), ("value", v)))
        x = attend(x, q, k, v, added)
        x = attend(x, m.heads(m.product(HIDDEN, HEADS * SIZE, m.norm(x)), HEADS),
                   *(f"past_key_values.{layer}.encoder.{part}" for part in ("key", "value")))
        x = m.op("Add", x, m.product(WIDE, HIDDEN, m.op("Gelu", m.product(HIDDEN, WIDE, m.norm(x)), domain=MICROSOFT)))
    m.nodes.append(helper.make_node("MatMul", [m.norm(x), m.numbers(HIDDEN, WORDS)], ["logits"], name="/logits"))
    m.output("logits", FLOAT, "batch_size", "sequence_length", WORDS)
    return m.build()


ALL = {
    "builder": builder,
    "builder, a window of 7": lambda: builder(window=7),
    "builder, a cache of a window of 7": lambda: builder(window=SLIDING, sliding=True),
    "optimum": optimum,
    "optimum, no positions": lambda: optimum(positions=False),
    "optimum, no mask": lambda: optimum(positions=False, mask=False),
    "optimum, a window of 7": lambda: optimum(window=7),
    "optimum, positions from the mask": lambda: optimum(positions="of the mask"),
    "optimum, a gathered mask": lambda: optimum(gathered=True),
    "optimum, angles chosen by the greatest position": lambda: optimum(slower="Where"),
    "optimum, angles chosen by the length": lambda: optimum(slower="If"),
    "optimum, angles worked out of the length": lambda: optimum(slower="NTK"),
    "Attention of opset 23": lambda: attention_operator(23),
    "whisper": whisper,
    "opt": opt,
    "neox": neox,
    "gpt2": gpt2,
    "gpt2, MultiHeadAttention": lambda: gpt2("MultiHeadAttention"),
    "gpt2, Attention": lambda: gpt2("Attention"),
}

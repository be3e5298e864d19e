"""Attention as exporters write it: [batch, tokens, heads * size] split into heads, matmul, softmax, matmul."""
from grid_case import Case, Port

# Masks by their extents: batch, heads, queries, keys. 1: the full extent; 0: extent 1.
MASKS = {"": None, "rows": (0, 0, 1, 1), "heads": (0, 1, 1, 1), "all": (1, 1, 1, 1), "keys": (1, 0, 0, 1)}


def attention(size, queries=1024, keys=None, heads=8, groups=None, batch=1, dtype="f16", mask="", causal=False,
              kind=None, value=None):
    """`groups`: number of key heads, each shared by several query heads. `kind`: the mask's type, "bool" or the type of the rest."""
    keys, groups, value = keys or queries, groups or heads, value or size
    name = f"attention_{dtype}_b{batch}_{queries}x{keys}_h{heads}" + (f"_{groups}" if groups != heads else "")
    name += f"_d{size}" + (f"_{value}" if value != size else "")
    name += (f"_mask_{mask}" + ("_bool" if kind == "bool" else "") if mask else "") + ("_causal" if causal else "")
    inputs = [Port("q", dtype, (batch, queries, heads * size)), Port("k", dtype, (batch, keys, groups * size)),
              Port("v", dtype, (batch, keys, groups * value))]
    if mask:
        full = (batch, heads, queries, keys)
        shape = tuple(extent if has else 1 for extent, has in zip(full, MASKS[mask]))
        inputs.append(Port("mask", "bool" if kind == "bool" else dtype, shape, fill="mask"))
    share = 0.5 if causal else 1

    def nodes():
        import numpy as np
        from onnx import helper, numpy_helper
        types = {"f32": 1, "f16": 10, "bf16": 16}
        made, constants = [], []

        def add(op, into, *of, **attributes):
            made.append(helper.make_node(op, of, [into], **attributes))
            return into

        def ints(into, *numbers):
            constants.append(numpy_helper.from_array(np.array(numbers, np.int64), into))
            return into

        def number(into, x):
            constants.append(helper.make_tensor(into, types[dtype], [], [x]))
            return into

        def split(name, tokens, count, extent, perm):
            add("Reshape", f"{name}4", name, ints(f"{name}_shape", batch, tokens, count, extent))
            at = add("Transpose", f"{name}t", f"{name}4", perm=perm)
            if count == heads:
                return at
            wide = [batch, count, heads // count] + ([extent, tokens] if perm[3] == 1 else [tokens, extent])
            add("Unsqueeze", f"{name}5", at, ints(f"{name}_axis", 2))
            add("Expand", f"{name}e", f"{name}5", ints(f"{name}_wide", *wide))
            return add("Reshape", f"{name}r", f"{name}e", ints(f"{name}_flat", batch, heads, *wide[3:]))

        q = split("q", queries, heads, size, [0, 2, 1, 3])
        k = split("k", keys, groups, size, [0, 2, 3, 1])
        v = split("v", keys, groups, value, [0, 2, 1, 3])
        s = add("Mul", "scaled", add("MatMul", "scores", q, k), number("scale", size ** -0.5))
        if causal:
            triangle = np.triu(np.full((queries, keys), -np.inf, np.float32), keys - queries + 1)
            constants.append(helper.make_tensor("triangle", types[dtype], triangle.shape, triangle.flatten()))
            s = add("Add", "limited", s, "triangle")
        if mask and kind == "bool":
            s = add("Where", "masked", "mask", s, number("low", float("-inf")))
        elif mask:
            s = add("Add", "masked", s, "mask")
        add("MatMul", "y", add("Softmax", "p", s, axis=-1), v)
        return made, constants

    def torch_call(t):
        import torch
        q, k, v = (t[n].view(batch, tokens, count, extent).transpose(1, 2) for n, tokens, count, extent in
                   (("q", queries, heads, size), ("k", keys, groups, size), ("v", keys, groups, value)))
        given = t.get("mask")
        if given is not None:
            given = given.expand(batch, heads, queries, keys)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=given, is_causal=causal,
                                                                enable_gqa=groups != heads)

    flops = 2.0 * batch * heads * queries * keys * (size + value) * share
    return Case(name, tuple(inputs), Port("y", dtype, (batch, heads, queries, value)), nodes, torch_call, flops,
                tolerance={"f32": 1e-4, "f16": 4e-3, "bf16": 3e-2}[dtype])


def cases():
    for size in list(range(8, 257, 8)):
        yield attention(size)
    for size in (20, 37, 50, 100, 127):
        yield attention(size)
    for dtype in ("bf16", "f32"):
        for size in (40, 64, 80, 120, 37):
            yield attention(size, dtype=dtype)
    for tokens in (77, 197, 256, 577, 4096):
        for size in (40, 64, 80, 128):
            yield attention(size, queries=tokens)
    for size in (40, 64, 80, 160):
        yield attention(size, queries=4096, keys=77)
        yield attention(size, queries=1024, keys=77, batch=2)
    for size in (40, 64, 80, 72):
        yield attention(size, queries=577, heads=16, batch=8)
    for mask in MASKS:
        if mask:
            for size in (40, 64, 80):
                yield attention(size, batch=2, mask=mask)
            yield attention(40, batch=2, mask=mask, kind="bool")
    for size in (40, 64, 80, 128):
        yield attention(size, queries=2048, causal=True)
        yield attention(size, queries=512, heads=32, groups=8, causal=True, dtype="bf16")
    for size in (37, 40, 64, 72, 96, 120, 128):
        yield attention(size, queries=1, keys=1024, heads=32, groups=8)
    yield attention(192, queries=512, heads=16, value=128)
    yield attention(40, queries=512, value=64)


def draw(random):
    """A shape near those that models have."""
    size = random.choice([random.randrange(8, 257, 8), random.randrange(8, 257), 64, 80, 128])
    queries, batch = random.choice([1, 49, 77, 144, 197, 333, 512, 785, 1024, 1370, 2048, random.randint(2, 3000)]), random.choice([1, 2, 4, 9])
    keys = random.choice([queries, queries, 77, random.randint(16, 2500)])
    groups = random.choice([1, 2, 4, 8])
    heads = groups * random.choice([1, 1, 1, 2, 4])
    causal = queries == keys and queries <= 1100 and random.random() < 0.2
    mask = "" if causal or heads != groups else random.choice(["", "", ""] + list(MASKS))
    return attention(size, queries, keys, heads, groups, batch, random.choice(["f16", "f16", "bf16"]), mask, causal,
                     random.choice([None, "bool"]))

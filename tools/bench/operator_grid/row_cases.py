"""Operators on rows: softmax, norms, reductions, cumulative sums, TopK."""
from grid_case import Case, Port


def softmax(rows, elements, dtype="f16"):
    def nodes():
        from onnx import helper
        return [helper.make_node("Softmax", ["x"], ["y"], axis=-1)], []

    def torch_call(t):
        return t["x"].softmax(-1)

    port = (rows, elements)
    return Case(f"softmax_{dtype}_{rows}x{elements}", (Port("x", dtype, port),), Port("y", dtype, port), nodes, torch_call,
                0.0, tolerance=4e-3)


def cumulative(rows, elements, dtype="f32", axis=1):
    def nodes():
        import numpy as np
        from onnx import helper, numpy_helper
        constant = numpy_helper.from_array(np.array(axis, np.int64), "axis")
        return [helper.make_node("CumSum", ["x", "axis"], ["y"])], [constant]

    def torch_call(t):
        return t["x"].cumsum(axis)

    port = (rows, elements)
    return Case(f"cumsum{axis}_{dtype}_{rows}x{elements}", (Port("x", dtype, port),), Port("y", dtype, port), nodes,
                torch_call, 0.0, tolerance={"f32": 1e-4, "f16": 4e-3}[dtype])


def topk(rows, elements, k, dtype="f16"):
    """TopK. Only its values are compared, because the places of equal values may differ."""
    def nodes():
        import numpy as np
        from onnx import helper, numpy_helper
        constant = numpy_helper.from_array(np.array([k], np.int64), "k")
        return [helper.make_node("TopK", ["x", "k"], ["y", "places"], axis=-1)], [constant]

    def torch_call(t):
        return t["x"].topk(k).values

    return Case(f"topk{k}_{dtype}_{rows}x{elements}", (Port("x", dtype, (rows, elements)),),
                Port("y", dtype, (rows, k)), nodes, torch_call, 0.0, tolerance=1e-3)


def norm(rows, elements, dtype="f16", kind="layer"):
    def nodes():
        from onnx import helper
        if kind == "layer":
            return [helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1)], []
        return [helper.make_node("ReduceMean" if kind == "mean" else "ReduceMax", ["x"], ["y"], keepdims=1, axes=[-1])], []

    def torch_call(t):
        import torch
        if kind == "layer":
            return torch.nn.functional.layer_norm(t["x"], (elements,), t["g"], t["b"])
        return t["x"].mean(-1, keepdim=True) if kind == "mean" else t["x"].amax(-1, keepdim=True)

    weights = (Port("g", dtype, (elements,)), Port("b", dtype, (elements,))) if kind == "layer" else ()
    return Case(f"{kind}_{dtype}_{rows}x{elements}", (Port("x", dtype, (rows, elements)),),
                Port("y", dtype, (rows, elements if kind == "layer" else 1)), nodes, torch_call, 0.0, weights=weights,
                tolerance={"f32": 1e-4, "f16": 4e-3}[dtype])


def group_norm(channels, groups, size, last=False, dtype="f16"):
    """A group norm of a square image as exporters write it; `last`: an image whose channels lie last."""
    def nodes():
        import numpy as np
        from onnx import helper, numpy_helper
        stored = {"f16": np.float16, "f32": np.float32}[dtype]
        constants = [numpy_helper.from_array(np.array(value, kind), name) for name, value, kind in (
            ("rows", [1, groups, -1], np.int64), ("image", [1, channels, size, size], np.int64),
            ("ones", [1] * groups, stored), ("zeros", [0] * groups, stored))]
        lines = [("Reshape", ["first", "rows"], "flat"), ("InstanceNormalization", ["flat", "ones", "zeros"], "normal"),
                 ("Reshape", ["normal", "image"], "back"), ("Mul", ["back", "g"], "scaled"), ("Add", ["scaled", "b"], "shifted")]
        made = [helper.make_node(op, inputs, [output]) for op, inputs, output in lines]
        order = ([0, 3, 1, 2], [0, 2, 3, 1]) if last else ([0, 1, 2, 3], [0, 1, 2, 3])
        return [helper.make_node("Transpose", ["x"], ["first"], perm=order[0]), *made,
                helper.make_node("Transpose", ["shifted"], ["y"], perm=order[1])], constants

    def torch_call(t):
        import torch
        x = t["x"].permute(0, 3, 1, 2) if last else t["x"]
        y = torch.nn.functional.group_norm(x, groups) * t["g"] + t["b"]
        return y.permute(0, 2, 3, 1) if last else y

    shape = (1, size, size, channels) if last else (1, channels, size, size)
    weights = tuple(Port(name, dtype, (1, channels, 1, 1)) for name in "gb")
    return Case(f"group{groups}_{dtype}_{channels}x{size}x{size}" + ("_last" if last else ""), (Port("x", dtype, shape),),
                Port("y", dtype, shape), nodes, torch_call, 0.0, weights=weights, tolerance={"f32": 1e-4, "f16": 4e-3}[dtype])


def cases():
    for rows, elements in ((65536, 64), (65536, 49), (100000, 32), (8192, 128), (16384, 77), (4096, 1024), (64, 8192),
                           (100000, 7), (1, 64), (197, 197), (2048, 384), (300, 50257)):
        yield softmax(rows, elements)
    yield softmax(65536, 64, "f32")
    yield softmax(65536, 49, "f32")
    for rows, elements in ((1094, 27399), (2048, 32000), (630, 47552), (512, 50257), (1024, 128256)):  # a block cannot keep them
        yield softmax(rows, elements)
        yield softmax(rows, elements, "f32")
    for rows, elements in ((1094, 27399), (630, 47552), (529, 56691)):
        yield norm(rows, elements)
        yield norm(rows, elements, "f32")
    for rows, elements in ((65536, 64), (100000, 32), (16384, 128), (50000, 96), (4096, 768), (1, 4096), (3136, 100)):
        yield norm(rows, elements)
    yield norm(65536, 64, "f32")
    for rows, elements in ((65536, 64), (100000, 9), (1000, 1000), (8, 100000)):
        yield norm(rows, elements, kind="mean")
        yield norm(rows, elements, "f32", kind="max")
    for channels, groups, size in ((128, 32, 512), (256, 32, 256), (64, 1, 256), (64, 64, 512)):
        yield group_norm(channels, groups, size)
        yield group_norm(channels, groups, size, last=True)
    for kind in ("mean", "max"):
        yield norm(1, 50000000, kind=kind)
    for rows, elements in ((64, 16384), (1024, 1024), (1, 1000000), (4096, 77), (16384, 64), (8, 50000), (1, 5000)):
        yield cumulative(rows, elements)
    yield cumulative(64, 16384, "f16")
    yield cumulative(4096, 512, axis=0)
    for rows, elements, k in ((128, 1000, 5), (1, 8000, 300), (32, 256, 256), (1, 50000, 50), (64, 50257, 50),
                              (8, 151936, 20), (1, 20000, 2000), (4096, 1000, 10), (100000, 64, 8),
                              (1, 1000000, 50), (512, 5000, 5000)):
        yield topk(rows, elements, k)
    for rows, elements, k in ((64, 50257, 50), (100000, 64, 8)):
        yield topk(rows, elements, k, "f32")


def draw(random):
    """Rows of 7 to 60,000 elements, at most 30 million elements in all."""
    elements = random.choice([random.randint(7, 300), random.choice([49, 64, 96, 197, 320, 384, 768, 1024, 4096]), random.randint(300, 9000),
                              random.randint(9000, 60000)])
    rows = random.choice([1, 8, 77, 300, 1024, 4096, 20000, 100000])
    rows = max(1, min(rows, 30_000_000 // elements))
    kind = random.choice(["softmax", "softmax", "layer", "layer", "mean", "max", "cumsum", "topk"])
    dtype = random.choice(["f16", "f16", "f32"])
    if kind == "softmax":
        return softmax(rows, elements, dtype)
    if kind == "cumsum":
        return cumulative(rows, elements, "f32")
    if kind == "topk":
        return topk(max(1, min(rows, 3_000_000 // elements)), elements, random.choice([1, 5, 50]))
    return norm(rows, elements, dtype, kind)

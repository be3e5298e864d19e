"""Matmuls: with weights and an epilogue (bias, GELU in both forms, SiLU and gate, residual), of two activations, batched, with
few, odd and many rows."""
import math

from grid_case import Case, Port

TOLERANCE = {"f32": 1e-4, "f16": 4e-3, "bf16": 3e-2}


def after(kind):
    """The epilogue: ONNX nodes from `z` to `y`, and the same in PyTorch."""
    from onnx import helper as h
    if kind == "gelu":
        return [h.make_node("Gelu", ["z"], ["y"])]
    if kind == "gelu_tanh":
        return [h.make_node("Gelu", ["z"], ["y"], approximate="tanh")]
    if kind == "silu":
        return [h.make_node("Sigmoid", ["z"], ["s"]), h.make_node("Mul", ["z", "s"], ["y"])]
    if kind == "relu":
        return [h.make_node("Relu", ["z"], ["y"])]
    return [h.make_node("Add", ["z", "r"], ["y"])] if kind == "residual" else [h.make_node("Identity", ["z"], ["y"])]


def linear(rows, inputs, outputs, kind="bias", dtype="f16"):
    """x [rows, inputs] times w [inputs, outputs], plus a bias, then the epilogue `kind`."""
    def nodes():
        from onnx import helper as h
        return [h.make_node("MatMul", ["x", "w"], ["p"]), h.make_node("Add", ["p", "b"], ["z"])] + after(kind), []

    def torch_call(t):
        from torch.nn import functional as f
        z = f.linear(t["x"], t["w"].t(), t["b"])
        if kind.startswith("gelu"):
            return f.gelu(z, approximate="tanh" if kind == "gelu_tanh" else "none")
        return {"silu": f.silu, "relu": f.relu, "bias": lambda v: v, "residual": lambda v: v + t.get("r")}[kind](z)

    ports = (Port("x", dtype, (rows, inputs)),)
    if kind == "residual":
        ports += (Port("r", dtype, (rows, outputs)),)
    return Case(f"linear_{kind}_{dtype}_{rows}x{inputs}x{outputs}", ports, Port("y", dtype, (rows, outputs)), nodes,
                torch_call, 2.0 * rows * inputs * outputs,
                weights=(Port("w", dtype, (inputs, outputs)), Port("b", dtype, (outputs,))), tolerance=TOLERANCE[dtype])


def gated(rows, inputs, hidden, dtype="f16"):
    """silu(x wg) * (x wu)."""
    def nodes():
        from onnx import helper as h
        return [h.make_node("MatMul", ["x", "wg"], ["z"]), h.make_node("MatMul", ["x", "wu"], ["u"]),
                h.make_node("Sigmoid", ["z"], ["s"]), h.make_node("Mul", ["z", "s"], ["g"]),
                h.make_node("Mul", ["g", "u"], ["y"])], []

    def torch_call(t):
        import torch
        return torch.nn.functional.silu(t["x"] @ t["wg"]) * (t["x"] @ t["wu"])

    return Case(f"gated_{dtype}_{rows}x{inputs}x{hidden}", (Port("x", dtype, (rows, inputs)),),
                Port("y", dtype, (rows, hidden)), nodes, torch_call, 4.0 * rows * inputs * hidden,
                weights=(Port("wg", dtype, (inputs, hidden)), Port("wu", dtype, (inputs, hidden))), tolerance=TOLERANCE[dtype])


def product(left, right, dtype="f16"):
    """A matmul of two inputs whose batch dimensions broadcast."""
    made = tuple(max(a, b) for a, b in zip(left[:-2], right[:-2])) + (left[-2], right[-1])

    def nodes():
        from onnx import helper as h
        return [h.make_node("MatMul", ["x", "v"], ["y"])], []

    return Case(f"matmul_{dtype}_{'x'.join(map(str, left))}_by_{'x'.join(map(str, right))}",
                (Port("x", dtype, left), Port("v", dtype, right)), Port("y", dtype, made), nodes,
                lambda t: t["x"] @ t["v"], 2.0 * math.prod(made) * left[-1], tolerance=TOLERANCE[dtype])


def cases():
    for rows in (577, 1576, 5480, 16384):
        for kind in ("bias", "gelu", "gelu_tanh", "silu", "residual"):
            yield linear(rows, 1024, 4096, kind)
    for rows in (256, 1576, 5480):
        yield linear(rows, 4096, 1024, "residual")
    for rows, inputs, outputs in ((1, 4096, 4096), (7, 4096, 11008), (33, 4096, 11008), (100, 20000, 64), (1000, 17, 4096),
                                  (197, 768, 2304), (1370, 768, 3072), (2048, 2048, 2048), (4096, 320, 1280), (16384, 96, 384),
                                  (50000, 64, 64), (999, 1001, 997), (128, 384, 1536), (8192, 1280, 5120), (12544, 384, 96)):
        yield linear(rows, inputs, outputs)
    for rows, inputs, outputs in ((128, 384, 1536), (1370, 768, 3072), (12544, 96, 384), (4096, 768, 3072)):
        yield linear(rows, inputs, outputs, "gelu")
    for rows, inputs, outputs in ((512, 1024, 4096), (1576, 1024, 1024), (128, 768, 3072)):
        yield linear(rows, inputs, outputs, "gelu", "bf16")
    for rows, inputs, outputs in ((577, 1024, 4096), (64, 512, 512), (2048, 768, 768)):
        yield linear(rows, inputs, outputs, "bias", "f32")
    for rows in (1, 16, 512, 2048):
        yield gated(rows, 2048, 5632)
    for left, right in (((12, 128, 64), (12, 64, 128)), ((96, 512, 64), (96, 64, 512)), ((64, 49, 32), (64, 32, 49)),
                        ((1, 1000, 1000), (16, 1000, 100)), ((16, 77, 40), (16, 40, 4096)), ((2048, 8, 8), (2048, 8, 8))):
        yield product(left, right)


def draw(random):
    """A shape near those that models have."""
    def extent(*usual):
        return random.choice([random.choice(usual), random.choice(usual), random.randint(1, max(usual))])

    rows = random.choice([1, 2, 5, 16, 31, 64, 100, 128, 197, 256, 300, 512, 785, 1024, 2000, 4096, 10000, random.randint(1, 20000)])
    inputs, outputs = extent(64, 96, 192, 320, 384, 768, 1024, 2048, 4096), extent(64, 96, 192, 320, 384, 768, 1024, 3072, 4096)
    dtype = random.choice(["f16", "f16", "f16", "bf16"])
    form = random.random()
    if form < 0.1:
        return gated(rows, inputs, outputs, dtype)
    if form < 0.3:
        batch, m, k, n = random.choice([2, 8, 12, 96]), extent(49, 77, 128, 512), extent(32, 40, 64, 512), extent(49, 64, 128, 512)
        return product((batch, m, k), (batch, k, n), dtype)
    return linear(rows, inputs, outputs, random.choice(["bias", "bias", "gelu", "gelu_tanh", "silu", "relu", "residual"]), dtype)

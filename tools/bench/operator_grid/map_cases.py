"""Operators that move or map elements: transposes, concatenations, broadcasts, gathers, resizes, pools, pads."""
import math

from grid_case import Case, Port


def one(name, operator, shape, made, torch_call, dtype="f16", tolerance=1e-3, constants=(), inputs=(), extra=(), **attributes):
    """`operator` applied to x, `inputs` and `constants`, a list of (name, values)."""
    def nodes():
        import numpy as np
        from onnx import helper, numpy_helper
        held = [numpy_helper.from_array(np.array(values), label) for label, values in constants]
        return [helper.make_node(operator, ["x"] + list(inputs), ["y"], **attributes)], held

    return Case(f"{name}_{dtype}", (Port("x", dtype, shape),) + tuple(extra), Port("y", dtype, made), nodes, torch_call, 0.0,
                tolerance=tolerance)


def text(shape):
    return "x".join(map(str, shape))


def transpose(shape, perm):
    return one(f"transpose{''.join(map(str, perm))}_{text(shape)}", "Transpose", shape, tuple(shape[p] for p in perm),
               lambda t: t["x"].permute(perm).contiguous(), perm=perm)


def gather(rows, width, count, axis=0):
    shape = (rows, width) if axis == 0 else (width, rows)
    made = (count, width) if axis == 0 else (width, count)
    return one(f"gather{axis}_{text(shape)}_by_{count}", "Gather", shape, made, lambda t: t["x"].index_select(axis, t["i"]),
               inputs=["i"], extra=(Port("i", "i64", (count,), below=rows),), axis=axis)


def resize(shape, scale, mode, corners="half_pixel"):
    import numpy as np
    made = shape[:2] + tuple(int(extent * scale) for extent in shape[2:])
    names = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}

    def torch_call(t):
        from torch.nn import functional
        if mode == "nearest":
            return functional.interpolate(t["x"], size=made[2:], mode="nearest")
        return functional.interpolate(t["x"], size=made[2:], mode=names[mode], align_corners=corners == "align_corners")

    more = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"} if mode == "nearest" else {
        "coordinate_transformation_mode": corners, "cubic_coeff_a": -0.75}
    return one(f"resize_{mode}_{text(shape)}_by_{scale}", "Resize", shape, made, torch_call, tolerance=4e-3,
               inputs=["", "", "sizes"], constants=[("sizes", np.array(made, np.int64))], mode=mode, **more)


def pool(shape, window, stride, kind):
    made = shape[:2] + tuple((extent - window) // stride + 1 for extent in shape[2:])

    def torch_call(t):
        from torch.nn import functional
        return (functional.max_pool2d if kind == "MaxPool" else functional.avg_pool2d)(t["x"], window, stride)

    return one(f"{kind}{window}_s{stride}_{text(shape)}", kind, shape, made, torch_call, tolerance=4e-3,
               kernel_shape=[window] * 2, strides=[stride] * 2)


def add(left, right):
    made = tuple(max(a, b) for a, b in zip(left, right))
    return one(f"add_{text(left)}_{text(right)}", "Add", left, made, lambda t: t["x"] + t["v"], inputs=["v"],
               extra=(Port("v", "f16", right),))


def concat(left, right, axis):
    made = tuple(a + b if d == axis else a for d, (a, b) in enumerate(zip(left, right)))
    def torch_call(t):
        import torch
        return torch.cat([t["x"], t["v"]], axis)
    return one(f"concat{axis}_{text(left)}_{text(right)}", "Concat", left, made, torch_call, inputs=["v"],
               extra=(Port("v", "f16", right),), axis=axis)


def pad(shape, pads, mode):
    import numpy as np
    before, after = pads
    made = shape[:2] + tuple(extent + before + after for extent in shape[2:])
    def torch_call(t):
        from torch.nn import functional
        return functional.pad(t["x"], [before, after] * (len(shape) - 2), {"edge": "replicate"}.get(mode, mode))
    return one(f"pad_{mode}_{text(shape)}", "Pad", shape, made, torch_call, inputs=["pads"], mode=mode, constants=[
        ("pads", np.array([0, 0] + [before] * (len(shape) - 2) + [0, 0] + [after] * (len(shape) - 2), np.int64))])


def unary(operator, shape, torch_name, dtype="f16"):
    def torch_call(t):
        import torch
        from torch.nn import functional
        return (getattr(torch, torch_name, None) or getattr(functional, torch_name))(t["x"])
    return one(f"{operator}_{text(shape)}", operator, shape, shape, torch_call, dtype, tolerance=4e-3)


def cases():
    for shape, perm in (((4096, 4096), (1, 0)), ((8, 512, 12, 64), (0, 2, 1, 3)), ((16, 64, 112, 112), (0, 2, 3, 1)),
                        ((16, 112, 112, 64), (0, 3, 1, 2)), ((1000, 999), (1, 0)), ((64, 3, 224, 224), (0, 2, 3, 1)),
                        ((32, 32, 32, 32), (3, 1, 2, 0)), ((100000, 3), (1, 0)), ((1024, 8, 7, 9), (0, 3, 2, 1))):
        yield transpose(shape, perm)
    for rows, width, count in ((50257, 768, 1024), (1000000, 16, 100000), (128, 4096, 4096), (100000, 1, 100000)):
        yield gather(rows, width, count)
    yield gather(4096, 1024, 1000, axis=1)
    for shape, scale, mode in (((8, 256, 64, 64), 2, "nearest"), ((8, 256, 64, 64), 2, "linear"), ((1, 3, 512, 512), 2, "cubic"),
                               ((1, 21, 65, 65), 8, "linear"), ((4, 64, 224, 224), 0.5, "linear")):
        yield resize(shape, scale, mode)
    yield resize((2, 128, 60, 60), 4, "linear", "align_corners")
    for shape, window, stride, kind in (((32, 64, 112, 112), 3, 2, "MaxPool"), ((32, 256, 56, 56), 2, 2, "AveragePool"),
                                        ((8, 512, 20, 20), 5, 1, "MaxPool"), ((64, 2048, 7, 7), 7, 1, "AveragePool")):
        yield pool(shape, window, stride, kind)
    for left, right in (((64, 512, 768), (1, 1, 768)), ((32, 12, 256, 256), (32, 1, 1, 256)), ((64, 256, 56, 56), (1, 256, 1, 1)),
                        ((4096, 4096), (4096, 4096)), ((1, 77, 768), (1, 77, 768)), ((999, 1, 1001), (1, 63, 1001))):
        yield add(left, right)
    for left, right, axis in (((16, 256, 64, 64), (16, 128, 64, 64), 1), ((8, 12, 1024, 64), (8, 12, 1, 64), 2),
                              ((4096, 100), (4096, 33), 1), ((1, 1000, 3), (1, 500, 3), 1)):
        yield concat(left, right, axis)
    yield pad((16, 64, 112, 112), (1, 2), "constant")
    yield pad((16, 64, 112, 112), (3, 3), "reflect")
    yield pad((4, 32, 57, 57), (1, 1), "edge")
    for operator, name in (("Erf", "erf"), ("Tanh", "tanh"), ("Exp", "exp"), ("Softplus", "softplus"), ("Gelu", "gelu"),
                           ("HardSwish", "hardswish"), ("Mish", "mish")):
        yield unary(operator, (64, 512, 768), name)
    yield unary("Sin", (1 << 24,), "sin", "f32")


def draw(random):
    """A shape of some 2 to 40 million elements, with odd extents among them."""
    def extent(*usual):
        return random.choice(list(usual) + [random.randint(2, max(usual))])

    image = (random.choice([1, 4, 16]), extent(3, 32, 64, 128), max(8, extent(28, 56, 112, 160)), max(8, extent(28, 56, 112, 160)))
    kind = random.choice(["transpose", "transpose", "gather", "resize", "pool", "add", "add", "concat", "pad", "unary"])
    if kind == "transpose":
        perm = random.sample(range(4), 4)
        return transpose(image, tuple(perm))
    if kind == "gather":
        return gather(extent(1000, 50000), extent(16, 64, 300, 768), extent(1000, 30000), random.choice([0, 0, 1]))
    if kind == "resize":
        image = image[:2] + tuple(max(8, side // 2) for side in image[2:])
        return resize(image, random.choice([2, 2, 4, 0.5]), random.choice(["nearest", "linear", "linear", "cubic"]))
    if kind == "pool":
        window = random.choice([2, 3, 5])
        return pool(image, window, random.choice([1, 2]), random.choice(["MaxPool", "AveragePool"]))
    if kind == "add":
        right = tuple(random.choice([side, side, 1]) for side in image)
        return add(image, right)
    if kind == "concat":
        axis = random.randrange(4)
        return concat(image, tuple(extent(3, 17, 64) if d == axis else e for d, e in enumerate(image)), axis)
    if kind == "pad":
        return pad(image, (random.randint(0, 3), random.randint(1, 3)), random.choice(["constant", "reflect", "edge"]))
    operator, name = random.choice([("Erf", "erf"), ("Tanh", "tanh"), ("Gelu", "gelu"), ("Sigmoid", "sigmoid"), ("Mish", "mish")])
    return unary(operator, image, name)

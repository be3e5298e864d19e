"""Convolutions in one to three dimensions and transposed ones: windows, strides, dilations, groups and odd sizes, with channels
first and constant weights."""
import math

from grid_case import Case, Port


def each(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def convolution(channels, outputs, image, window, batch=1, stride=1, dilation=1, groups=1, pad=None, transposed=False,
                dtype="f16"):
    """`image`: the spatial extents. `pad`: by default half the window. Large weights are stored with their channels last, as GPUs
    read them, so that the plan keeps them synthetic."""
    rank = len(image)
    window, stride, dilation = each(window, rank), each(stride, rank), each(dilation, rank)
    pad = each(pad, rank) if pad is not None else tuple((w - 1) * d // 2 for w, d in zip(window, dilation))
    sizes = list(zip(image, window, stride, dilation, pad))
    if transposed:
        made = tuple((x - 1) * s + (w - 1) * d + 1 - 2 * p for x, w, s, d, p in sizes)
        weight = (channels, outputs // groups) + window
    else:
        made = tuple((x + 2 * p - (w - 1) * d - 1) // s + 1 for x, w, s, d, p in sizes)
        weight = (outputs, channels // groups) + window

    def shown(letter, values, plain):
        return f"_{letter}" + "x".join(map(str, values)) if any(v != plain for v in values) else ""

    name = f"conv{'t' if transposed else ''}_{dtype}_b{batch}_{channels}to{outputs}_{'x'.join(map(str, image))}"
    name += f"_w{'x'.join(map(str, window))}" + shown("s", stride, 1) + shown("d", dilation, 1)
    name += f"_g{groups}" if groups > 1 else ""

    last = not transposed and channels // groups % 8 == 0 and 2 * math.prod(weight) > 1 << 20
    lies = (weight[0],) + window + (weight[1],) if last else weight
    shown_last = (0, rank + 1) + tuple(range(1, rank + 1))

    def nodes():
        from onnx import helper
        made = [helper.make_node("Transpose", ["w"], ["weight"], perm=shown_last)] if last else []
        node = helper.make_node("ConvTranspose" if transposed else "Conv", ["x", "weight" if last else "w", "b"], ["y"], group=groups,
                                strides=stride, dilations=dilation, pads=pad + pad)
        return made + [node], []

    def torch_call(t):
        from torch.nn import functional
        call = getattr(functional, f"conv{'_transpose' if transposed else ''}{rank}d")
        w = t["w"].permute(shown_last).contiguous() if last else t["w"]
        return call(t["x"], w, t["b"], stride=stride, padding=pad, dilation=dilation, groups=groups)

    points = math.prod(image if transposed else made)
    flops = 2.0 * batch * points * math.prod(weight)
    return Case(name, (Port("x", dtype, (batch, channels) + tuple(image)),), Port("y", dtype, (batch, outputs) + made),
                nodes, torch_call, flops, weights=(Port("w", dtype, lies), Port("b", dtype, (outputs,))),
                tolerance={"f32": 1e-4, "f16": 4e-3, "bf16": 3e-2}[dtype])


def cases():
    # Two dimensions: shapes of image networks, and neighbouring shapes.
    yield convolution(320, 320, (64, 64), 3, batch=2)
    yield convolution(2560, 1280, (16, 16), 3, batch=2)
    yield convolution(1280, 1280, (8, 8), 3, batch=2)
    yield convolution(4, 320, (64, 64), 3, batch=2)
    yield convolution(320, 4, (64, 64), 3, batch=2)
    yield convolution(64, 64, (56, 56), 3)
    yield convolution(128, 128, (256, 256), 3)
    yield convolution(256, 256, (33, 33), 3, dilation=12, pad=12)
    yield convolution(320, 320, (64, 64), 3, batch=2, stride=2)
    yield convolution(3, 64, (224, 224), 7, stride=2, batch=8)
    yield convolution(3, 768, (224, 224), 16, stride=16, pad=0, batch=8)
    yield convolution(64, 64, (56, 56), 5, batch=4)
    yield convolution(96, 96, (31, 47), (1, 7), batch=4)
    yield convolution(100, 100, (37, 41), 3, batch=4)
    yield convolution(17, 33, (37, 41), 3, batch=4)
    yield convolution(512, 512, (14, 14), 1, batch=8)
    yield convolution(255, 512, (14, 14), 3, batch=8)
    yield convolution(256, 256, (28, 28), 3, batch=4, groups=32)
    yield convolution(128, 128, (28, 28), 3, batch=4, groups=2)
    yield convolution(384, 384, (28, 28), 7, batch=4, groups=384)
    yield convolution(64, 64, (56, 56), 11, stride=4)
    yield convolution(320, 320, (64, 64), 3, batch=2, dtype="bf16")
    yield convolution(64, 64, (56, 56), 3, dtype="f32")
    yield convolution(320, 320, (32, 32), 3, dtype="f32")
    # One dimension.
    yield convolution(512, 512, (16000,), 10, stride=5, pad=0)
    yield convolution(512, 512, (3199,), 3, stride=2, pad=0)
    yield convolution(80, 512, (3000,), 3)
    yield convolution(512, 512, (3000,), 3, stride=2)
    yield convolution(256, 256, (4096,), 3, dilation=27)
    yield convolution(128, 128, (8192,), 7, dilation=9)
    yield convolution(1, 512, (80000,), 10, stride=5, pad=0)
    yield convolution(768, 768, (499,), 128, groups=16, pad=64)
    yield convolution(32, 1, (65536,), 7)
    # Three dimensions.
    yield convolution(32, 32, (32, 32, 32), 3)
    yield convolution(3, 768, (16, 224, 224), (2, 16, 16), stride=(2, 16, 16), pad=0)
    yield convolution(64, 128, (16, 28, 28), 3, stride=2)
    yield convolution(256, 256, (9, 14, 14), (3, 1, 1))
    yield convolution(128, 128, (5, 60, 104), 3)
    # Transposed.
    yield convolution(256, 128, (64, 64), 4, stride=2, pad=1, transposed=True)
    yield convolution(512, 256, (16, 16), 4, stride=2, pad=1, transposed=True, batch=8)
    yield convolution(128, 64, (64, 64), 2, stride=2, pad=0, transposed=True)
    yield convolution(128, 64, (63, 65), 3, stride=2, pad=1, transposed=True)
    yield convolution(64, 64, (56, 56), 3, transposed=True)
    yield convolution(512, 256, (800,), 16, stride=8, pad=4, transposed=True)
    yield convolution(256, 128, (6400,), 4, stride=2, pad=1, transposed=True)
    yield convolution(64, 32, (16, 16, 16), 4, stride=2, pad=1, transposed=True)


def draw(random):
    """A shape near those that models have."""
    rank = random.choice([1, 2, 2, 2, 2, 3])
    window = random.choice([1, 1, 2, 3, 3, 3, 4, 5, 7, 9] if rank < 3 else [1, 2, 3])
    stride, transposed = random.choice([1, 1, 1, 2, 3]), random.random() < 0.15
    groups = 1 if transposed else random.choice([1, 1, 1, 1, 2, 4, 16])
    channels, outputs = (groups * max(1, random.choice([3, 16, 24, 40, 64, 96, 128, 192, 256, 320, 512, random.randint(1, 400)]) // groups)
                         for _ in range(2))
    if groups == 1 and not transposed and random.random() < 0.15:
        groups = outputs = channels
    side = {1: random.choice([100, 499, 1500, 8000]), 2: random.choice([7, 14, 20, 28, 37, 56, 64, 80, 113, 160]),
            3: random.choice([8, 14, 20, 32])}[rank]
    image = tuple(max(window, side + random.choice([0, 0, 1, -3])) for _ in range(rank))
    return convolution(channels, outputs, image, window, random.choice([1, 1, 2, 8]), stride,
                       random.choice([1, 1, 1, 2]) if not transposed and window < 5 and side > 12 else 1, groups,
                       transposed=transposed, dtype=random.choice(["f16", "f16", "f16", "bf16"]))

"""Operators that read at computed places, and others with a middle or a last axis of their own: samples of pictures, regions, Fourier
transforms, the best class of each pixel, logic, rotated features."""
from grid_case import Case, Port
from map_cases import text


def case(name, inputs, output, operators, torch_call, constants=(), flops=0.0, tolerance=4e-3):
    """`operators`: (operator, its inputs, its output, attributes), one after another. `constants`: (name, values)."""
    def nodes():
        import numpy as np
        from onnx import helper, numpy_helper
        return ([helper.make_node(operator, list(into), [of], **attributes) for operator, into, of, attributes in operators],
                [numpy_helper.from_array(np.array(values), label) for label, values in constants])

    return Case(name, tuple(inputs), output, nodes, torch_call, flops, tolerance=tolerance)


def grid_sample(shape, places, mode="linear", padding="zeros", dtype="f16"):
    made = shape[:2] + places
    inputs = [Port("x", dtype, shape), Port("grid", dtype, shape[:1] + places + (len(places),))]

    def torch_call(t):
        from torch.nn import functional
        names = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
        return functional.grid_sample(t["x"], t["grid"], names[mode], padding, align_corners=False)

    # PyTorch computes places of 16 bits in 16 bits: only f32 is compared closely.
    return case(f"grid_sample_{mode}_{padding}_{text(shape)}_at_{text(places)}_{dtype}", inputs, Port("y", dtype, made),
                [("GridSample", ["x", "grid"], "y", {"mode": mode, "padding_mode": padding})], torch_call)


def roi_align(shape, boxes, bins, samples, dtype="f32"):
    inputs = [Port("x", dtype, shape), Port("boxes", dtype, (boxes, 4), fill="boxes"), Port("of", "i64", (boxes,), below=shape[0])]

    def torch_call(t):
        import torch
        from torchvision.ops import roi_align as align
        boxed = torch.cat([t["of"].to(t["boxes"].dtype)[:, None], t["boxes"]], 1)
        return align(t["x"], boxed, (bins, bins), 0.25, samples or -1, aligned=True)

    return case(f"roi_align_{text(shape)}_{boxes}_boxes_{bins}_bins_{samples}_{dtype}", inputs,
                Port("y", dtype, (boxes, shape[1], bins, bins)),
                [("RoiAlign", ["x", "boxes", "of"], "y", {"output_height": bins, "output_width": bins, "sampling_ratio": samples,
                                                          "spatial_scale": 0.25})], torch_call)


def deform(shape, outputs, window, dtype="f16"):
    rest = shape[:1] + shape[2:]
    inputs = [Port("x", dtype, shape), Port("w", dtype, (outputs, shape[1], window, window)),
              Port("offsets", dtype, (rest[0], 2 * window * window) + rest[1:])]

    def torch_call(t):
        from torchvision.ops import deform_conv2d
        return deform_conv2d(t["x"], t["offsets"], t["w"], padding=window // 2)

    flops = 2.0 * shape[0] * outputs * shape[2] * shape[3] * shape[1] * window * window
    return case(f"deform_{text(shape)}_to_{outputs}_by_{window}_{dtype}", inputs, Port("y", dtype, (shape[0], outputs) + shape[2:]),
                [("DeformConv", ["x", "w", "offsets"], "y", {"pads": [window // 2] * 4})], torch_call, flops=flops, tolerance=0.02)


def fourier(rows, points, kind="real"):
    parts, bins = (1, points // 2 + 1) if kind == "real" else (2, points)

    def torch_call(t):
        import torch
        if kind == "real":
            return torch.view_as_real(torch.fft.rfft(t["x"][..., 0]))
        whole = torch.view_as_complex(t["x"])
        return torch.view_as_real(torch.fft.ifft(whole) if kind == "inverse" else torch.fft.fft(whole))

    import numpy as np
    attributes = {"onesided": int(kind == "real"), "inverse": int(kind == "inverse")}
    return case(f"fourier_{kind}_{rows}x{points}", [Port("x", "f32", (rows, points, parts))], Port("y", "f32", (rows, bins, 2)),
                [("DFT", ["x", "", "axis"], "y", attributes)], torch_call, [("axis", np.array(1))], tolerance=1e-5)


def spectrum(rows, length, window, step):
    import numpy as np

    def torch_call(t):
        import torch
        shape = torch.hann_window(window, periodic=False, device="cuda")
        of = torch.stft(t["x"][..., 0], window, step, window=shape, center=False, return_complex=True)
        return torch.view_as_real(of).transpose(1, 2).contiguous()

    frames = (length - window) // step + 1
    return case(f"spectrum_{rows}x{length}_by_{window}_every_{step}", [Port("x", "f32", (rows, length, 1))],
                Port("y", "f32", (rows, frames, window // 2 + 1, 2)), [("STFT", ["x", "step", "window"], "y", {})], torch_call,
                [("step", np.array(step)), ("window", np.hanning(window).astype(np.float32))], tolerance=1e-4)


def classes(shape, axis, dtype="f16", operator="ArgMax"):
    def torch_call(t):
        return t["x"].argmax(axis) if operator == "ArgMax" else t["x"].softmax(axis)

    made = shape[:axis] + shape[axis + 1:] if operator == "ArgMax" else shape
    more = {"keepdims": 0} if operator == "ArgMax" else {}
    return case(f"{operator}{axis}_{text(shape)}_{dtype}", [Port("x", dtype, shape)],
                Port("y", "i64" if operator == "ArgMax" else dtype, made), [(operator, ["x"], "y", {"axis": axis, **more})],
                torch_call)


def logic(operator, left, right, dtype="bool"):
    import operator as python
    calls = {"And": python.and_, "Or": python.or_, "Less": python.lt, "Equal": python.eq}
    made = tuple(max(a, b) for a, b in zip(left, right))
    return case(f"{operator}_{text(left)}_{text(right)}_{dtype}", [Port("x", dtype, left, below=100), Port("v", dtype, right, below=100)],
                Port("y", "bool", made), [(operator, ["x", "v"], "y", {})], lambda t: calls[operator](t["x"], t["v"]))


def rotate(batch, heads, tokens, size):
    """Rotated features of 16 bits, computed in f32, as decoders are exported."""
    import numpy as np
    half = size // 2

    def torch_call(t):
        import torch
        x, c, s = t["x"].float(), t["cos"], t["sin"]
        return (x * c + torch.cat([-x[..., half:], x[..., :half]], -1) * s).to(t["x"].dtype)

    operators = [("Cast", ["x"], "wide", {"to": 1}), ("Slice", ["wide", "0", "half", "last"], "low", {}),
                 ("Slice", ["wide", "half", "end", "last"], "high", {}), ("Neg", ["high"], "minus", {}),
                 ("Concat", ["minus", "low"], "turned", {"axis": -1}), ("Mul", ["wide", "cos"], "a", {}),
                 ("Mul", ["turned", "sin"], "b", {}), ("Add", ["a", "b"], "sum", {}), ("Cast", ["sum"], "y", {"to": 10})]
    constants = [(name, np.array([value])) for name, value in (("0", 0), ("half", half), ("end", size), ("last", 3))]
    angles = (1, 1, tokens, size)
    return case(f"rotate_{batch}x{heads}x{tokens}x{size}",
                [Port("x", "f16", (batch, heads, tokens, size)), Port("cos", "f32", angles), Port("sin", "f32", angles)],
                Port("y", "f16", (batch, heads, tokens, size)), operators, torch_call, constants)


def cases():
    yield grid_sample((8, 64, 256, 256), (256, 256))
    yield grid_sample((8, 64, 256, 256), (256, 256), "cubic")
    yield grid_sample((8, 64, 256, 256), (256, 256), "nearest")
    yield grid_sample((1, 256, 64, 64), (1000, 32))
    yield grid_sample((1, 32, 32, 64, 64), (32, 64, 64))
    yield grid_sample((4, 3, 512, 512), (512, 512), padding="border", dtype="f32")
    yield roi_align((1, 256, 200, 272), 1000, 7, 2)
    yield roi_align((2, 256, 64, 64), 512, 14, 0)
    yield deform((2, 256, 64, 64), 256, 3)
    yield deform((2, 128, 32, 32), 128, 3)
    for rows, points, kind in ((256, 1024, "real"), (64, 1000, "whole"), (64, 4096, "whole"), (8192, 512, "inverse"),
                               (16, 16384, "real"), (512, 97, "whole")):
        yield fourier(rows, points, kind)
    yield spectrum(8, 160000, 400, 160)
    yield spectrum(2, 441000, 4096, 1024)
    yield classes((8, 150, 512, 512), 1)
    yield classes((1, 21, 520, 520), 1, "f32")
    yield classes((64, 50257), 1)
    yield classes((8, 150, 256, 256), 1, operator="Softmax")
    yield logic("And", (4096, 4096), (4096, 1))
    yield logic("Less", (8, 1, 1024, 1024), (8, 1, 1024, 1), "f16")
    yield logic("Equal", (4096, 1024), (4096, 1024), "i64")
    yield rotate(1, 32, 2048, 128)
    yield rotate(8, 16, 512, 64)


def draw(random):
    """A shape of some 1 to 30 million elements, with odd extents among them."""
    def extent(*usual):
        return random.choice(list(usual) + [random.randint(2, max(usual))])

    image = (random.choice([1, 2, 8]), extent(3, 32, 64, 256), max(8, extent(32, 64, 128)), max(8, extent(32, 64, 128)))
    kind = random.choice(["grid_sample", "grid_sample", "roi_align", "deform", "fourier", "fourier", "spectrum", "classes", "classes",
                          "logic", "rotate"])
    if kind == "grid_sample":
        return grid_sample(image, (extent(16, 64, 200), extent(16, 64, 200)), random.choice(["linear", "linear", "nearest", "cubic"]),
                           random.choice(["zeros", "border"]), random.choice(["f16", "f32"]))
    if kind == "roi_align":
        return roi_align(image, extent(10, 100, 1000), random.choice([7, 14]), random.choice([0, 1, 2]))
    if kind == "deform":
        return deform((image[0], max(8, image[1] // 8 * 8), image[2], image[3]), random.choice([32, 64, 256]), 3)
    if kind == "fourier":
        return fourier(extent(1, 16, 256, 2000), random.choice([128, 256, 400, 512, 960, 1024, 2048, 4096, 8192, 1009]),
                       random.choice(["real", "whole", "inverse"]))
    if kind == "spectrum":
        window = random.choice([256, 400, 512, 1024, 2048])
        return spectrum(random.choice([1, 4, 16]), extent(32000, 160000), window, window // random.choice([2, 4]))
    if kind == "classes":
        return classes(image, random.choice([1, 1, 2, 3]), random.choice(["f16", "f32"]), random.choice(["ArgMax", "Softmax"]))
    if kind == "logic":
        left = tuple(extent(8, 64, 512) for _ in range(3))
        return logic(random.choice(["And", "Or"]), left, tuple(random.choice([side, side, 1]) for side in left))
    return rotate(random.choice([1, 4]), random.choice([8, 32]), extent(1, 512, 2000), random.choice([64, 128]))

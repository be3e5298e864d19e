"""Scatters that add update rows to rows chosen by an index input: ScatterND with one index a row, ScatterElements with one an
element or with a row's index repeated; and other reductions."""
from grid_case import Case, Port


def scatter(updates, row, places, dtype="f32", form="nd", reduction="add", width=None):
    """`width`: indices are below it (default: `places`)."""
    shown = f"_{width}" if width else ""
    name = f"scatter_{form}_{reduction}_{dtype}_{updates}x{row}_into_{places}{shown}"
    index = {"nd": (updates, 1), "elements": (updates, row), "repeated": (updates, 1)}[form]
    inputs = (Port("data", dtype, (places, row)), Port("index", "i64", index, below=width or places),
              Port("updates", dtype, (updates, row)))

    def nodes():
        import numpy as np
        from onnx import helper, numpy_helper
        if form == "nd":
            return [helper.make_node("ScatterND", ["data", "index", "updates"], ["y"], reduction=reduction)], []
        made, constants, at = [], [], "index"
        if form == "repeated":
            constants.append(numpy_helper.from_array(np.array([updates, row], np.int64), "wide"))
            made.append(helper.make_node("Expand", ["index", "wide"], ["indices"]))
            at = "indices"
        made.append(helper.make_node("ScatterElements", ["data", at, "updates"], ["y"], axis=0, reduction=reduction))
        return made, constants

    def torch_call(t):
        at = t["index"] if form == "elements" else t["index"].reshape(updates, 1).expand(updates, row)
        ops = {"add": "sum", "max": "amax", "min": "amin", "mul": "prod"}
        return t["data"].scatter_reduce(0, at, t["updates"], ops[reduction])

    tolerance = {"f32": 1e-4, "f16": 0.05}[dtype]
    return Case(name, inputs, Port("y", dtype, (places, row)), nodes, torch_call, float(updates * row),
                tolerance=tolerance)


def cases():
    yield scatter(100000, 64, 10000)
    yield scatter(100000, 64, 10000, form="repeated")
    yield scatter(100000, 64, 10000, form="elements")
    yield scatter(100000, 64, 10000, dtype="f16")
    yield scatter(100000, 64, 10000, width=100)
    yield scatter(100000, 64, 10000, width=1)
    yield scatter(10000, 256, 2000)
    yield scatter(1000, 64, 50000)
    yield scatter(1000000, 1, 100000)
    yield scatter(200000, 16, 200000, reduction="max")
    yield scatter(20000, 768, 30000, dtype="f16")


def draw(random):
    places = random.choice([100, 2000, 10000, 100000])
    row = random.choice([1, 7, 16, 64, 256])
    updates = min(random.choice([1000, 10000, 100000]), 20_000_000 // row)
    form = random.choice(["nd", "repeated", "elements"]) if row > 1 else "nd"
    return scatter(updates, row, places, random.choice(["f32", "f16"]), form, random.choice(["add", "add", "max"]))

"""Models with sizes or round counts that depend on data: a detector with its suppression inside, speech of a predicted length, loops, branches."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, port = helper.make_node, helper.make_tensor_value_info


def constants(**arrays):
    return [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]


def model(nodes, inputs, outputs, held, opset=17):
    graph = helper.make_graph(nodes, "data_sizes", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def weights(random, *shape, scale=0.5):
    return (random.standard_normal(shape) * scale).astype(np.float32)


class Detector:
    """A detector: convolutions, boxes around grid centres, suppression for each class, and a row for each remaining box."""
    options, cells, classes, tolerance = [], 8, 5, 1e-3

    def make(self, random):
        side = np.arange(self.cells) * 8 + 4
        y, x = (centres.ravel() for centres in np.meshgrid(side, side, indexing="ij"))
        grid = np.stack([x, y, np.full_like(x, 12), np.full_like(x, 12)], -1)[None].astype(np.float32)
        points, channels = self.cells ** 2, 4 + self.classes
        nodes = [node("Conv", ["picture", "w"], ["low"], strides=[8, 8]), node("Relu", ["low"], ["features"]),
                 node("Conv", ["features", "heads"], ["maps"]), node("Reshape", ["maps", "flat"], ["columns"]),
                 node("Split", ["columns", "parts"], ["offsets", "logits"], axis=1), node("Sigmoid", ["logits"], ["scores"]),
                 node("Transpose", ["offsets"], ["moves"], perm=[0, 2, 1]), node("Mul", ["moves", "range"], ["moved"]),
                 node("Add", ["moved", "grid"], ["boxes"]),
                 node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["selected"], center_point_box=1),
                 node("Gather", ["selected", "two"], ["column"], axis=1), node("Squeeze", ["column", "one"], ["point"]),
                 node("Squeeze", ["boxes", "zero"], ["all_boxes"]), node("Gather", ["all_boxes", "point"], ["found"], axis=0),
                 node("GatherND", ["scores", "selected"], ["sure"]), node("Unsqueeze", ["sure", "one"], ["sure_column"]),
                 node("Gather", ["selected", "one"], ["kind"], axis=1), node("Cast", ["kind"], ["kind_column"], to=F),
                 node("Concat", ["found", "sure_column", "kind_column"], ["detections"], axis=1),
                 node("Shape", ["selected"], ["shape"]), node("Gather", ["shape", "zero"], ["number"], axis=0)]
        held = constants(w=weights(random, 16, 3, 8, 8, scale=0.1), heads=weights(random, channels, 16, 1, 1, scale=0.2),
                         flat=[1, channels, points], parts=[4, self.classes], range=np.float32([[[3, 3, 1, 1]]]), grid=grid,
                         most=[20], overlap=np.float32([0.4]), least=np.float32([0.6]), zero=[0], one=[1], two=[2])
        return model(nodes, [port("picture", F, [1, 3, self.cells * 8, self.cells * 8])],
                     [port("detections", F, [None, 6]), port("selected", I, [None, 3]), port("number", I, [1])], held)

    def draw(self, random):
        return {"picture": random.standard_normal((1, 3, self.cells * 8, self.cells * 8)).astype(np.float32)}


class Speech:
    """Predicts the number of frames for each phoneme; each frame gets its phoneme's features."""
    options, tolerance = ["--bound", "frames=80"], 1e-4

    def make(self, random):
        nodes = [node("MatMul", ["phonemes", "w"], ["hidden"]), node("MatMul", ["hidden", "wd"], ["d"]), node("Abs", ["d"], ["positive"]),
                 node("Ceil", ["positive"], ["whole"]), node("Squeeze", ["whole", "two"], ["row"]), node("Cast", ["row"], ["frames_each"], to=I),
                 node("CumSum", ["frames_each", "step"], ["ends"]), node("Sub", ["ends", "frames_each"], ["starts"]),
                 node("ReduceMax", ["ends"], ["total"], keepdims=0), node("Range", ["begin", "total", "step"], ["frames"], name="frames"),
                 node("Unsqueeze", ["frames", "both"], ["at"]), node("Unsqueeze", ["starts", "one"], ["from"]),
                 node("Unsqueeze", ["ends", "one"], ["to"]), node("GreaterOrEqual", ["at", "from"], ["behind"]),
                 node("Less", ["at", "to"], ["before"]), node("And", ["behind", "before"], ["inside"]), node("Cast", ["inside"], ["mask"], to=F),
                 node("MatMul", ["mask", "hidden"], ["stretched"]), node("MatMul", ["stretched", "wo"], ["out"]), node("Tanh", ["out"], ["speech"])]
        held = constants(w=weights(random, 8, 8), wd=weights(random, 8, 1, scale=1), wo=weights(random, 8, 3), begin=np.int64(0),
                         step=np.int64(1), one=[1], two=[2], both=[0, 2])
        return model(nodes, [port("phonemes", F, [1, 6, 8])], [port("speech", F, [1, None, 3]), port("total", I, [])], held)

    def draw(self, random):
        return {"phonemes": random.standard_normal((1, 6, 8)).astype(np.float32)}


class Vocoder:
    """Speech samples as in VITS, without noise: convolutions over the predicted number of frames, then transposed convolutions to samples."""
    options, tolerance = ["--bound", "frames=60"], 1e-4

    def make(self, random):
        channels = 8
        nodes = [node("Gather", ["table", "ids"], ["embedded"]), node("Transpose", ["embedded"], ["low"], perm=[0, 2, 1]),
                 node("Conv", ["low", "w0"], ["hidden"], pads=[1, 1]), node("Conv", ["hidden", "wd"], ["logs"]), node("Exp", ["logs"], ["spans"]),
                 node("Mul", ["spans", "pace"], ["paced"]), node("Ceil", ["paced"], ["whole"]), node("ReduceSum", ["whole", "rest"], ["sum"], keepdims=0),
                 node("Clip", ["sum", "least"], ["clipped"]), node("Cast", ["clipped"], ["number"], to=I), node("ReduceMax", ["number"], ["total"], keepdims=0),
                 node("Range", ["begin", "total", "step"], ["places"], name="frames"), node("Unsqueeze", ["places", "zero"], ["row"]),
                 node("Unsqueeze", ["number", "one"], ["ends"]), node("Less", ["row", "ends"], ["there"]), node("Unsqueeze", ["there", "one"], ["there3"]),
                 node("Cast", ["there3"], ["mask"], to=F), node("CumSum", ["whole", "axis"], ["until"]), node("Transpose", ["until"], ["column"], perm=[0, 2, 1]),
                 node("Cast", ["row"], ["row_f"], to=F), node("Unsqueeze", ["row_f", "zero"], ["row3"]), node("Less", ["row3", "column"], ["behind"]),
                 node("Cast", ["behind"], ["cumulative"], to=F), node("Pad", ["cumulative", "front"], ["padded"]),
                 node("Slice", ["padded", "none", "minus", "one"], ["shifted"]), node("Sub", ["cumulative", "shifted"], ["path"]),
                 node("MatMul", ["hidden", "path"], ["stretched"]), node("Mul", ["stretched", "mask"], ["frames_in"])]
        held = constants(table=weights(random, 20, channels), w0=weights(random, channels, channels, 3, scale=0.3), wd=weights(random, 1, channels, 1),
                         pace=np.float32(1.5), rest=[1, 2], least=np.float32(1), begin=np.int64(0), step=np.int64(1), zero=[0], one=[1], none=[0],
                         minus=[-1], axis=np.int64(2), front=[0, 1, 0, 0, 0, 0])
        at = "frames_in"
        for i in range(2):  # coupling layers: halves are swapped, and one is shifted by a function of the other
            nodes += [node("Split", [at, f"halves{i}"], [f"a{i}", f"b{i}"], axis=1), node("Conv", [f"a{i}", f"wf{i}"], [f"c{i}"], pads=[2, 2], dilations=[2]),
                      node("Tanh", [f"c{i}"], [f"t{i}"]), node("Mul", [f"t{i}", "mask"], [f"m{i}"]), node("Add", [f"b{i}", f"m{i}"], [f"d{i}"]),
                      node("Concat", [f"d{i}", f"a{i}"], [f"flow{i}"], axis=1)]
            held += constants(**{f"halves{i}": [4, 4], f"wf{i}": weights(random, 4, 4, 3)})
            at = f"flow{i}"
        for i, (stride, kernel, pad) in enumerate([(4, 8, 2), (2, 3, 1)]):
            nodes += [node("LeakyRelu", [at], [f"l{i}"], alpha=0.1), node("ConvTranspose", [f"l{i}", f"wu{i}"], [f"u{i}"], strides=[stride], pads=[pad, pad]),
                      node("Conv", [f"u{i}", f"wr{i}"], [f"r{i}"], pads=[3, 3], dilations=[3]), node("Add", [f"u{i}", f"r{i}"], [f"s{i}"])]
            held += constants(**{f"wu{i}": weights(random, 8, 8, kernel, scale=0.3), f"wr{i}": weights(random, 8, 8, 3, scale=0.2)})
            at = f"s{i}"
        nodes += [node("Conv", [at, "wo"], ["samples"], pads=[3, 3]), node("Tanh", ["samples"], ["speech"]), node("ReduceMean", ["speech"], ["loudness"], axes=[2])]
        held += constants(wo=weights(random, 1, 8, 7))
        return model(nodes, [port("ids", I, [1, 7])], [port("speech", F, [1, 1, None]), port("loudness", F, [1, 1, 1])], held)

    def draw(self, random):
        return {"ids": random.integers(0, 20, (1, 7))}


class Window:
    """Crops an image at corners from data, and resizes the piece to a size from data."""
    options, tolerance = ["--bound", "resized=12"], 1e-4

    def make(self, random):
        nodes = [node("Slice", ["picture", "from", "to", "axes"], ["piece"]), node("Resize", ["piece", "", "", "sizes"], ["large"], mode="linear", name="resized", axes=[2, 3]),
                 node("Conv", ["large", "w"], ["features"], pads=[1, 1, 1, 1]), node("GlobalAveragePool", ["features"], ["mean"]),
                 node("ReduceMax", ["features", "axes"], ["most"])]
        return model(nodes, [port("picture", F, [1, 2, 9, 11]), port("from", I, [2]), port("to", I, [2]), port("sizes", I, [2])],
                     [port("features", F, [1, 3, None, None]), port("mean", F, [1, 3, 1, 1]), port("most", F, [1, 3, 1, 1])],
                     constants(axes=[2, 3], w=weights(random, 3, 2, 3, 3)), opset=18)

    def draw(self, random):
        first = random.integers(0, 6, 2)
        return {"picture": random.standard_normal((1, 2, 9, 11)).astype(np.float32), "from": first, "to": first + random.integers(1, 6, 2),
                "sizes": random.integers(1, 13, 2)}


class Grown:
    """Repeats a row as often as data say; the rows attend to each other."""
    options, tolerance = ["--bound", "grown=10"], 1e-4

    def make(self, random):
        nodes = [node("Unsqueeze", ["times", "zero"], ["line"]), node("Concat", ["line", "width"], ["shape"], axis=0), node("Expand", ["row", "shape"], ["rows"], name="grown"),
                 node("CumSum", ["rows", "first"], ["each"]), node("MatMul", ["each", "wq"], ["q"]), node("MatMul", ["each", "wk"], ["k"]),
                 node("Transpose", ["k"], ["kt"], perm=[1, 0]), node("MatMul", ["q", "kt"], ["scores"]), node("Softmax", ["scores"], ["weights"]),
                 node("MatMul", ["weights", "each"], ["y"]), node("Shape", ["y"], ["made"])]
        return model(nodes, [port("row", F, [1, 6]), port("times", I, [])], [port("y", F, [None, 6]), port("made", I, [2])],
                     constants(zero=[0], width=[6], first=np.int64(0), wq=weights(random, 6, 6), wk=weights(random, 6, 6)))

    def draw(self, random):
        return {"row": random.standard_normal((1, 6)).astype(np.float32), "times": np.int64(random.integers(1, 11))}


class Found:
    """The mean, the softmax and the best two of the elements above a threshold; each depends on their number."""
    options, tolerance = [], 1e-4

    def make(self, _):
        nodes = [node("Greater", ["x", "least"], ["above"]), node("Compress", ["x", "above"], ["found"]), node("Softmax", ["found"], ["shares"]),
                 node("ReduceMean", ["found"], ["mean"], keepdims=0), node("ReduceMax", ["found"], ["most"], keepdims=0), node("ArgMax", ["found"], ["best"], axis=0),
                 node("Mul", ["found", "shares"], ["y"])]
        return model(nodes, [port("x", F, [20])], [port("shares", F, [None]), port("mean", F, []), port("most", F, []), port("best", I, [1]), port("y", F, [None])],
                     constants(least=np.float32(0.2)))

    def draw(self, random):
        return {"x": np.append(random.standard_normal(19), 0.3).astype(np.float32)}


class While:
    """Grows v until its sum exceeds a limit, and collects the sums."""
    options, tolerance = ["--bound", "growth=40"], 1e-5

    def make(self, _):
        nodes = [node("Mul", ["v", "factor"], ["more"]), node("Add", ["more", "addend"], ["next"]), node("ReduceSum", ["next"], ["sum"], keepdims=0),
                 node("Less", ["sum", "limit"], ["on"]), node("Identity", ["sum"], ["collected"])]
        body = helper.make_graph(nodes, "body", [port("i", I, []), port("go", B, []), port("v", F, [4])],
                                 [port("on", B, []), port("next", F, [4]), port("collected", F, [])], constants(factor=np.float32(1.5), addend=np.float32(1)))
        return model([node("ReduceSum", ["x"], ["first"], keepdims=0), node("Less", ["first", "limit"], ["begin"]),
                      node("Loop", ["", "begin", "x"], ["y", "sums"], name="growth", body=body)],
                     [port("x", F, [4]), port("limit", F, [])], [port("y", F, [4]), port("sums", F, [None])], [])

    def draw(self, random):
        return {"x": random.standard_normal(4).astype(np.float32), "limit": np.float32(random.choice([-50, 0, 5, 100, 5000]))}


class Counted:
    """A loop whose number of rounds is an input; one of its branches reads a table by the round."""
    options, tolerance = ["--bound", "y=24"], 1e-4

    def make(self, random):
        nodes = [node("Gather", ["table", "i"], ["row"], axis=0), node("Add", ["v", "row"], ["added"]), node("Tanh", ["added"], ["next"]),
                 node("Identity", ["next"], ["collected"]), node("Identity", ["go"], ["on"])]
        body = helper.make_graph(nodes, "body", [port("i", I, []), port("go", B, []), port("v", F, [4])],
                                 [port("on", B, []), port("next", F, [4]), port("collected", F, [4])])
        return model([node("Loop", ["times", "", "x"], ["y", "all"], body=body)], [port("times", I, []), port("x", F, [4])],
                     [port("y", F, [4]), port("all", F, [None, 4])], constants(table=weights(random, 24, 4)))

    def draw(self, random):
        return {"times": np.int64(random.integers(0, 25)), "x": random.standard_normal(4).astype(np.float32)}


class Branches:
    """A condition picks rows or all of them."""
    options, tolerance = [], 1e-6

    def make(self, _):
        yes = helper.make_graph([node("Mul", ["x", "x"], ["all"])], "yes", [], [port("all", F, [6, 3])])
        no = helper.make_graph([node("Slice", ["x", "start", "end"], ["some"])], "no", [], [port("some", F, [2, 3])])
        return model([node("If", ["which"], ["picked"], then_branch=yes, else_branch=no), node("Exp", ["picked"], ["y"])],
                     [port("which", B, []), port("x", F, [6, 3])], [port("y", F, [None, 3])], constants(start=[1], end=[3]))

    def draw(self, random):
        return {"which": np.bool_(random.integers(2)), "x": random.standard_normal((6, 3)).astype(np.float32)}


class Skipped:
    """Matmuls in nested branches, and in a loop within a branch; enough of them that kernels test the conditions."""
    options, tolerance, edge = ["--bound", "rounds=20"], 1e-4, 48

    def make(self, random):
        square = [self.edge, self.edge]
        yes = helper.make_graph([node("MatMul", ["xa", "b"], ["xab"]), node("Tanh", ["xab"], ["deep"])], "inner_yes", [], [port("deep", F, square)])
        no = helper.make_graph([node("Softmax", ["xa"], ["soft"])], "inner_no", [], [port("soft", F, square)])
        left = helper.make_graph([node("MatMul", ["x", "a"], ["xa"]), node("If", ["d"], ["inner"], then_branch=yes, else_branch=no),
                                  node("Add", ["inner", "x"], ["left"])], "left", [], [port("left", F, square)])
        body = helper.make_graph([node("MatMul", ["v", "a"], ["va"]), node("Tanh", ["va"], ["next"]),
                                  node("Identity", ["go"], ["on"])], "body", [port("i", I, []), port("go", B, []), port("v", F, square)],
                                 [port("on", B, []), port("next", F, square)])
        right = helper.make_graph([node("Loop", ["times", "", "x"], ["last"], name="rounds", body=body), node("Add", ["last", "x"], ["right"])], "right", [], [port("right", F, square)])
        return model([node("If", ["c"], ["y"], then_branch=left, else_branch=right)],
                     [port("c", B, []), port("d", B, []), port("times", I, []), port("x", F, square)], [port("y", F, square)],
                     constants(a=weights(random, *square, scale=0.1), b=weights(random, *square, scale=0.1)))

    def draw(self, random):
        return {"c": np.bool_(random.integers(2)), "d": np.bool_(random.integers(2)), "times": np.int64(random.integers(0, 21)),
                "x": random.standard_normal((self.edge, self.edge)).astype(np.float32)}


class Places:
    """Indices and values of a matrix above a threshold, and its rows that begin above it."""
    options, tolerance = [], 1e-6

    def make(self, _):
        nodes = [node("Greater", ["x", "least"], ["above"]), node("NonZero", ["above"], ["places"]), node("Transpose", ["places"], ["indices"], perm=[1, 0]),
                 node("GatherND", ["x", "indices"], ["values"]), node("Slice", ["above", "zero", "one", "one"], ["column"]),
                 node("Squeeze", ["column", "one"], ["begins"]), node("Compress", ["x", "begins"], ["rows"], axis=0)]
        return model(nodes, [port("x", F, [5, 7])], [port("places", I, [2, None]), port("values", F, [None]), port("rows", F, [None, 7])],
                     constants(least=np.float32(0.3), zero=[0], one=[1]))

    def draw(self, random):
        return {"x": random.standard_normal((5, 7)).astype(np.float32)}


ALL = {"detector": Detector(), "speech": Speech(), "vocoder": Vocoder(), "window": Window(), "grown": Grown(), "found": Found(), "while": While(), "counted": Counted(), "branches": Branches(), "skipped": Skipped(), "places": Places()}

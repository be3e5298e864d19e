"""Models whose sizes or rounds data decide: a detector with its suppression inside, speech of a predicted length, loops, branches."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, port = helper.make_node, helper.make_tensor_value_info


def constants(**arrays):
    return [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]


def model(nodes, inputs, outputs, held):
    graph = helper.make_graph(nodes, "data_sizes", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weights(random, *shape, scale=0.5):
    return (random.standard_normal(shape) * scale).astype(np.float32)


class Detector:
    """Convolutions, boxes around the centres of a grid, suppression for each class, and a row for each box that is left."""
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
    """How many frames each phoneme takes is predicted; each frame has its phoneme's features."""
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


class While:
    """v grows until its sum passes a limit; the sums are collected."""
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
    """An input says how often a loop runs; one of its branches reads a table by the round."""
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
    """Products in branches within one another, and in the rounds of a loop within a branch: enough of them that kernels look at the conditions."""
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
    """Where a matrix is above a threshold, what stands there, and its rows that begin so."""
    options, tolerance = [], 1e-6

    def make(self, _):
        nodes = [node("Greater", ["x", "least"], ["above"]), node("NonZero", ["above"], ["places"]), node("Transpose", ["places"], ["indices"], perm=[1, 0]),
                 node("GatherND", ["x", "indices"], ["values"]), node("Slice", ["above", "zero", "one", "one"], ["column"]),
                 node("Squeeze", ["column", "one"], ["begins"]), node("Compress", ["x", "begins"], ["rows"], axis=0)]
        return model(nodes, [port("x", F, [5, 7])], [port("places", I, [2, None]), port("values", F, [None]), port("rows", F, [None, 7])],
                     constants(least=np.float32(0.3), zero=[0], one=[1]))

    def draw(self, random):
        return {"x": random.standard_normal((5, 7)).astype(np.float32)}


ALL = {"detector": Detector(), "speech": Speech(), "while": While(), "counted": Counted(), "branches": Branches(), "skipped": Skipped(), "places": Places()}

"""Small networks as ONNX models with random weights (a fixed seed), for quantised_models.py: an encoder, and image networks of
kinds that are often quantised, for any image size. Batch norms are folded into the convolutions."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Maker:
    """A graph that grows node by node; `add` returns the name of the node's result."""

    def __init__(self, seed):
        self.random, self.nodes, self.constants = np.random.default_rng(seed), [], []

    def add(self, op, *inputs, **attributes):
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape, fan):
        return self.constant((self.random.standard_normal(shape) * fan ** -0.5).astype(np.float32))

    def vector(self, n, around=0.0):
        return self.constant((around + 0.1 * self.random.standard_normal(n)).astype(np.float32))

    def model(self, x, y, shape):
        ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)] for name, dims in ((x, shape), (y, None))]
        graph = helper.make_graph(self.nodes, "main", *ports, self.constants)
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def dense(m, x, inputs, outputs):
    return m.add("Add", m.add("MatMul", x, m.weight(inputs, outputs, fan=inputs)), m.vector(outputs))


def encoder(layers=6, width=384, heads=12, inner=1536, rows=128):
    m, x, size = Maker(1), "x", width // heads
    split = m.constant(np.array([1, rows, heads, size]))
    joined = m.constant(np.array([1, rows, width]))
    def heads_of(x, perm):
        return m.add("Transpose", m.add("Reshape", x, split), perm=perm)

    def norm(x):
        return m.add("LayerNormalization", x, m.vector(width, 1), m.vector(width), axis=-1)

    for _ in range(layers):
        q, k, v = (heads_of(dense(m, x, width, width), perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = m.add("Mul", m.add("MatMul", q, k), m.constant(np.float32(size ** -0.5)))
        mixed = m.add("MatMul", m.add("Softmax", scores, axis=-1), v)
        mixed = m.add("Reshape", m.add("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
        x = norm(m.add("Add", dense(m, mixed, width, width), x))
        h = dense(m, x, width, inner)
        erf = m.add("Erf", m.add("Div", h, m.constant(np.float32(2 ** 0.5))))
        gelu = m.add("Mul", m.add("Mul", h, m.add("Add", erf, m.constant(np.float32(1)))), m.constant(np.float32(0.5)))
        x = norm(m.add("Add", dense(m, gelu, inner, width), x))
    return m.model("x", x, [1, rows, width])


def resnet18(image=224):
    m = Maker(2)

    def conv(x, inputs, outputs, size, stride, relu=True):
        pad = size // 2
        y = m.add("Conv", x, m.weight(outputs, inputs, size, size, fan=inputs * size * size / (2 if relu else 1)), m.vector(outputs),
                  kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4)
        return m.add("Relu", y) if relu else y

    x, channels = conv("x", 3, 64, 7, 2), 64
    x = m.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        past = x if channels == outputs else conv(x, channels, outputs, 1, stride, relu=False)
        x = conv(conv(x, channels, outputs, 3, stride), outputs, outputs, 3, 1, relu=False)
        x, channels = m.add("Relu", m.add("Add", x, past)), outputs
    x = m.add("Flatten", m.add("GlobalAveragePool", x))
    y = m.add("Gemm", x, m.weight(1000, 512, fan=512), m.vector(1000), transB=1)
    return m.model("x", y, [1, 3, image, image])


def mobilenet(image=128):
    m = Maker(4)

    def conv(x, inputs, outputs, size, stride=1, groups=1, clip=True):
        y = m.add("Conv", x, m.weight(outputs, inputs // groups, size, size, fan=inputs // groups * size * size), m.vector(outputs),
                  kernel_shape=[size, size], strides=[stride, stride], pads=[size // 2] * 4, group=groups)
        return m.add("Clip", y, m.constant(np.float32(0)), m.constant(np.float32(6))) if clip else y

    x, channels = conv("x", 3, 32, 3, 2), 32
    for outputs, stride, wider in ((16, 1, 1), (24, 2, 6), (24, 1, 6), (32, 2, 6), (32, 1, 6), (64, 2, 6), (64, 1, 6), (96, 1, 6),
                                   (160, 2, 6), (160, 1, 6)):
        inner = channels * wider
        y = conv(x, channels, inner, 1) if wider > 1 else x
        y = conv(conv(y, inner, inner, 3, stride, inner), inner, outputs, 1, clip=False)
        x, channels = m.add("Add", y, x) if stride == 1 and channels == outputs else y, outputs
    x = m.add("Flatten", m.add("GlobalAveragePool", conv(x, channels, 640, 1)))
    y = m.add("Gemm", x, m.weight(1000, 640, fan=640), m.vector(1000), transB=1)
    return m.model("x", y, [1, 3, image, image])


class Images(Maker):
    """Layers of image networks. Remembers the channels of each result, and scales weights so that values stay about as large as the input."""

    def __init__(self, seed, image):
        super().__init__(seed)
        self.image, self.channels = image, {"x": 3}

    def of(self, channels, op, *inputs, **attributes):
        y = self.add(op, *inputs, **attributes)
        self.channels[y] = channels
        return y

    def same(self, op, x, *inputs, **attributes):
        return self.of(self.channels[x], op, x, *inputs, **attributes)

    def conv(self, x, outputs, size=3, stride=1, groups=1, pad=None, gain=2.0):
        inner, pad = self.channels[x] // groups, size // 2 if pad is None else pad
        return self.of(outputs, "Conv", x, self.weight(outputs, inner, size, size, fan=inner * size * size / gain), self.vector(outputs),
                       kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4, group=groups)

    def deconv(self, x, outputs):
        """Doubles height and width."""
        inner = self.channels[x]
        return self.of(outputs, "ConvTranspose", x, self.weight(inner, outputs, 2, 2, fan=inner), self.vector(outputs),
                       kernel_shape=[2, 2], strides=[2, 2])

    def relu(self, x):
        return self.same("Relu", x)

    def relu6(self, x):
        return self.same("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6)))

    def hard_swish(self, x):
        return self.same("HardSwish", x)

    def silu(self, x):
        return self.same("Mul", x, self.add("Sigmoid", x))

    def squeezed(self, x, inner, act, gate, **attributes):
        """Squeeze-and-excitation: a small network computes a scale per channel from the channels' means."""
        y = self.same("GlobalAveragePool", x)
        y = self.conv(act(self.conv(y, inner, 1)), self.channels[x], 1)
        return self.same("Mul", x, self.add(gate, y, **attributes))

    def max_pool(self, x, size=3, stride=2, pad=0):
        return self.same("MaxPool", x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def concat(self, *xs):
        return self.of(sum(self.channels[x] for x in xs), "Concat", *xs, axis=1)

    def head(self, x, classes=1000):
        x, n = self.add("Flatten", self.add("GlobalAveragePool", x)), self.channels[x]
        y = self.add("Gemm", x, self.weight(classes, n, fan=n), self.vector(classes), transB=1)
        return self.finish(y)

    def finish(self, y):
        return self.model("x", y, [1, 3, self.image, self.image])


def squeezenet(image):
    """SqueezeNet 1.1."""
    m = Images(5, image)

    def fire(x, inner, outputs):
        x = m.relu(m.conv(x, inner, 1))
        return m.concat(m.relu(m.conv(x, outputs, 1)), m.relu(m.conv(x, outputs, 3)))

    x = m.max_pool(m.relu(m.conv("x", 64, 3, 2, pad=0)))
    x = m.max_pool(fire(fire(x, 16, 64), 16, 64))
    x = m.max_pool(fire(fire(x, 32, 128), 32, 128))
    for inner, outputs in ((48, 192), (48, 192), (64, 256), (64, 256)):
        x = fire(x, inner, outputs)
    x = m.relu(m.conv(x, 1000, 1))
    return m.finish(m.add("Flatten", m.add("GlobalAveragePool", x)))


def mobilenet_v2(image):
    m = Images(6, image)
    x = m.relu6(m.conv("x", 32, 3, 2))
    for wider, outputs, count, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                         (6, 320, 1, 1)):
        for stride in [first] + [1] * (count - 1):
            inner = m.channels[x] * wider
            y = m.relu6(m.conv(x, inner, 1)) if wider > 1 else x
            y = m.conv(m.relu6(m.conv(y, inner, 3, stride, groups=inner)), outputs, 1, gain=1)
            x = m.same("Add", y, x) if stride == 1 and m.channels[x] == outputs else y
    return m.head(m.relu6(m.conv(x, 1280, 1)))


def mobilenet_v3(image):
    """MobileNetV3 small: squeeze-and-excitation, hard swish, kernels of 5."""
    m = Images(7, image)
    x = m.hard_swish(m.conv("x", 16, 3, 2))
    for size, inner, outputs, squeezed, act, stride in (
            (3, 16, 16, 8, m.relu, 2), (3, 72, 24, 0, m.relu, 2), (3, 88, 24, 0, m.relu, 1), (5, 96, 40, 24, m.hard_swish, 2),
            (5, 240, 40, 64, m.hard_swish, 1), (5, 240, 40, 64, m.hard_swish, 1), (5, 120, 48, 32, m.hard_swish, 1),
            (5, 144, 48, 40, m.hard_swish, 1), (5, 288, 96, 72, m.hard_swish, 2), (5, 576, 96, 144, m.hard_swish, 1),
            (5, 576, 96, 144, m.hard_swish, 1)):
        y = act(m.conv(x, inner, 1)) if inner != m.channels[x] else x
        y = act(m.conv(y, inner, size, stride, groups=inner))
        if squeezed:
            y = m.squeezed(y, squeezed, m.relu, "HardSigmoid", alpha=1 / 6, beta=0.5)
        y = m.conv(y, outputs, 1, gain=1)
        x = m.same("Add", y, x) if stride == 1 and m.channels[x] == outputs else y
    return m.head(m.hard_swish(m.conv(x, 576, 1)))


def efficientnet(image):
    """A smaller EfficientNet-B0: fewer of its blocks, with SiLU and squeeze-and-excitation."""
    m = Images(8, image)
    x = m.silu(m.conv("x", 32, 3, 2))
    for size, wider, outputs, count, first in ((3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (5, 6, 40, 2, 2), (3, 6, 80, 2, 2), (5, 6, 112, 2, 1),
                                               (5, 6, 192, 2, 2)):
        for stride in [first] + [1] * (count - 1):
            inputs = m.channels[x]
            y = m.silu(m.conv(x, inputs * wider, 1)) if wider > 1 else x
            y = m.silu(m.conv(y, inputs * wider, size, stride, groups=inputs * wider))
            y = m.conv(m.squeezed(y, inputs // 4, m.silu, "Sigmoid"), outputs, 1, gain=1)
            x = m.same("Add", y, x) if stride == 1 and inputs == outputs else y
    return m.head(m.silu(m.conv(x, 1280, 1)))


def shufflenet(image):
    """ShuffleNet V2: channels are split in halves and shuffled."""
    m = Images(9, image)
    side = image // 4

    def shuffle(x, side):
        n = m.channels[x]
        y = m.add("Reshape", x, m.constant(np.array([1, 2, n // 2, side, side])))
        return m.of(n, "Reshape", m.add("Transpose", y, perm=[0, 2, 1, 3, 4]), m.constant(np.array([1, n, side, side])))

    def branch(x, outputs, stride):
        y = m.conv(m.relu(m.conv(x, outputs, 1)), outputs, 3, stride, groups=outputs, gain=1)
        return m.relu(m.conv(y, outputs, 1))

    def half(x, begin, end):
        return m.of(end - begin, "Slice", x, *(m.constant(np.array([v])) for v in (begin, end, 1)))

    x = m.max_pool(m.relu(m.conv("x", 24, 3, 2)), pad=1)
    for outputs, count in ((116, 4), (232, 8), (464, 4)):
        side //= 2
        n = outputs // 2
        past = m.relu(m.conv(m.conv(x, m.channels[x], 3, 2, groups=m.channels[x], gain=1), n, 1))
        x = shuffle(m.concat(past, branch(x, n, 2)), side)
        for _ in range(count - 1):
            x = shuffle(m.concat(half(x, 0, n), branch(half(x, n, outputs), n, 1)), side)
    return m.head(m.relu(m.conv(x, 1024, 1)))


def densenet(image):
    """DenseNet with blocks of 4, 6, 8 and 6 layers, each of which reads all layers before it. Norms before a convolution are not folded."""
    m = Images(10, image)

    def norm(x):
        n = m.channels[x]
        return m.relu(m.same("BatchNormalization", x, m.vector(n, 1), m.vector(n), m.vector(n),
                             m.constant((1 + m.random.random(n)).astype(np.float32))))

    x = m.max_pool(m.relu(m.conv("x", 64, 7, 2)), pad=1)
    for number, layers in enumerate((4, 6, 8, 6)):
        for _ in range(layers):
            x = m.concat(x, m.conv(m.relu(m.conv(norm(x), 128, 1)), 32, 3))
        if number < 3:
            x = m.same("AveragePool", m.conv(norm(x), m.channels[x] // 2, 1), kernel_shape=[2, 2], strides=[2, 2])
    return m.head(norm(x))


def unet(image, up):
    """A segmentation network of 5 levels with 16 to 256 channels. `up` enlarges: "ConvTranspose" or "Resize"."""
    m = Images(11, image)
    scales = m.constant(np.array([1, 1, 2, 2], np.float32))

    def pair(x, outputs):
        return m.relu(m.conv(m.relu(m.conv(x, outputs)), outputs))

    def larger(x, outputs):
        if up == "ConvTranspose":
            return m.deconv(x, outputs)
        return m.conv(m.same("Resize", x, "", scales, mode="linear", coordinate_transformation_mode="half_pixel"), outputs, 1)

    levels = [pair("x", 16)]
    for outputs in (32, 64, 128, 256):
        levels.append(pair(m.max_pool(levels[-1], 2), outputs))
    x = levels.pop()
    while levels:
        past = levels.pop()
        x = pair(m.concat(larger(x, m.channels[past]), past), m.channels[past])
    return m.finish(m.conv(x, 8, 1, gain=1))


# Networks by name; each takes the image's side in pixels.
IMAGE_NETWORKS = {
    "squeezenet": squeezenet,
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3": mobilenet_v3,
    "efficientnet": efficientnet,
    "shufflenet": shufflenet,
    "densenet": densenet,
    "unet": lambda image: unet(image, "ConvTranspose"),
    "unet_resize": lambda image: unet(image, "Resize"),
}

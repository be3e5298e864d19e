#!/usr/bin/env python3
"""Measures how the compiler's time and memory grow with the number of nodes.

Makes ONNX models of several families and sizes (without any package: protobuf's wire format is a few lines),
compiles each with `rondo compile`, and prints a table: nodes, user CPU seconds and peak memory of the compile, and
the exponent of growth since the previous size (log of the ratio of seconds over log of the ratio of nodes).

  tools/bench/compile_scale.py                                    all families at 1,000 and 10,000 nodes
  tools/bench/compile_scale.py --sizes 1000,10000,50000 --families mlp,attention --also check
  tools/bench/compile_scale.py --make chain 30000 chain.onnx      one model, to look at
  tools/bench/compile_scale.py --rondo OLD --rondo NEW            pairs, side by side
"""
import argparse
import math
import os
import pathlib
import resource
import signal
import struct
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOAT, INT64 = 1, 7

# ------------------------------------------------------------------------------------------ ONNX, written by hand


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def field(tag, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(tag << 3 | 2) + varint(len(data)) + data


def value_info(name, dims, kind=FLOAT):
    shape = b"".join(field(1, field(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, number(1, kind) + field(2, shape)))


class Model:
    """A graph under construction; nodes are connected by the names of values."""

    def __init__(self):
        self.body, self.nodes, self.made = [], 0, 0

    def node(self, op, inputs, outputs=1, called=None, **attributes):
        names = [called] if called else [f"v{self.made + k}" for k in range(outputs)]
        self.made += outputs
        self.nodes += 1
        text = b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in names)
        text += field(3, f"{op}_{self.nodes}") + field(4, op)
        for key, value in attributes.items():
            if isinstance(value, list):
                kind = b"".join(number(8, v) for v in value) + number(20, 7)
            elif isinstance(value, float):
                kind = varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
            else:
                kind = number(3, value) + number(20, 2)
            text += field(5, field(1, key) + kind)
        self.body.append(field(1, text))
        return names[0] if outputs == 1 else names

    def constant(self, dims, kind, raw):
        name = f"c{self.made}"
        self.made += 1
        tensor = b"".join(number(1, d) for d in dims) + number(2, kind) + field(8, name) + field(9, raw)
        self.body.append(field(5, tensor))
        return name

    def floats(self, dims, seed=0):
        count = math.prod(dims)
        # The numbers are arbitrary, but no two tensors are equal.
        raw = b"".join(struct.pack("<f", ((seed * 7919 + i * 104729) % 2003 - 1001) / 4096 + seed / 65536)
                       for i in range(count))
        return self.constant(dims, FLOAT, raw)

    def ints(self, values):
        return self.constant([len(values)], INT64, struct.pack(f"<{len(values)}q", *values))

    def input(self, dims, called=None, kind=FLOAT):
        name = called or f"in{self.made}"
        self.made += 1
        self.body.append(field(11, value_info(name, dims, kind)))
        return name

    def output(self, name):
        self.body.append(field(12, field(1, name)))

    def write(self, path):
        graph = b"".join(self.body) + field(2, "scale")
        path.write_bytes(number(1, 9) + field(8, field(1, "") + number(2, 20)) + field(7, graph))


# --------------------------------------------------------------------------------------------------- the families


def chain(m, n):
    """Cheap unary operators, one after the other."""
    x = m.input([64])
    for i in range(n):
        x = m.node(("Neg", "Abs", "Exp", "Tanh")[i % 4], [x])
    m.output(x)


def constants(m, n):
    """Additions of distinct small constants, each a tensor operand."""
    x = m.input([16])
    for i in range(n):
        x = m.node("Add", [x, m.floats([16], i + 1)])
    m.output(x)


def scalars(m, n):
    """Additions and products of distinct scalars."""
    x = m.input([16])
    for i in range(n):
        x = m.node("Add" if i % 2 else "Mul", [x, m.floats([], i + 1)])
    m.output(x)


def wide(m, n):
    """Parallel chains of ten nodes, summed up at the end."""
    x, ends = m.input([32]), []
    for i in range(max(1, n // 11)):
        y = m.node("Mul", [x, m.floats([], i + 1)])
        for k in range(9):
            y = m.node(("Tanh", "Neg", "Exp")[k % 3], [y])
        ends.append(y)
    total = ends[0]
    for y in ends[1:]:
        total = m.node("Add", [total, y])
    m.output(total)


def fan(m, n):
    """One value that all nodes read; sums in a tree."""
    x = m.input([32])
    level = [m.node("Mul", [x, m.floats([], i + 1)]) for i in range(max(2, n // 2))]
    while len(level) > 1:
        level = [m.node("Add", level[i:i + 2]) if i + 1 < len(level) else level[i]
                 for i in range(0, len(level), 2)]
    m.output(level[0])


def ladder(m, n):
    """Every node reads the two before it."""
    x, y = m.input([16]), m.input([16])
    for i in range(n):
        x, y = y, m.node(("Add", "Mul", "Max")[i % 3], [x, y])
    m.output(y)


def mlp(m, n):
    """Matmul, bias, ReLU."""
    x = m.input([4, 8])
    for i in range(n // 3):
        x = m.node("MatMul", [x, m.floats([8, 8], 2 * i)])
        x = m.node("Relu", [m.node("Add", [x, m.floats([8], 2 * i + 1)])])
    m.output(x)


def shared(m, n):
    """The same as mlp, with one weight for all layers."""
    x, w, b = m.input([4, 8]), m.floats([8, 8], 1), m.floats([8], 2)
    for _ in range(n // 3):
        x = m.node("Relu", [m.node("Add", [m.node("MatMul", [x, w]), b])])
    m.output(x)


def norm(m, x, seed):
    mean = m.node("ReduceMean", [x, m.axes], keepdims=1)
    centred = m.node("Sub", [x, mean])
    square = m.node("ReduceMean", [m.node("Mul", [centred, centred]), m.axes], keepdims=1)
    deviation = m.node("Sqrt", [m.node("Add", [square, m.epsilon])])
    return m.node("Mul", [m.node("Div", [centred, deviation]), m.floats([8], seed)])


def attention(m, n):
    """Transformer blocks: norm, four matmuls, softmax, MLP; 27 nodes each."""
    m.axes, m.epsilon, scale = m.ints([-1]), m.floats([], 1), m.floats([], 2)
    split, join = m.ints([1, 4, 2, 4]), m.ints([1, 4, 8])
    x, seed = m.input([1, 4, 8]), 10
    while m.nodes + 13 < n:
        h = norm(m, x, seed)
        heads = []
        for k in range(3):
            y = m.node("Reshape", [m.node("MatMul", [h, m.floats([8, 8], seed + 1 + k)]), split])
            heads.append(m.node("Transpose", [y], perm=[0, 2, 3, 1] if k == 1 else [0, 2, 1, 3]))
        scores = m.node("Mul", [m.node("MatMul", heads[:2]), scale])
        mixed = m.node("MatMul", [m.node("Softmax", [scores], axis=-1), heads[2]])
        mixed = m.node("Reshape", [m.node("Transpose", [mixed], perm=[0, 2, 1, 3]), join])
        x = m.node("Add", [x, m.node("MatMul", [mixed, m.floats([8, 8], seed + 4)])])
        h = m.node("Relu", [m.node("MatMul", [norm(m, x, seed + 5), m.floats([8, 16], seed + 6)])])
        x = m.node("Add", [x, m.node("MatMul", [h, m.floats([16, 8], seed + 7)])])
        seed += 8
    m.output(x)


def convolutions(m, n):
    """Residual blocks: convolution, scale, shift, ReLU, twice."""
    x = m.input([1, 4, 4, 4])
    for i in range(max(1, n // 9)):
        y = x
        for k in range(2):
            seed = 8 * i + 4 * k
            y = m.node("Conv", [y, m.floats([4, 4, 3, 3], seed)], pads=[1, 1, 1, 1])
            y = m.node("Add", [m.node("Mul", [y, m.floats([4, 1, 1], seed + 1)]), m.floats([4, 1, 1], seed + 2)])
            y = m.node("Relu", [y]) if k == 0 else y
        x = m.node("Relu", [m.node("Add", [x, y])])
    m.output(x)


def outputs(m, n):
    """Every node's value is an output."""
    x = m.input([16])
    for i in range(n):
        m.output(m.node("Mul", [x, m.floats([], i + 1)]))


def chained_outputs(m, n):
    """A chain in which every second value is an output."""
    x = m.input([16])
    for i in range(n):
        x = m.node("Tanh" if i % 2 else "Neg", [x])
        if i % 2:
            m.output(x)


def inputs(m, n):
    """The sum of as many inputs as nodes."""
    x = m.input([16])
    for i in range(n):
        x = m.node("Add", [m.node("Tanh", [x]) if i % 16 == 15 else x, m.input([16])])
    m.output(x)


def concats(m, n):
    """Repeats: split in two, change one half, concatenate."""
    x = m.input([4, 16])
    for i in range(n // 4):
        a, b = m.node("Split", [x], outputs=2, axis=1, num_outputs=2)
        x = m.node("Concat", [m.node("Tanh", [b]), m.node("Exp", [a])], axis=1)
    m.output(x)


def long_concat(m, n):
    """One concatenation of very many pieces."""
    x = m.input([4])
    m.output(m.node("Concat", [m.node("Mul", [x, m.floats([], i + 1)]) for i in range(n - 1)], axis=0))


def slices(m, n):
    """Many slices of one tensor, each changed, summed up."""
    half = n // 3
    x, one, axis = m.input([half + 8]), m.ints([1]), m.ints([0])
    total = None
    for i in range(half):
        y = m.node("Tanh", [m.node("Slice", [x, m.ints([i]), m.ints([i + 8]), axis])])
        total = y if total is None else m.node("Add", [total, y])
    m.output(total)


def views(m, n):
    """Many reshapes and transposes, with a computing node after every sixteenth."""
    x = m.input([2, 3, 4])
    flat, deep = m.ints([24]), m.ints([4, 3, 2])
    for i in range(n // 4):
        x = m.node("Transpose", [x], perm=[1, 0, 2])
        x = m.node("Transpose", [x], perm=[2, 0, 1])
        x = m.node("Reshape", [m.node("Reshape", [x, flat]), deep])
        if i % 4 == 3:
            x = m.node("Tanh", [x])
    m.output(x)


def softmaxes(m, n):
    """Row reductions with elementwise nodes between them."""
    x = m.input([4, 16])
    for i in range(n // 3):
        x = m.node("Add", [m.node("Softmax", [m.node("Mul", [x, m.floats([16], i)])], axis=-1), x])
    m.output(x)


def gathers(m, n):
    """Rows looked up in a table by a constant index."""
    x = m.input([4, 16])
    for i in range(n // 2):
        x = m.node("Tanh", [m.node("Gather", [x, m.ints([i % 4, (i // 4) % 4, 3, 1])], axis=0)])
    m.output(x)


def caches(m, n):
    """One state for every three nodes: each layer writes a row of its state and reads the state."""
    x, row = m.input([1, 8]), m.input([1, 1], kind=INT64)
    axes = m.ints([0])
    for i in range(n // 3):
        cache = m.input([4, 8], called=f"cache{i}")
        written = m.node("ScatterND", [cache, row, x], called=f"cache{i}_out")
        m.output(written)
        x = m.node("Tanh", [m.node("ReduceSum", [written, axes], keepdims=1)])
    m.output(x)


def shown_caches(m, n):
    """The same, but each cache before its write is also an output, so it must be copied."""
    x, row = m.input([1, 8]), m.input([1, 1], kind=INT64)
    axes = m.ints([0])
    for i in range(n // 4):
        cache = m.input([4, 8], called=f"cache{i}")
        m.output(m.node("Identity", [cache]))
        written = m.node("ScatterND", [cache, row, x], called=f"cache{i}_out")
        m.output(written)
        x = m.node("Tanh", [m.node("ReduceSum", [written, axes], keepdims=1)])
    m.output(x)


def repeated(m, n):
    """Many equal nodes."""
    x = m.input([16])
    total = x
    for i in range(n // 2):
        total = m.node("Add" if i % 8 else "Max", [total, m.node("Tanh", [x])])
    m.output(total)


def distinct(m, n):
    """Softmaxes of rows of different lengths: one kernel for every two nodes."""
    for i in range(n // 2):
        m.output(m.node("Tanh", [m.node("Softmax", [m.input([4, 8 + i])], axis=-1)]))


FAMILIES = [chain, constants, scalars, wide, fan, ladder, mlp, shared, attention, convolutions, outputs,
            chained_outputs, inputs, concats, long_concat, slices, views, softmaxes, gathers, caches,
            shown_caches, repeated, distinct]

# ------------------------------------------------------------------------------------------------------ measuring


def run(command, seconds, gigabytes):
    """User CPU seconds, peak MiB and the error ("" if none)."""
    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))
    errors = tempfile.TemporaryFile()
    pid = os.fork()
    if pid == 0:
        limits()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(errors.fileno(), 2)
        os.execv(command[0], command)
    _, status, usage = os.wait4(pid, 0)
    wrong = ""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        wrong = f"over {seconds} s" if number == signal.SIGXCPU else signal.Signals(number).name
    elif os.WEXITSTATUS(status) != 0:
        errors.seek(0)
        wrong = errors.read().decode(errors="replace").strip().split("\n")[-1][:110] or "failed"
    return usage.ru_utime, usage.ru_maxrss / 1024, wrong


def run_often(command, seconds, gigabytes, least):
    """The mean time of `run`, repeated until the runs have taken `least` seconds."""
    runs, total = 0, 0
    while True:
        took, megabytes, wrong = run(command, seconds, gigabytes)
        runs, total = runs + 1, total + took
        if wrong or total >= least or runs == 50:
            return total / runs, megabytes, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", nargs=3, metavar=("FAMILY", "NODES", "FILE"))
    parser.add_argument("--families", default=",".join(f.__name__ for f in FAMILIES))
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--rondo", action="append", help="the command; several: side by side")
    parser.add_argument("--target", default="host")
    parser.add_argument("--also", default="", help="other commands to measure on the plan: check,inspect")
    parser.add_argument("--seconds", type=int, default=120, help="CPU seconds after which a compile is ended")
    parser.add_argument("--least", type=float, default=0, help="repeat each until it has taken so many CPU seconds")
    parser.add_argument("--gigabytes", type=int, default=12, help="address space of a compile")
    parser.add_argument("--skip-pass", action="append", default=[])
    arguments = parser.parse_args()
    families = {f.__name__: f for f in FAMILIES}
    if arguments.make:
        family, nodes, path = arguments.make
        model = Model()
        families[family](model, int(nodes))
        model.write(pathlib.Path(path))
        return
    binaries = arguments.rondo or [str(ROOT / "build/release/bin/rondo")]
    commands = ["compile"] + [c for c in arguments.also.split(",") if c]
    heads = [f"{c}{'' if len(binaries) == 1 else f' ({chr(97 + b)})'}" for b in range(len(binaries)) for c in commands]
    print("| family | nodes | " + " | ".join(f"{h} s | MiB | exponent" for h in heads) + " |")
    print("|---|---|" + "---|---|---|" * len(heads))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for family in arguments.families.split(","):
            before = {}
            for size in (int(s) for s in arguments.sizes.split(",")):
                model = Model()
                families[family](model, size)
                model.write(folder / "model.onnx")
                cells = []
                for b, rondo in enumerate(binaries):
                    plan = folder / "model.rondo"
                    plan.unlink(missing_ok=True)
                    for command in commands:
                        if command == "compile":
                            line = [rondo, "compile", str(folder / "model.onnx"), "-o", str(plan),
                                    "--target", arguments.target]
                            for name in arguments.skip_pass:
                                line += ["--skip-pass", name]
                        else:
                            line = [rondo, command, str(plan)]
                            if not plan.exists():
                                cells.append("- | - | -")
                                continue
                        seconds, megabytes, wrong = run_often(line, arguments.seconds, arguments.gigabytes, arguments.least)
                        grew = ""
                        if (b, command) in before and not wrong:
                            nodes, took = before[(b, command)]
                            grew = f"{math.log(max(seconds, 0.001) / max(took, 0.001)) / math.log(model.nodes / nodes):.2f}"
                        if not wrong:
                            before[(b, command)] = (model.nodes, seconds)
                        cells.append(f"{seconds:.3f} | {megabytes:.0f} | {wrong or grew}")
                print(f"| {family} | {model.nodes} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

"""Two matmuls of a decoder's layer on the host by 4-bit or 8-bit weights, beside the same in f32 and ONNX Runtime: medians of runs in turns.

MatMulNBits of 4 bits, ONNX Runtime at its accuracy levels 0 (sums of f32) and 4 (activations rounded to 8 bits). With --int8, weights of 8 bits behind
DequantizeLinear, a scale a column (block 0) or in blocks; ONNX Runtime has no levels there. --beside: other builds' commands, timed in the same turns.
"""
import argparse
import json
import pathlib
import statistics
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from peer import ROOT, arrays_of, cpu_session, off, rondo

TIMES = True
HIDDEN, WIDE = 1024, 2816


def declare(parser):
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--block", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--beside", type=pathlib.Path, nargs="*", default=[], help="folders of other builds' binaries")


def levels_of(arguments):
    """{ONNX Runtime's accuracy level (None: f32): its name in the table}"""
    return {None: "ORT f32", 0: "ORT int8"} if arguments.int8 else {None: "ORT f32", 0: "ORT level 0", 4: "ORT level 4"}


def cases(arguments):
    global HEADS
    bits, levels = "int8" if arguments.int8 else "int4", levels_of(arguments)
    HEADS = ["f32", bits, *(f"{bits} {folder}" for folder in arguments.beside), *levels.values(), f"{bits} to f32", "largest difference"]
    return [f"{rows} rows, blocks of {block}" for rows in arguments.rows for block in arguments.block]


def packed(weight, block):
    """Returns 4-bit codes, two a byte, and scales for MatMulNBits, and their values."""
    k, n = weight.shape
    blocks = weight.T.reshape(n, k // block, block)
    scale = np.abs(blocks).max(axis=2, keepdims=True) / 7
    codes = np.clip(np.rint(blocks / scale) + 8, 0, 15).astype(np.uint8)
    stands_for = ((codes.astype(np.float32) - 8) * scale).reshape(n, k).T
    return codes[:, :, 0::2] | codes[:, :, 1::2] << 4, scale.reshape(-1).astype(np.float32), stands_for


def dequantised(weight, block):
    """Returns bytes and scales for DequantizeLinear, in blocks along k (0: by column), and their values."""
    k, n = weight.shape
    blocks = weight.reshape(-1, block or k, n)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
    codes = np.clip(np.rint(blocks / scale), -128, 127).astype(np.int8)
    return codes.reshape(k, n), scale[:, 0, :] if block else scale.reshape(n), (codes * scale).reshape(k, n)


def write(rows, block, level, int8, path):
    """`level` None: in f32, with the same weights."""
    random, nodes, weights, x = np.random.default_rng(0), [], [], "x"
    for name, (k, n) in {"up": (HIDDEN, WIDE), "down": (WIDE, HIDDEN)}.items():
        weight = (random.standard_normal((k, n)) / k**0.5).astype(np.float32)
        codes, scales, stands_for = (dequantised if int8 else packed)(weight, block)
        made = {name: stands_for.astype(np.float32)} if level is None else {f"{name}_codes": codes, f"{name}_scales": scales}
        weights += [numpy_helper.from_array(array, called) for called, array in made.items()]
        if level is not None and not int8:
            nodes.append(helper.make_node("MatMulNBits", [x, *made], [f"{name}_out"], domain="com.microsoft", K=k, N=n, bits=4,
                                          block_size=block, accuracy_level=level))
        else:
            if level is not None:
                blocks = {"block_size": block} if block else {}
                nodes.append(helper.make_node("DequantizeLinear", [*made], [name], axis=0 if block else 1, **blocks))
            nodes.append(helper.make_node("MatMul", [x, name], [f"{name}_out"]))
        x = f"{name}_out"
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, HIDDEN]) for name in ("x", x)]
    opsets = [helper.make_opsetid("", 21 if int8 else 20), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "packed", ports[:1], ports[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10 if int8 else 9), path)


def time_rondo(binaries, plan, threads):
    said = rondo(argparse.Namespace(binaries=binaries), "bench", plan, "--threads", threads, "--runs", 30, "--json")
    return json.loads(said)["programs"][0]["wall_us"]["median"]


def time_peer(session, x):
    times = []
    for _ in range(30):
        begin = time.perf_counter()
        session.run(None, {"x": x})
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def compare(arguments, case):
    rows, block, folder = int(case.split()[0]), int(case.split()[-1]), ROOT / "build/packed_host"
    folder.mkdir(parents=True, exist_ok=True)
    levels, builds = levels_of(arguments), [arguments.binaries, *arguments.beside]
    exact = None if arguments.int8 else 0  # with 8-bit weights ONNX Runtime rounds activations
    paths = {level: folder / f"{'int8' if arguments.int8 else 'int4'}_{rows}_{block}_{level}.onnx" for level in levels}
    for level, path in paths.items():
        write(rows, block, level, arguments.int8, path)
    plans = {(level, i): paths[level].with_suffix(f".{i}.rondo") for level in (None, 0) for i in range(len(builds))}
    for (level, i), plan in plans.items():
        rondo(argparse.Namespace(binaries=builds[i]), "compile", paths[level], "-o", plan)
    sessions = {level: cpu_session(path, arguments.threads) for level, path in paths.items()}
    x = np.random.default_rng(1).standard_normal((rows, HIDDEN)).astype(np.float32)
    rondo(arguments, "run", plans[0, 0], *arrays_of(folder, {"x": x}), "--output", folder / "out")
    apart = off(np.load(folder / "out/down_out.npy"), sessions[exact].run(None, {"x": x})[0])
    turns = []
    for _ in range(arguments.turns):
        turns.append([time_rondo(builds[0], plans[None, 0], arguments.threads)] +
                     [time_rondo(build, plans[0, i], arguments.threads) for i, build in enumerate(builds)] +
                     [time_peer(sessions[level], x) for level in levels])
    medians = [statistics.median(values) for values in zip(*turns)]
    return [*(f"{value:.0f}" for value in medians), f"{medians[1] / medians[0]:.2f}", f"{apart:.1e}"], None

#!/usr/bin/env python3
"""Two matmuls of a decoder's layer on the host by weights of 4 bits (MatMulNBits), beside the same in f32, in Rondo and
in ONNX Runtime, at its accuracy levels 0 (sums of f32) and 4 (activations rounded to 8 bits): medians of runs by turns.
With --int8, weights of 8 bits behind DequantizeLinear, a scale a column (block 0) or in blocks; ONNX Runtime has no
levels there.

  build/venv/bin/python tools/bench/packed_host.py --rows 1 4 16 --block 32 128
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
HIDDEN, WIDE = 1024, 2816


def packed(weight, block):
    """Codes of 4 bits, two a byte, and scales, as MatMulNBits has them; and what they stand for."""
    k, n = weight.shape
    blocks = weight.T.reshape(n, k // block, block)
    scale = np.abs(blocks).max(axis=2, keepdims=True) / 7
    codes = np.clip(np.rint(blocks / scale) + 8, 0, 15).astype(np.uint8)
    stands_for = ((codes.astype(np.float32) - 8) * scale).reshape(n, k).T
    return codes[:, :, 0::2] | codes[:, :, 1::2] << 4, scale.reshape(-1).astype(np.float32), stands_for


def dequantised(weight, block):
    """Bytes and scales as DequantizeLinear has them, by blocks along k (0: by column); and what they stand for."""
    k, n = weight.shape
    blocks = weight.reshape(-1, block or k, n)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
    codes = np.clip(np.rint(blocks / scale), -128, 127).astype(np.int8)
    return codes.reshape(k, n), scale[:, 0, :] if block else scale.reshape(n), (codes * scale).reshape(k, n)


def int8_model(rows, block, level, path):
    """level None: in f32, of the same weights."""
    random = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for name, (k, n) in {"up": (HIDDEN, WIDE), "down": (WIDE, HIDDEN)}.items():
        codes, scales, stands_for = dequantised((random.standard_normal((k, n)) / k**0.5).astype(np.float32), block)
        if level is None:
            weights.append(numpy_helper.from_array(stands_for.astype(np.float32), name))
        else:
            weights += [numpy_helper.from_array(codes, f"{name}_codes"), numpy_helper.from_array(scales, f"{name}_scales")]
            blocks = {"block_size": block} if block else {}
            nodes.append(helper.make_node("DequantizeLinear", [f"{name}_codes", f"{name}_scales"], [name],
                                          axis=0 if block else 1, **blocks))
        nodes.append(helper.make_node("MatMul", [x, name], [f"{name}_out"]))
        x = f"{name}_out"
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, HIDDEN]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "packed", ports[:1], ports[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def model(rows, block, level, path):
    """level None: in f32, of the same weights."""
    random = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for name, (k, n) in {"up": (HIDDEN, WIDE), "down": (WIDE, HIDDEN)}.items():
        codes, scales, stands_for = packed((random.standard_normal((k, n)) / k**0.5).astype(np.float32), block)
        if level is None:
            weights.append(numpy_helper.from_array(stands_for, name))
            nodes.append(helper.make_node("MatMul", [x, name], [f"{name}_out"]))
        else:
            weights += [numpy_helper.from_array(codes, name), numpy_helper.from_array(scales, f"{name}_scales")]
            nodes.append(helper.make_node("MatMulNBits", [x, name, f"{name}_scales"], [f"{name}_out"], domain="com.microsoft",
                                          K=k, N=n, bits=4, block_size=block, accuracy_level=level))
        x = f"{name}_out"
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, HIDDEN]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "packed", ports[:1], ports[1:], weights)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def rondo(binary, plan, threads):
    said = subprocess.run([str(binary), "bench", str(plan), "--threads", str(threads), "--runs", "30", "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(said.stdout)["programs"][0]["wall_us"]["median"]


def peer(session, x):
    times = []
    for _ in range(30):
        begin = time.perf_counter()
        session.run(None, {"x": x})
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--block", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--binary", type=pathlib.Path, nargs="+", default=[ROOT / "build/release/bin/rondo"],
                        help="rondo, and others that are timed beside it")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/packed_host")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    bits, make = ("int8", int8_model) if arguments.int8 else ("int4", model)
    exact = None if arguments.int8 else 0  # ONNX Runtime rounds activations where weights have 8 bits
    levels = {None: "ORT f32", 0: "ORT int8"} if arguments.int8 else {None: "ORT f32", 0: "ORT level 0", 4: "ORT level 4"}
    others = [f"{bits} {binary}" for binary in arguments.binary[1:]]
    head = ["rows", "block", "f32", bits, *others, *levels.values(), f"{bits} to f32", f"largest difference to {levels[exact]}"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for rows in arguments.rows:
        for block in arguments.block:
            paths = {level: arguments.folder / f"{bits}_{rows}_{block}_{level}.onnx" for level in levels}
            for level, path in paths.items():
                make(rows, block, level, path)
            plans = {level: paths[level].with_suffix(".rondo") for level in (None, 0)}
            compiled = {(binary, level): plan.with_suffix(f".{i}.rondo") for level, plan in plans.items()
                        for i, binary in enumerate(arguments.binary)}
            for (binary, level), plan in compiled.items():
                subprocess.run([str(binary), "compile", str(paths[level]), "-o", str(plan)], check=True,
                               stdout=subprocess.DEVNULL)
            first = arguments.binary[0]
            options = ort.SessionOptions()
            options.intra_op_num_threads = arguments.threads
            sessions = {level: ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
                        for level, path in paths.items()}
            x = np.random.default_rng(1).standard_normal((rows, HIDDEN)).astype(np.float32)
            np.save(arguments.folder / "x.npy", x)
            subprocess.run([str(arguments.binary[0]), "run", str(compiled[first, 0]), "--input", f"x={arguments.folder / 'x.npy'}",
                            "--output", str(arguments.folder / "out")], check=True, stdout=subprocess.DEVNULL)
            apart = np.abs(np.load(arguments.folder / "out/down_out.npy") - sessions[exact].run(None, {"x": x})[0]).max()
            times = {}
            for _ in range(arguments.turns):
                found = [rondo(first, compiled[first, None], arguments.threads)]
                found += [rondo(binary, compiled[binary, 0], arguments.threads) for binary in arguments.binary]
                found += [peer(sessions[level], x) for level in levels]
                for i, value in enumerate(found):
                    times.setdefault(i, []).append(value)
            medians = [statistics.median(values) for values in times.values()]
            print("| " + " | ".join([str(rows), str(block), *(f"{value:.0f}" for value in medians),
                                     f"{medians[1] / medians[0]:.2f}", f"{apart:.1e}"]) + " |", flush=True)


if __name__ == "__main__":
    main()

"""A decode step of Llama-3-8B with weights of 4 bits on one GPU: Rondo beside ONNX Runtime's CUDA provider, the same file.

As onnxruntime-genai's builder writes it (cases/packed_decoder.py), with 1,024 cached positions; and how far the logits of both are from those of the same weights
in f32 on the CPU, relative to their root mean square. ONNX Runtime keeps its tensors on the GPU (I/O binding, present bound to the memory of past), captures
a CUDA graph where it can, and is timed over runs without a wait between them; Rondo by events around its graph.

  python3 -m pip install onnxruntime-gpu onnx numpy
  tests/ort/run packed_decode --block 32 128 --batches 1 4 16
"""
import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime as ort

import packed_decoder
from peer import ROOT, arrays_of, rondo

TIMES = True
HEADS = ("Rondo µs", "ONNX Runtime µs", "as", "ratio", "Rondo's error", "ONNX Runtime's")


def declare(parser):
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/packed_decode")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--driver", default="cuda", help="of Rondo; with host (and --target host) errors can be seen without a GPU")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--words", type=int, default=packed_decoder.WORDS)
    parser.add_argument("--block", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--cached", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=100)


def cases(arguments):
    return [f"blocks of {block}, batch {batch}" for block in arguments.block for batch in arguments.batches]


def inputs_of(batch, cached):
    embeds = np.random.default_rng(2).standard_normal((batch, 1, packed_decoder.HIDDEN)).astype(np.float16)
    return {"inputs_embeds": embeds, "seqlens_k": np.full(batch, cached - 1, np.int32),
            "total_sequence_length": np.array(cached, np.int32)}


def open_session(path, provider, graph=False):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    more = {"enable_cuda_graph": "1"} if graph else {}
    session = ort.InferenceSession(str(path), options, providers=[(provider, more)])
    if session.get_providers()[0] != provider:
        raise RuntimeError(f"ONNX Runtime has no {provider}")
    return session


def reference(path, inputs):
    """Logits in f32, over empty caches."""
    session = open_session(path, "CPUExecutionProvider")
    batch = len(inputs["seqlens_k"])
    given = {port.name: np.zeros([batch, *port.shape[1:]], np.float32) for port in session.get_inputs()
             if port.name.startswith("past")}
    given |= inputs | {"inputs_embeds": inputs["inputs_embeds"].astype(np.float32)}
    return session.run(["logits"], given)[0]


def bind(session, inputs):
    batch = len(inputs["seqlens_k"])
    binding, kept = session.io_binding(), {}
    for port in session.get_inputs():
        array = inputs.get(port.name)
        if array is None:
            array = np.zeros([batch, *port.shape[1:]], np.float16)
        device = "cpu" if port.name == "total_sequence_length" else "cuda"
        kept[port.name] = ort.OrtValue.ortvalue_from_numpy(array, device, 0)
        binding.bind_ortvalue_input(port.name, kept[port.name])
    for port in session.get_outputs():
        name = port.name.replace("present", "past_key_values")
        if name not in kept:
            kept[name] = ort.OrtValue.ortvalue_from_numpy(np.zeros([batch, *port.shape[1:]], np.float16), "cuda", 0)
        binding.bind_ortvalue_output(port.name, kept[name])
    return binding, kept


def time_peer(path, inputs, runs, graph):
    """Returns microseconds a run, and the first run's logits."""
    session = open_session(path, "CUDAExecutionProvider", graph)
    binding, kept = bind(session, inputs)
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    logits = kept["logits"].numpy()
    options = ort.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(runs):
            session.run_with_iobinding(binding, options)
        binding.synchronize_outputs()
        kept["logits"].numpy()  # waits for all runs
        best = min(best, (time.perf_counter() - begin) / runs * 1e6)
    return best, logits


def time_rondo(arguments, path, inputs):
    plan, given = path.with_suffix(".rondo"), arrays_of(path.parent, inputs)
    rondo(arguments, "compile", path, "-o", plan, "--target", arguments.target, "--shape", f"batch_size={len(inputs['seqlens_k'])}")
    rondo(arguments, "run", plan, "--driver", arguments.driver, *given, "--output", path.parent / "out")
    program = json.loads(rondo(arguments, "bench", plan, "--driver", arguments.driver, *given, "--runs", arguments.runs, "--json"))["programs"][0]
    return program["device_us" if "device_us" in program else "replay_us"]["median"], np.load(path.parent / "out/logits.npy")


def error_of(logits, expected):
    return f"{float(np.sqrt(np.mean((logits.astype(np.float32) - expected) ** 2) / np.mean(expected ** 2))):.1e}"


def compare(arguments, case):
    block, batch = int(case.split()[2].rstrip(",")), int(case.split()[-1])
    path, exact = (arguments.folder / f"{kind}{block}.onnx" for kind in ("model", "exact"))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if not exact.exists():
        packed_decoder.write(path, block, arguments.layers, np.float16, arguments.words)
        packed_decoder.write(exact, block, arguments.layers, np.float32, arguments.words)
    inputs = inputs_of(batch, arguments.cached)
    expected = reference(exact, inputs)
    ours, logits = time_rondo(arguments, path, inputs)
    for graph, way in ((True, "graph"), (False, "launches")):
        try:
            peer, theirs = time_peer(path, inputs, arguments.runs, graph)
        except Exception as error:  # noqa: BLE001 (whatever ONNX Runtime raises, try the other way)
            print(f"ONNX Runtime, {way}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
            continue
        return [f"{ours:.0f}", f"{peer:.0f}", way, f"{peer / ours:.2f}", error_of(logits, expected), error_of(theirs, expected)], None
    return [f"{ours:.0f}", "failed", "", "", error_of(logits, expected), ""], None

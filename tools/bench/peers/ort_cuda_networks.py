"""Image networks on one GPU in ONNX Runtime's CUDA provider: f16, CUDA graphs, prefer_nhwc both ways.

python3 tools/bench/peers/ort_cuda_networks.py FOLDER OUT.json: every FOLDER/NAME.onnx (f32, of
tools/bench/export_networks.py), converted to f16. Inputs and outputs stay on the device; medians of 60 runs by events
on the provider's stream, in microseconds. Needs onnxruntime-gpu and PyTorch (for its CUDA libraries, stream and events).
"""

import json
import pathlib
import statistics
import sys

import numpy as np
import onnx
import torch
import onnxruntime as ort
from onnxruntime.transformers.float16 import convert_float_to_float16


def session_of(model, stream, nhwc):
    options = {"enable_cuda_graph": "1", "prefer_nhwc": "1" if nhwc else "0", "cudnn_conv_algo_search": "EXHAUSTIVE",
               "user_compute_stream": str(stream.cuda_stream)}
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    session = ort.InferenceSession(model, settings, providers=[("CUDAExecutionProvider", options)])
    if session.get_providers()[0] != "CUDAExecutionProvider":
        raise RuntimeError("the CUDA provider did not start")
    return session


def median_of(session, stream, runs=60):
    binding = session.io_binding()
    for port in session.get_inputs():
        values = np.random.default_rng(1).standard_normal(port.shape).astype(np.float16)
        binding.bind_ortvalue_input(port.name, ort.OrtValue.ortvalue_from_numpy(values, "cuda", 0))
    for port in session.get_outputs():
        binding.bind_ortvalue_output(
            port.name, ort.OrtValue.ortvalue_from_shape_and_type(port.shape, np.float16, "cuda", 0))
    for _ in range(10):
        session.run_with_iobinding(binding)
    times = []
    for _ in range(runs):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record(stream)
        session.run_with_iobinding(binding)
        end.record(stream)
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def main():
    folder, path, results = pathlib.Path(sys.argv[1]), sys.argv[2], {}
    stream = torch.cuda.Stream()
    for file in sorted(folder.glob("*.onnx")):
        model = convert_float_to_float16(onnx.load(file)).SerializeToString()
        for nhwc in (False, True):
            name = "nhwc" if nhwc else "nchw"
            try:
                results.setdefault(file.stem, {})[name] = median_of(session_of(model, stream, nhwc), stream)
                print(file.stem, name, f"{results[file.stem][name]:.1f} us", flush=True)
            except Exception as error:  # what a provider cannot do is a line of the table, too
                print(file.stem, name, "failed:", str(error)[:200], flush=True)
        with open(path, "w") as out:
            json.dump(results, out, indent=1)


main()

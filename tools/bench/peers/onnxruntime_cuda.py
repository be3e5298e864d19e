"""Times a model in ONNX Runtime's CUDA provider, with CUDA graphs, inputs and outputs on the device, and both layouts."""

import pathlib
import statistics

import numpy as np
import onnxruntime as ort
import torch


def session_of(model, stream, nhwc):
    options = {"enable_cuda_graph": "1", "prefer_nhwc": "1" if nhwc else "0", "cudnn_conv_algo_search": "EXHAUSTIVE",
               "user_compute_stream": str(stream.cuda_stream)}
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    session = ort.InferenceSession(str(model), settings, providers=[("CUDAExecutionProvider", options)])
    if session.get_providers()[0] != "CUDAExecutionProvider":
        raise RuntimeError("the CUDA provider did not start")
    return session


def median_of(session, stream, inputs, runs):
    binding = session.io_binding()
    for port in session.get_inputs():
        binding.bind_ortvalue_input(
            port.name, ort.OrtValue.ortvalue_from_numpy(np.load(inputs / f"{port.name}.npy"), "cuda", 0))
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


def best_time(folder: pathlib.Path, runs):
    """The time of FOLDER/model.onnx with FOLDER/inputs in microseconds. Models in bf16 are not supported."""
    if any(np.load(path).dtype == np.uint16 for path in (folder / "inputs").iterdir()):
        raise RuntimeError("bf16 is not timed in ONNX Runtime")
    stream, times, failure = torch.cuda.Stream(), [], None
    for nhwc in (False, True):
        try:
            times.append(median_of(session_of(folder / "model.onnx", stream, nhwc), stream, folder / "inputs", runs))
        except Exception as reason:
            failure = reason
    if not times:
        raise failure
    return min(times)

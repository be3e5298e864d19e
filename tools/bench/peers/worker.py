"""Runs one workload of workloads.py in its own process: prepares it, and times it on request.

  python3 tools/bench/peers/worker.py NAME FOLDER --rondo RONDO [--library-path DIRS] [--modes eager,compile] [--runs 60]

It first writes FOLDER/NAME/: model.onnx with its weights, plan.rondo, inputs/PORT.npy (bf16 as bits) and expected.npy (the first
output from the same weights in f32), and prepares PyTorch's calls. Then it prints "ready", waits for a line, times Rondo and its
peers, and prints a line of JSON. peers.py starts several workers at once, and lets one at a time measure.
"""
import argparse
import copy
import json
import logging
import os
import pathlib
import subprocess
import tempfile
import warnings

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

import models
from torch_times import compiled, event_times, graph_of
from workloads import WORKLOADS


def array(tensor):
    tensor = tensor.detach().cpu().contiguous()
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def relative_error(got, expected):
    return float(np.linalg.norm(got.astype(np.float64) - expected) / np.linalg.norm(expected.astype(np.float64)))


def needed_bytes(made):
    """The bytes that a run must read: weights except tables from which rows are gathered, inputs, and the used part of caches."""
    tables = {id(m.weight) for m in made.model.modules() if isinstance(m, torch.nn.Embedding)}
    tables -= {id(m.weight) for m in made.model.modules() if isinstance(m, torch.nn.Linear)}
    tensors = [p for p in made.model.parameters() if id(p) not in tables] + list(made.inputs.values())
    cached = int(made.inputs["positions"][-1]) + 1 if made.caches else 0
    return (sum(t.numel() * t.element_size() for t in tensors) +
            sum(t[:, :, :cached].numel() * t.element_size() for t in made.caches.values()))


def export(made, path):
    names, outputs = list(made.inputs), ["output"]
    model, inputs = made.model, tuple(made.inputs.values())
    if made.caches:
        model, inputs = models.DecoderWithPorts(model), (*inputs, list(made.caches.values()))
        names, outputs = [*names, *made.caches], [*outputs, *(f"{name}.out" for name in made.caches)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs, str(path), input_names=names, output_names=outputs, opset_version=20,
                          dynamo=True, external_data=True, verbose=False)
    for layer in getattr(made.model, "layers", []):
        layer.__dict__.pop("written", None)  # restores the class's method, which writes the layer's own caches


def said(command):
    """A command's standard output. RuntimeError with the end of its messages if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip())[-300:])
    return done.stdout


class Worker:
    """Collects results, and the reason of each measurement that failed: a failure does not hide the other results."""

    def __init__(self, options):
        self.options, self.row = options, {}
        self.folder = options.folder / options.name
        self.libraries = ["--library-path", options.library_path] if options.library_path else []
        self.calls = {}  # PyTorch's calls by mode: one for each layout to time

    def attempt(self, key, call):
        try:
            return call()
        except Exception as failure:
            self.row.setdefault("failed", {})[key] = str(failure)[:300]
        return None

    def get_ready(self):
        (self.folder / "inputs").mkdir(parents=True, exist_ok=True)
        workload = WORKLOADS[self.options.name]
        torch.manual_seed(0)
        with torch.device("cuda"):
            made = workload.make()
        self.row["bytes"] = needed_bytes(made)
        for name, tensor in [*made.inputs.items(), *made.caches.items()]:
            np.save(self.folder / "inputs" / f"{name}.npy", array(tensor))
        self.expect(made)
        self.attempt("rondo", lambda: self.compile(made))
        for key, mode in (("eager", graph_of), ("compile", compiled("reduce-overhead"))):
            if key in self.options.modes:
                self.calls[key] = []
                layouts = [None, torch.channels_last] if workload.channels_last else [None]
                self.attempt(key, lambda: self.calls[key].extend(self.torch_call(made, mode, layout) for layout in layouts))

    def expect(self, made):
        """Saves the first output computed in f32, and notes the error of PyTorch's own in 16 bits."""
        own = made.model(*made.inputs.values()).float().cpu().numpy()
        exact = copy.deepcopy(made.model).float()
        inputs = [x.float() if x.is_floating_point() else x for x in made.inputs.values()]
        with FlopCounterMode(display=False) as counter:
            expected = exact(*inputs).cpu().numpy()
        np.save(self.folder / "expected.npy", expected)
        self.row |= {"operations": counter.get_total_flops(), "torch_error": relative_error(own, expected)}

    def compile(self, made):
        export(made, self.folder / "model.onnx")
        said([self.options.rondo, "compile", self.folder / "model.onnx", "-o", self.folder / "plan.rondo", "--target",
              self.options.target, *self.libraries])

    def torch_call(self, made, mode, layout):
        model, inputs = made.model, tuple(made.inputs.values())
        if layout is not None:
            model = copy.deepcopy(model).to(memory_format=layout)
            inputs = tuple(x.to(memory_format=layout) if x.dim() == 4 else x for x in inputs)
        torch._dynamo.reset()
        return mode(model, inputs)

    def measure(self):
        if "rondo" not in self.row.get("failed", {}):
            self.row["rondo"] = self.attempt("rondo", self.rondo)
        for key, calls in self.calls.items():
            times = [event_times(call, self.options.runs) for call in calls]
            if times:
                self.row[key] = min(times)
        try:
            import onnxruntime
        except ImportError:
            return
        if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
            import onnxruntime_cuda
            self.row["onnxruntime"] = self.attempt(
                "onnxruntime", lambda: onnxruntime_cuda.best_time(self.folder, self.options.runs))

    def rondo(self):
        options = ["--driver", "cuda", *self.libraries]
        for path in (self.folder / "inputs").iterdir():
            options += ["--input", f"{path.stem}={path}"]
        plan = self.folder / "plan.rondo"
        bench = json.loads(said([self.options.rondo, "bench", plan, "--json", "--runs", self.options.runs, *options]))
        program = bench["programs"][0]
        with tempfile.TemporaryDirectory() as out:
            said([self.options.rondo, "run", plan, "--output", out, *options])
            got = np.load(pathlib.Path(out) / "output.npy")
        if got.dtype == np.uint16:
            got = (got.astype(np.uint32) << 16).view(np.float32)
        return {"gpu": program["device_us"]["median"], "estimate": program["estimated_us"],
                "error": relative_error(got, np.load(self.folder / "expected.npy"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rondo", required=True)
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--library-path", help="folders of NVRTC and cuBLASLt, as of rondo's option")
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--runs", type=int, default=60)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    worker = Worker(options)
    with torch.no_grad():
        worker.get_ready()
        print("ready", flush=True)
        input()
        worker.measure()
    print(json.dumps(worker.row), flush=True)
    os._exit(0)  # skip teardown of what the graphs hold


if __name__ == "__main__":
    main()

"""One workload of workloads.py as an ONNX file with its weights, its inputs, what f32 gives, and a plan.

  python3 tools/bench/peers/prepare.py NAME FOLDER --rondo RONDO [--device cuda] [--library-path DIRS]

FOLDER/NAME/ then holds model.onnx, plan.rondo, inputs/PORT.npy (bf16 as bits), expected.npy (the first output by the same
weights in f32), and facts.json: bytes and operations that a run cannot do without, and how far PyTorch's own result in 16
bits is from expected.npy. torch.compile's kernels are made too, and stay in its cache. peers.py runs this for many
workloads at once.
"""
import argparse
import json
import pathlib
import subprocess
import warnings

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

import models
from torch_times import compiled
from workloads import WORKLOADS


def array(tensor):
    tensor = tensor.detach().cpu().contiguous()
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def relative_error(got, expected):
    return float(np.linalg.norm(got.astype(np.float64) - expected) / np.linalg.norm(expected.astype(np.float64)))


def wide(value):
    return value.float() if value.is_floating_point() else value


def needed_bytes(made):
    """Read at least once: weights but for tables of which rows are gathered, inputs, and what caches hold."""
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
        layer.__dict__.pop("written", None)  # its own way to write its caches again


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rondo", required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--library-path", help="folders of NVRTC and cuBLASLt for the compiler")
    arguments = parser.parse_args()
    folder = arguments.folder / arguments.name
    (folder / "inputs").mkdir(parents=True, exist_ok=True)

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    torch.set_default_device(arguments.device)
    with torch.no_grad():
        made = WORKLOADS[arguments.name].make()
        export(made, folder / "model.onnx")
        for name, tensor in [*made.inputs.items(), *made.caches.items()]:
            np.save(folder / "inputs" / f"{name}.npy", array(tensor))
        needed = needed_bytes(made)
        if arguments.device == "cuda":
            compiled("reduce-overhead")(made.model, tuple(made.inputs.values()))
            torch._dynamo.reset()
        own = made.model(*made.inputs.values()).float().cpu().numpy()
        made.model.float()
        with FlopCounterMode(display=False) as counter:
            expected = made.model(*map(wide, made.inputs.values())).cpu().numpy()
    np.save(folder / "expected.npy", expected)
    facts = {"bytes": needed, "operations": counter.get_total_flops(),
             "torch_error": relative_error(own, expected)}
    (folder / "facts.json").write_text(json.dumps(facts))
    command = [arguments.rondo, "compile", folder / "model.onnx", "-o", folder / "plan.rondo", "--target", arguments.target]
    if arguments.library_path:
        command += ["--library-path", arguments.library_path]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    (folder / "compile.txt").write_text(done.stdout)
    raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()

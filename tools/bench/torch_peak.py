#!/usr/bin/env python3
"""Measures the peak memory of one run of the bench models in eager PyTorch on one GPU: the bytes besides weights, caches and inputs.

    python3 tools/bench/torch_peak.py [--json F.json] [--compile] [MODEL ...]

The models are those of `peers/models.py`. The peak is torch.cuda.max_memory_allocated() during a run minus the bytes allocated before
it: it includes outputs, but not weights, caches and inputs. A first run warms up; workspaces that libraries keep (cuBLAS's, of tens of
MiB) are listed separately. --compile also measures torch.compile's kernels, which takes a minute per model.
"""
import argparse
import gc
import json
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import models  # noqa: E402


def settled():
    gc.collect()
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


def peak_of(run, inputs):
    """{"run": bytes, "workspace": bytes that the first run leaves behind}"""
    before = settled()
    run(*inputs)
    warm = settled()
    torch.cuda.reset_peak_memory_stats()
    run(*inputs)
    torch.cuda.synchronize()
    return {"run": torch.cuda.max_memory_allocated() - warm, "workspace": warm - before}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=None)
    parser.add_argument("--json", type=pathlib.Path, help="write the numbers for arena_table.py")
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    found = {}
    with torch.no_grad():
        for name in arguments.models or models.MODELS:
            try:
                model, inputs = models.MODELS[name]()
                size = sum(i.numel() * i.element_size() for i in inputs)
                found[name] = {"inputs": size, "eager": peak_of(model, inputs)}
                if arguments.compile:
                    found[name]["compiled"] = peak_of(torch.compile(model, fullgraph=True), inputs)
            except Exception as error:  # one model's failure must not stop the others
                found[name] = {"failed": repr(error)[:300]}
            print(name, json.dumps(found[name]), flush=True)
            model = inputs = None
            gc.collect()
            torch.cuda.empty_cache()
    if arguments.json:
        device = torch.cuda.get_device_name()
        arguments.json.write_text(json.dumps({"torch": torch.__version__, "device": device, "models": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Image networks of torchvision on one GPU, f16, channels last, batch 1: eager kernels in a CUDA graph and torch.compile.

python3 tools/bench/peers/network_peers.py OUT.json [SECONDS]: medians of 60 runs by events, in microseconds. What does
not begin within SECONDS (300) is left out. Their plans: tools/bench/export_networks.py, compiled with --precision f16.
"""

import gc
import json
import sys
import time

import torch
import torchvision

from torch_times import event_times, graph_of

NETWORKS = ["efficientnet_b0", "convnext_tiny", "mobilenet_v2", "regnet_y_800mf", "mobilenet_v3_large",
            "regnet_x_800mf", "mobilenet_v3_small"]


def make(name):
    torch.manual_seed(0)
    model = torchvision.models.get_model(name, weights=None).eval().cuda().half()
    image = torch.randn(1, 3, 224, 224, device="cuda").half()
    return model.to(memory_format=torch.channels_last), [image.to(memory_format=torch.channels_last)]


def compiled(model, inputs):
    fast = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    for _ in range(4):
        fast(*inputs)
    return lambda: fast(*inputs)


def main():
    path, limit, start = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 300, time.time()
    torch.backends.cudnn.benchmark = True
    results = {}
    for kind, prepare in (("eager", graph_of), ("compile", compiled)):
        for name in NETWORKS:
            if time.time() - start > limit:
                break
            torch._dynamo.reset()
            with torch.no_grad():
                results.setdefault(name, {})[kind] = event_times(prepare(*make(name)))
            gc.collect()
            torch.cuda.empty_cache()
            print(name, kind, f"{results[name][kind]:.1f} us", flush=True)
            with open(path, "w") as file:
                json.dump(results, file, indent=1)


main()

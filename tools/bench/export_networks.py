#!/usr/bin/env python3
"""Image networks of real size as ONNX models: torchvision's public definitions with random weights.

The weights are the definitions' own initial ones, drawn from a fixed seed. Weights that begin as one value (norms, layer
scales, biases) are drawn around it. The statistics of batch norms are close to those of their inputs, so that activations
stay within a few units through the whole network, also in 16 bits. Each model is one file FOLDER/NAME.onnx with one
input and one output, in eval mode.

  python3 -m venv build/torch
  build/torch/bin/pip install torch torchvision onnx onnxscript
  build/torch/bin/python tools/bench/export_networks.py --out build/networks                 # the usual ones
  build/torch/bin/python tools/bench/export_networks.py --out build/networks vit_b_16 --batch 8
"""
import argparse
import pathlib
import sys
import warnings

import torch
import torchvision

USUAL = ["mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "efficientnet_b0", "regnet_x_800mf",
         "regnet_y_800mf", "convnext_tiny", "resnet50", "squeezenet1_1", "vgg11", "vit_b_16"]


def draw_norms(model, generator):
    """Replaces parameters that hold a single value (norms, biases, layer scales, heads) by values spread around it, as after training."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            shape = module.running_mean.shape
            module.running_mean = torch.randn(shape, generator=generator) * 0.2
            module.running_var = torch.rand(shape, generator=generator) + 0.5
            module.weight.data = torch.rand(shape, generator=generator) * 0.4 + 0.8
            module.bias.data = torch.randn(shape, generator=generator) * 0.2
    for parameter in model.parameters():
        if parameter.min() == parameter.max():
            parameter.data = parameter.data + torch.randn(parameter.shape, generator=generator) * 0.05


def settle(model, image):
    """Sets every batch norm's statistics close to those of its input, so that values neither grow nor vanish with depth."""
    def meet(module, inputs):
        x = inputs[0].detach()
        module.running_mean = module.running_mean + x.mean((0, 2, 3))
        if x[:, 0].numel() > 1:
            module.running_var = module.running_var * x.var((0, 2, 3), unbiased=False).mean() + 1e-3
    hooks = [m.register_forward_pre_hook(meet) for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    with torch.no_grad():
        model(image)
    for hook in hooks:
        hook.remove()


def export(name, folder, batch, size, seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = torchvision.models.get_model(name, weights=None).eval()
    draw_norms(model, generator)
    image = torch.randn((batch, 3, size, size), generator=generator)
    settle(model, image)
    path = folder / f"{name}.onnx"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        greatest = model(image).abs().max().item()
        torch.onnx.export(model, (image,), str(path), input_names=["image"], output_names=["scores"], opset_version=18,
                          dynamo=True, external_data=False, verbose=False)
    weights = sum(p.numel() for p in model.parameters())
    print(f"{path}: {weights / 1e6:.1f} million weights, scores up to {greatest:.3g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"torchvision's names; by default {', '.join(USUAL)}")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the models")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=224, help="pixels of a side")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or USUAL:
        if name not in torchvision.models.list_models():
            sys.exit(f"torchvision has no model \"{name}\"")
        export(name, arguments.out, arguments.batch, arguments.size, arguments.seed)


if __name__ == "__main__":
    main()

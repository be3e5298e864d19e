"""Computes the numbers of synthetic weights (core/synthetic.h) on the GPU."""
import math

import torch

MASK = (1 << 64) - 1
STRIDE = 0x9e3779b97f4a7c15


def mixed(x):
    x ^= x >> 33
    x = x * 0xff51afd7ed558ccd & MASK
    x ^= x >> 33
    x = x * 0xc4ceb9fe1a85ec53 & MASK
    return x ^ x >> 33


def key_of(seed, name):
    h = mixed(seed ^ 0x524f4e444f)
    for byte in name.encode():
        h = mixed(h ^ byte)
    return h


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def right(x, bits):
    """Shifts 64 bits to the right without sign."""
    return x >> bits & ((1 << 64 - bits) - 1)


def scale_of(shape):
    """The scale of compiler/import/synthetic_weight.h."""
    if len(shape) < 2:
        return 0.5
    fan = shape[0] if len(shape) == 2 else math.prod(shape) // shape[0]
    return math.sqrt(3 / fan)


def synthetic(port, seed):
    """The elements of a synthetic weight."""
    count, scale = math.prod(port.shape), scale_of(port.shape)
    x = torch.arange(count, device="cuda", dtype=torch.int64) * signed(STRIDE) + signed(key_of(seed, port.name))
    for factor in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
        x = (x ^ right(x, 33)) * signed(factor)
    x = right(x ^ right(x, 33), 48) - 32768
    return (x.float() * (scale / 32768)).reshape(port.shape)

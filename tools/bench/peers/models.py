"""The bench models in PyTorch, with random weights: shapes decide speed, and are those of the ONNX files.

Encoders: a stack of post-norm transformer layers over token and position embeddings. Decoder: Llama 3's layer (root mean
square norms, rotary embedding, grouped-query attention over a cache of fixed length that is updated in place,
gated feed-forward). ResNet-50 and ViT-B/16 are torchvision's.
"""
import torch
from torch import nn
from torch.nn import functional as F


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.norm_attention = nn.LayerNorm(width)
        self.norm_hidden = nn.LayerNorm(width)

    def forward(self, x):
        batch, tokens, width = x.shape
        heads = self.qkv(x).unflatten(-1, (3, self.heads, width // self.heads))
        q, k, v = (part.transpose(1, 2) for part in heads.unbind(2))
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.norm_attention(x + self.out(attended))
        return self.norm_hidden(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, layers, width, heads, hidden, words=30522, longest=512):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(longest, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*[EncoderLayer(width, heads, hidden) for _ in range(layers)])

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.layers(self.norm(self.words(ids) + self.places(places)))


class RootMeanSquareNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return (wide * scale).to(x.dtype) * self.weight


def rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden, cache, batch):
        super().__init__()
        self.head = width // heads
        self.sizes = [heads * self.head, kv_heads * self.head, kv_heads * self.head]
        self.norm_attention = RootMeanSquareNorm(width)
        self.norm_hidden = RootMeanSquareNorm(width)
        self.qkv = nn.Linear(width, sum(self.sizes), bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.register_buffer("keys", torch.zeros(batch, kv_heads, cache, self.head))
        self.register_buffer("values", torch.zeros(batch, kv_heads, cache, self.head))

    def written(self, k, v, positions):
        """Writes new keys and values into this layer's caches at these positions, in place, and returns the caches."""
        self.keys[:, :, positions] = k
        self.values[:, :, positions] = v
        return self.keys, self.values

    def forward(self, x, positions, cos, sin, mask):
        parts = self.qkv(self.norm_attention(x)).split(self.sizes, dim=-1)
        q, k, v = (part.unflatten(-1, (-1, self.head)).transpose(1, 2) for part in parts)
        keys, values = self.written(rotated(k, cos, sin), v, positions)
        attended = F.scaled_dot_product_attention(rotated(q, cos, sin), keys, values, attn_mask=mask, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.norm_hidden(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, layers, batch, width=4096, heads=32, kv_heads=8, hidden=14336, words=128256, cache=2048):
        super().__init__()
        head = width // heads
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            DecoderLayer(width, heads, kv_heads, hidden, cache, batch) for _ in range(layers))
        self.norm = RootMeanSquareNorm(width)
        self.predict = nn.Linear(width, words, bias=False)
        self.register_buffer("places", torch.arange(cache))
        self.register_buffer("frequencies", 500000.0 ** (-torch.arange(0, head, 2) / head))

    def forward(self, tokens, positions):
        x = self.words(tokens)
        angles = positions[:, None].float() * self.frequencies.float()
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        mask = self.places <= positions[:, None]
        for layer in self.layers:
            x = layer(x, positions, cos, sin, mask[None, None])
        return self.predict(self.norm(x)[:, -1])


class DecoderWithPorts(nn.Module):
    """A decoder with its caches as inputs and outputs, as an ONNX graph has them: each layer's keys, then its values."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, tokens, positions, caches):
        before, after = iter(caches), []

        def written(k, v, positions):
            after.extend([next(before).index_copy(2, positions, k), next(before).index_copy(2, positions, v)])
            return after[-2:]

        for layer in self.decoder.layers:
            layer.written = written
        return self.decoder(tokens, positions), after


def make_encoder(batch, tokens, *shape):
    model = Encoder(*shape).cuda().half().eval()
    return model, (torch.randint(0, 30000, (batch, tokens), device="cuda"),)


def make_decoder(batch, cached, tokens, layers=8):
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Decoder(layers, batch).eval()
        torch.set_default_dtype(torch.float32)
        return model, (torch.randint(0, 128000, (batch, tokens)), torch.arange(cached, cached + tokens))


def make_image_model(name, channels_last):
    import torchvision
    model = getattr(torchvision.models, name)().cuda().half().eval()
    image = torch.randn(1, 3, 224, 224, device="cuda", dtype=torch.half)
    if channels_last:
        model, image = model.to(memory_format=torch.channels_last), image.to(memory_format=torch.channels_last)
    return model, (image,)


# {name of the ONNX file: a function that makes (module, inputs) on the GPU}
MODELS = {
    "minilm-l6-b1-s128-f16": lambda: make_encoder(1, 128, 6, 384, 12, 1536),
    "bert-base-b1-s128-f16": lambda: make_encoder(1, 128, 12, 768, 12, 3072),
    "bert-base-b8-s128-f16": lambda: make_encoder(8, 128, 12, 768, 12, 3072),
    "resnet50-b1-f16": lambda: make_image_model("resnet50", channels_last=True),
    "vit-b16-b1-f16": lambda: make_image_model("vit_b_16", channels_last=False),
    "llama3-8b-8layers-decode-b1-bf16": lambda: make_decoder(1, 1024, 1),
    "llama3-8b-8layers-decode-b16-bf16": lambda: make_decoder(16, 1024, 1),
    "llama3-8b-8layers-prefill512-b1-bf16": lambda: make_decoder(1, 0, 512),
}

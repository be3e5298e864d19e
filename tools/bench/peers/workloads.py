"""The workloads of peers.py: whole models by the public definitions of torchvision, timm, transformers and diffusers, and the bench
models of models.py, all with random weights from a fixed seed.

To add a kind of workload, add a function here. Shapes decide speed, but results are compared with those of the same weights in f32.
So weights are drawn as each definition draws them, and the norms of image networks get fitting statistics first
(`../export_networks.py`).
"""
import dataclasses
import pathlib
import sys
import typing

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import export_networks
import models


@dataclasses.dataclass
class Made:
    """A model in 16 bits in eval mode, and the inputs of one run by their names in its ONNX graph."""
    model: torch.nn.Module
    inputs: dict
    # A decoder's caches: inputs and outputs of the graph, updated in place by the model.
    caches: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Workload:
    make: typing.Callable[[], Made]  # creates the model on torch's default device
    channels_last: bool = False  # PyTorch is timed in both layouts


def image(batch, size=224):
    return {"image": torch.randn(batch, 3, size, size, dtype=torch.half)}


def drawn(model):
    """Spreads parameters that start as a single value (norms, biases, positions) around it."""
    export_networks.draw_norms(model, torch.Generator(torch.get_default_device()).manual_seed(1))
    return model


class Outputs(torch.nn.Module):
    """Wraps a model of transformers or diffusers: plain tensors as inputs, in order, and the first result as output."""

    def __init__(self, model, *names, **settings):
        super().__init__()
        self.model, self.names, self.settings = model, names, settings

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), **self.settings, return_dict=False)[0]


def torchvision_model(name, batch):
    import torchvision
    model = torchvision.models.get_model(name, weights=None).eval()
    drawn(model)
    export_networks.settle(model, torch.randn(2, 3, 224, 224))
    return Made(model.half(), image(batch))


def timm_model(name, batch, size):
    import timm
    model = timm.create_model(name, pretrained=False, img_size=size) if "patch" in name else timm.create_model(name)
    model = model.eval()
    drawn(model)
    export_networks.settle(model, torch.randn(1, 3, size, size))
    return Made(model.half(), image(batch, size))


def text_encoder(kind, batch, tokens, **config):
    import transformers
    config = getattr(transformers, kind + "Config")(**config)
    config._attn_implementation = "sdpa" if kind == "Bert" else "eager"
    name = "T5EncoderModel" if kind == "T5" else kind + "Model"
    model = drawn(getattr(transformers, name)(config)).eval().half()
    if kind == "Bert":
        model.pooler = None
    mask = torch.ones(batch, tokens, dtype=torch.int64)
    mask[::2, tokens * 3 // 4:] = 0
    ids = torch.randint(0, config.vocab_size, (batch, tokens))
    return Made(Outputs(model, "input_ids", "attention_mask"), {"ids": ids, "mask": mask})


def causal_model(tokens, **config):
    import transformers
    config = transformers.Qwen2Config(**config)
    config._attn_implementation = "sdpa"
    model = drawn(transformers.Qwen2ForCausalLM(config)).eval().bfloat16()
    ids = torch.randint(0, config.vocab_size, (1, tokens))
    return Made(Outputs(model, "input_ids", use_cache=False, logits_to_keep=1), {"ids": ids})


def diffusion_unet():
    import diffusers
    model = drawn(diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768)).eval().half()
    inputs = {"sample": torch.randn(2, 4, 64, 64, dtype=torch.half), "timestep": torch.tensor([501]),
              "text": torch.randn(2, 77, 768, dtype=torch.half)}
    return Made(Outputs(model, "sample", "timestep", "encoder_hidden_states"), inputs)


class PictureDecoder(torch.nn.Module):
    """Decodes latents of a diffusion model to a picture."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, latents):
        return self.model.decode(latents, return_dict=False)[0]


def diffusion_decoder():
    import diffusers
    channels = (128, 256, 512, 512)
    model = diffusers.AutoencoderKL(block_out_channels=channels, down_block_types=("DownEncoderBlock2D",) * 4,
                                    up_block_types=("UpDecoderBlock2D",) * 4, layers_per_block=2)
    model = drawn(model).eval().half()
    return Made(PictureDecoder(model), {"latents": torch.randn(1, 4, 64, 64, dtype=torch.half)})


def segmentation_encoder():
    import transformers
    config = transformers.SamVisionConfig(initializer_range=0.02)
    model = drawn(transformers.SamVisionModel(config)).eval().half()
    return Made(Outputs(model, "pixel_values"), image(1, 1024))


def speech_encoder():
    import transformers
    config = transformers.WhisperConfig(d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048)
    config._attn_implementation = "sdpa"
    model = drawn(transformers.models.whisper.modeling_whisper.WhisperEncoder(config)).eval().half()
    return Made(Outputs(model, "input_features"), {"features": torch.randn(1, 80, 3000, dtype=torch.half)})


def speech_features():
    import transformers
    config = transformers.Wav2Vec2Config()
    config._attn_implementation = "sdpa"
    model = drawn(transformers.Wav2Vec2Model(config)).eval().half()
    return Made(Outputs(model, "input_values"), {"samples": torch.randn(1, 80000, dtype=torch.half)})


def bench_encoder(batch, *shape):
    model = models.Encoder(*shape).eval().half()
    return Made(model, {"ids": torch.randint(0, 30000, (batch, 128))})


def bench_decoder(batch, cached, tokens, layers=8):
    torch.set_default_dtype(torch.bfloat16)
    model = models.Decoder(layers, batch).eval()
    torch.set_default_dtype(torch.float32)
    caches = {}
    for index, layer in enumerate(model.layers):
        for kind, cache in (("k", layer.keys), ("v", layer.values)):
            cache[:, :, :cached] = torch.randn_like(cache[:, :, :cached])
            caches[f"{kind}_cache.{index}"] = cache
    inputs = {"tokens": torch.randint(0, 128000, (batch, tokens)), "positions": torch.arange(cached, cached + tokens)}
    return Made(model, inputs, caches)


def network(name, batch=1):
    return Workload(lambda: torchvision_model(name, batch), channels_last=not name.startswith("vit"))


WORKLOADS = {
    # The bench models.
    "minilm-l6-b1-s128-f16": Workload(lambda: bench_encoder(1, 6, 384, 12, 1536)),
    "bert-base-b1-s128-f16": Workload(lambda: bench_encoder(1, 12, 768, 12, 3072)),
    "bert-base-b8-s128-f16": Workload(lambda: bench_encoder(8, 12, 768, 12, 3072)),
    "resnet50-b1-f16": network("resnet50"),
    "vit-b16-b1-f16": network("vit_b_16"),
    "llama3-8b-8layers-decode-b1-bf16": Workload(lambda: bench_decoder(1, 1024, 1)),
    "llama3-8b-8layers-decode-b16-bf16": Workload(lambda: bench_decoder(16, 1024, 1)),
    "llama3-8b-8layers-prefill512-b1-bf16": Workload(lambda: bench_decoder(1, 0, 512)),
    # Image networks of export_networks.py.
    **{f"{name}-b1-f16": network(name) for name in export_networks.USUAL if name not in ("resnet50", "vit_b_16")},
    # Other kinds of models, among them each kind on which Rondo was once slower than a peer.
    "unet-64x64-b2-f16": Workload(diffusion_unet, channels_last=True),
    "vae-decoder-64x64-b1-f16": Workload(diffusion_decoder, channels_last=True),
    "vit_l_16-b8-f16": network("vit_l_16", 8),
    "dinov2-b14-518-b4-f16": Workload(lambda: timm_model("vit_base_patch14_dinov2", 4, 518)),
    "llama3-8b-8layers-prefill2048-b1-bf16": Workload(lambda: bench_decoder(1, 0, 2048)),
    "qwen2-0.5b-prefill1024-b1-bf16": Workload(lambda: causal_model(
        1024, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, tie_word_embeddings=True)),
    "bert-base-b32-s128-f16": Workload(lambda: text_encoder("Bert", 32, 128)),
    "bert-large-b1-s384-f16": Workload(lambda: text_encoder(
        "Bert", 1, 384, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)),
    "deberta-v3-base-b8-s128-f16": Workload(lambda: text_encoder(
        "DebertaV2", 8, 128, vocab_size=128100, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
        intermediate_size=3072, relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type=["p2c", "c2p"], type_vocab_size=0, position_biased_input=False)),
    "t5-base-encoder-b4-s256-f16": Workload(lambda: text_encoder(
        "T5", 4, 256, d_model=768, d_ff=3072, num_layers=12, num_heads=12)),
    "convnext_small-b16-f16": network("convnext_small", 16),
    "swin_t-b8-f16": network("swin_t", 8),
    "sam-vit-b-1024-b1-f16": Workload(segmentation_encoder),
    "cspdarknet53-640-b1-f16": Workload(lambda: timm_model("cspdarknet53", 1, 640), channels_last=True),
    "whisper-base-encoder-b1-f16": Workload(speech_encoder),
    "wav2vec2-base-5s-b1-f16": Workload(speech_features),
}

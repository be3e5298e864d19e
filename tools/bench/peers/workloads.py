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


class FirstOfDict(torch.nn.Module):
    """Wraps a model that returns a dictionary: its first entry as output."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return next(iter(self.model(*inputs).values()))


def torchvision_model(name, batch, *shape):
    """shape: that of an input without the batch, by default a photo's."""
    import torchvision
    shape = shape or (3, 224, 224)
    backbone = {"weights_backbone": None} if name.startswith("deeplab") else {}
    model = torchvision.models.get_model(name, weights=None, **backbone).eval()
    if backbone:
        model = FirstOfDict(model)
    drawn(model)
    export_networks.settle(model, torch.randn(2, *shape))
    return Made(model.half(), {"image": torch.randn(batch, *shape, dtype=torch.half)})


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


def causal_model(kind, tokens, attention="sdpa", **config):
    import transformers
    config = getattr(transformers, kind + "Config")(**config)
    config._attn_implementation = attention
    name = "GPT2LMHeadModel" if kind == "GPT2" else kind + "ForCausalLM"
    model = drawn(getattr(transformers, name)(config)).eval().bfloat16()
    ids = torch.randint(0, config.vocab_size, (1, tokens))
    return Made(Outputs(model, "input_ids", use_cache=False, logits_to_keep=1), {"ids": ids})


def transformer(name, inputs, dtype=torch.half, **config):
    """A class of transformers, by its configuration, and its inputs by the names of its arguments."""
    import transformers
    kind = getattr(transformers, name)
    config = kind.config_class(**config)
    config._attn_implementation = "sdpa"
    model = drawn(kind(config)).eval().to(dtype)
    return Made(Outputs(model, *inputs), inputs)


def tokens(*shape):
    return torch.randint(1, 20000, shape)


def halves(*shape):
    return torch.randn(shape, dtype=torch.half)


def denoiser(name, inputs, **config):
    """The model of a diffusion's step, a class of diffusers, and its inputs by the names of its arguments."""
    import diffusers
    model = drawn(getattr(diffusers, name)(**config)).eval().half()
    return Made(Outputs(model, *inputs), inputs)


def text_to_image(sample, text, **config):
    inputs = {"sample": halves(*sample), "timestep": torch.tensor([501]), "encoder_hidden_states": halves(*text)}
    return denoiser("UNet2DConditionModel", inputs, sample_size=sample[-1], cross_attention_dim=text[-1], **config)


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
    "unet-64x64-b2-f16": Workload(lambda: text_to_image((2, 4, 64, 64), (2, 77, 768)), channels_last=True),
    "vae-decoder-64x64-b1-f16": Workload(diffusion_decoder, channels_last=True),
    "vit_l_16-b8-f16": network("vit_l_16", 8),
    "dinov2-b14-518-b4-f16": Workload(lambda: timm_model("vit_base_patch14_dinov2", 4, 518)),
    "llama3-8b-8layers-prefill2048-b1-bf16": Workload(lambda: bench_decoder(1, 0, 2048)),
    "qwen2-0.5b-prefill1024-b1-bf16": Workload(lambda: causal_model(
        "Qwen2", 1024, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
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
    # Image networks in batches, and classes that differ from those above by their layers.
    **{f"{name}-b{batch}-f16": network(name, batch) for name, batch in (
        ("resnet50", 32), ("mobilenet_v3_large", 32), ("efficientnet_v2_s", 8), ("regnet_y_8gf", 16),
        ("densenet121", 8), ("swin_v2_t", 8), ("maxvit_t", 4))},
    "deeplabv3-resnet50-520-b1-f16": Workload(
        lambda: torchvision_model("deeplabv3_resnet50", 1, 3, 520, 520), channels_last=True),
    "r3d_18-16x112-b4-f16": Workload(lambda: torchvision_model("r3d_18", 4, 3, 16, 112, 112)),
    "mvit_v2_s-16x224-b1-f16": Workload(lambda: torchvision_model("mvit_v2_s", 1, 3, 16, 224, 224)),
    **{f"{name}-b{batch}-f16": Workload(lambda name=name, batch=batch: timm_model(name, batch, 224))
       for name, batch in (
        ("vit_small_patch16_224", 32), ("mixer_b16_224", 16), ("beit_base_patch16_224", 8), ("convnextv2_tiny", 16),
        ("coatnet_0_rw_224", 8), ("efficientformer_l1", 16), ("efficientvit_b1", 16))},
    # Transformers.
    "gpt2-prefill1024-b1-bf16": Workload(lambda: causal_model("GPT2", 1024)),
    "gemma2-2b-8layers-prefill1024-b1-bf16": Workload(lambda: causal_model(
        "Gemma2", 1024, "eager", num_hidden_layers=8, sliding_window=512)),
    "phi-1.5-8layers-prefill1024-b1-bf16": Workload(lambda: causal_model("Phi", 1024, num_hidden_layers=8)),
    "distilbert-b16-s128-f16": Workload(lambda: transformer("DistilBertModel", {"input_ids": tokens(16, 128)})),
    "clip-text-b16-f16": Workload(lambda: transformer("CLIPTextModel", {"input_ids": tokens(16, 77)})),
    "clip-vit-b32-b32-f16": Workload(lambda: transformer("CLIPVisionModel", {"pixel_values": halves(32, 3, 224, 224)})),
    "bart-base-b4-s256-bf16": Workload(lambda: transformer(
        "BartModel", {"input_ids": tokens(4, 256), "decoder_input_ids": tokens(4, 128)}, torch.bfloat16, d_model=768,
        encoder_layers=6, decoder_layers=6, encoder_ffn_dim=3072, decoder_ffn_dim=3072, encoder_attention_heads=12,
        decoder_attention_heads=12, use_cache=False)),
    "segformer-b0-512-b1-f16": Workload(lambda: transformer(
        "SegformerForSemanticSegmentation", {"pixel_values": halves(1, 3, 512, 512)})),
    # Diffusion by transformers (heads of 72), and U-Nets with more channels and deeper transformers.
    "dit-xl-2-32x32-b2-f16": Workload(lambda: denoiser("DiTTransformer2DModel", {
        "hidden_states": halves(2, 4, 32, 32), "timestep": torch.tensor([501, 501]),
        "class_labels": torch.tensor([1, 7])}, sample_size=32)),
    "sd3-8layers-64x64-b2-f16": Workload(lambda: denoiser("SD3Transformer2DModel", {
        "hidden_states": halves(2, 16, 64, 64), "encoder_hidden_states": halves(2, 154, 4096),
        "pooled_projections": halves(2, 2048), "timestep": torch.tensor([501, 501])}, sample_size=64, num_layers=8,
        num_attention_heads=24, caption_projection_dim=1536, out_channels=16)),
    "sdxl-unet-64x64-b2-f16": Workload(lambda: text_to_image(
        (2, 4, 64, 64), (2, 77, 2048), block_out_channels=(320, 640, 1280), transformer_layers_per_block=(1, 2, 4),
        attention_head_dim=(5, 10, 20), use_linear_projection=True,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D")), channels_last=True),
}

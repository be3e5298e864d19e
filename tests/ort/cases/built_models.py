"""Small checkpoints with random weights, of the families that onnxruntime-genai's model builder knows, and the builder itself
run on them as people do. A name and a function each."""
import safetensors.torch
import torch
import transformers as t

from checkpoints import random_weights, run_module, write_tokenizer

WORDS, LAYERS, HEADS, SIZE, SLIDING = 97, 2, 4, 32, 8
_ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_PLAIN = {"vocab_size": WORDS, "hidden_size": HEADS * SIZE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
          "max_position_embeddings": 128, "intermediate_size": 192, **_ENDS}
_FEW = _PLAIN | {"num_key_value_heads": 2}
_HEAD = _FEW | {"head_dim": SIZE}
_TYPES = ["sliding_attention", "full_attention"]
_WINDOW = _HEAD | {"sliding_window": SLIDING}
_EXPERTS = _HEAD | {"num_local_experts": 4, "num_experts_per_tok": 2}
# Other angles from 12 positions on.
_FACTORS = {"short_factor": [1.0 + 0.1 * i for i in range(SIZE // 2)], "long_factor": [2.0 + 0.5 * i for i in range(SIZE // 2)]}
_LONG = {"max_position_embeddings": 96, "original_max_position_embeddings": 12}
_LINEAR = {"layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2, "linear_num_value_heads": 4,
           "linear_key_head_dim": 16, "linear_value_head_dim": 16}
_MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 4, 4]}


def _vision(**more):
    return {"depth": 1, "hidden_size": 32, "num_heads": 2, "intermediate_size": 32, "out_hidden_size": HEADS * SIZE} | more


CHECKPOINTS = {
    "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**_FEW)),
    "llama, tied": lambda: t.LlamaForCausalLM(t.LlamaConfig(**_FEW, tie_word_embeddings=True)),
    "llama, biases": lambda: t.LlamaForCausalLM(t.LlamaConfig(**_FEW, attention_bias=True, mlp_bias=True)),
    "llama, llama3 angles": lambda: t.LlamaForCausalLM(t.LlamaConfig(**_FEW, rope_scaling={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32})),
    "llama, yarn": lambda: t.LlamaForCausalLM(t.LlamaConfig(**_FEW, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32})),
    "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**_HEAD, sliding_window=None)),
    "mistral, a window": lambda: t.MistralForCausalLM(t.MistralConfig(**_WINDOW)),
    "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**_FEW)),
    "qwen2, tied": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**_FEW, tie_word_embeddings=True)),
    "qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**_HEAD)),
    "phi": lambda: t.PhiForCausalLM(t.PhiConfig(**_PLAIN, partial_rotary_factor=0.5)),
    "phi3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**_FEW | {"original_max_position_embeddings": 128})),
    "phi3, long": lambda: t.Phi3ForCausalLM(t.Phi3Config(**_FEW | _LONG, rope_scaling={"type": "longrope", **_FACTORS})),
    "phi3, part of a head": lambda: t.Phi3ForCausalLM(t.Phi3Config(
        **_FEW | _LONG, partial_rotary_factor=0.5, rope_scaling={"type": "longrope", **{k: v[:8] for k, v in _FACTORS.items()}})),
    "phimoe": lambda: t.PhimoeForCausalLM(t.PhimoeConfig(**_EXPERTS | _LONG, sliding_window=None, rope_scaling={
        "type": "longrope", "short_mscale": 1.1, "long_mscale": 1.3, "original_max_position_embeddings": 12, **_FACTORS})),
    "gemma": lambda: t.GemmaForCausalLM(t.GemmaConfig(**_HEAD)),
    "gemma2": lambda: t.Gemma2ForCausalLM(t.Gemma2Config(**_WINDOW, query_pre_attn_scalar=SIZE)),
    "gemma3": lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**_WINDOW, query_pre_attn_scalar=SIZE, layer_types=_TYPES)),
    "gpt oss": lambda: t.GptOssForCausalLM(t.GptOssConfig(**_EXPERTS, sliding_window=SLIDING, layer_types=_TYPES, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 1024})),
    "gpt oss, all experts": lambda: t.GptOssForCausalLM(t.GptOssConfig(**_EXPERTS | {"num_experts_per_tok": 4}, sliding_window=SLIDING, layer_types=_TYPES, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 1024})),
    "granite": lambda: t.GraniteForCausalLM(t.GraniteConfig(
        **_FEW, embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22, attention_multiplier=0.1)),
    "granite hybrid": lambda: t.GraniteMoeHybridForCausalLM(t.GraniteMoeHybridConfig(
        **_FEW, layer_types=["attention"] * 2, num_local_experts=0, shared_intermediate_size=96, position_embedding_type="rope")),
    "hunyuan": lambda: t.HunYuanDenseV1ForCausalLM(t.HunYuanDenseV1Config(**_HEAD, rope_scaling={
        "type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0})),
    "lfm2": lambda: t.Lfm2ForCausalLM(t.Lfm2Config(**_FEW, layer_types=["conv", "full_attention"], conv_L_cache=3)),
    "lfm2 moe": lambda: t.Lfm2MoeForCausalLM(t.Lfm2MoeConfig(
        **_FEW, layer_types=["conv", "full_attention"], conv_L_cache=3, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=64, num_dense_layers=1)),
    "nemotron": lambda: t.NemotronForCausalLM(t.NemotronConfig(**_HEAD)),
    "olmo": lambda: t.OlmoForCausalLM(t.OlmoConfig(**_PLAIN)),
    "smollm3": lambda: t.SmolLM3ForCausalLM(t.SmolLM3Config(**_FEW, no_rope_layers=[1, 0])),
    "ernie4.5": lambda: t.Ernie4_5ForCausalLM(t.Ernie4_5Config(**_HEAD)),
    "whisper": lambda: t.WhisperForConditionalGeneration(t.WhisperConfig(
        vocab_size=WORDS, d_model=HEADS * SIZE, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=192, decoder_ffn_dim=192, max_target_positions=128,
        max_source_positions=1500, num_mel_bins=80, decoder_start_token_id=1, **_ENDS)),
    "qwen2.5 vl": lambda: t.Qwen2_5_VLForConditionalGeneration(t.Qwen2_5_VLConfig(
        text_config={**_FEW, "rope_scaling": _MROPE, "rope_parameters": _MROPE}, vision_config=_vision())),
    "qwen3 vl": lambda: t.Qwen3VLForConditionalGeneration(t.Qwen3VLConfig(
        text_config={**_HEAD, "rope_scaling": _MROPE, "rope_parameters": _MROPE},
        vision_config=_vision(deepstack_visual_indexes=[0], num_position_embeddings=16))),
    "qwen3.5": lambda: t.Qwen3_5ForConditionalGeneration(t.Qwen3_5Config(
        text_config={**_HEAD, **_LINEAR, "rope_parameters": {**_MROPE, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.25}},
        vision_config=_vision())),
    "qwen3.5 moe": lambda: t.Qwen3_5MoeForConditionalGeneration(t.Qwen3_5MoeConfig(
        text_config={**_HEAD, **_LINEAR, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
                     "shared_expert_intermediate_size": 64,
                     "rope_parameters": {**_MROPE, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.25}},
        vision_config=_vision())),
    "mistral3": lambda: t.Mistral3ForConditionalGeneration(t.Mistral3Config(
        text_config=t.MistralConfig(**_HEAD, sliding_window=None),
        vision_config=t.PixtralVisionConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32))),
}


# {name: (transformers' architecture, the name in the original checkpoints)}.
ARCHITECTURES = {"phimoe": ("PhimoeForCausalLM", "PhiMoEForCausalLM")}


def _mxfp4(folder):
    """Experts like GPT-OSS's, in blocks of 32 FP4 numbers with a scale each, stored where the builder looks for them."""
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for name, weight in list(tensors.items()):
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            experts, inner, rows = weight.shape
            blocks = (experts, rows, inner // 32)
            tensors[f"{name}_blocks"] = torch.randint(0, 256, (*blocks, 16), dtype=torch.uint8)
            tensors[f"{name}_scales"] = torch.randint(121, 124, blocks, dtype=torch.uint8)
    safetensors.torch.save_file(tensors, path, {"format": "pt"})


def checkpoint(name, folder):
    """Writes the model of this name and a tokenizer with save_pretrained, unless they exist."""
    if (folder / "tokenizer.json").exists():
        return
    torch.manual_seed(5)
    model = CHECKPOINTS[name]().eval()
    random_weights(model)
    model.save_pretrained(folder)
    if name in ARCHITECTURES:
        path = folder / "config.json"
        path.write_text(path.read_text(encoding="utf-8").replace(*ARCHITECTURES[name]), encoding="utf-8")
    if name.startswith("gpt oss"):
        _mxfp4(folder)
    if name == "whisper":
        t.WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)
    write_tokenizer(folder, WORDS)


def build(name, folder, precision, provider, options):
    """Runs the builder on a checkpoint. Returns the model's folder."""
    given = folder / "checkpoint"
    made = folder / "_".join([precision, provider, *(o.replace("=", "-").replace("/", "+") for o in options)])
    if (made / "genai_config.json").exists():
        return made
    checkpoint(name, given)
    words = ["-i", given, "-o", made, "-p", precision, "-e", provider, "-c", folder / "cache",
             *(["--extra_options", *options] if options else [])]
    run_module("onnxruntime_genai.models.builder", words, made / "log")
    return made

"""Small decoders of the families that people export, with random weights, as ONNX models with growing caches: by both of
PyTorch's exporters and by transformers' own, from transformers' definitions. A name and a function each."""
import onnx_ir
import torch
import transformers as t
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

WORDS, LAYERS, HEADS, SIZE = 97, 2, 4, 16
ENCODED = {"whisper": 20}  # positions of the encoder's output; other models take any number

_PLAIN = {"vocab_size": WORDS, "hidden_size": HEADS * SIZE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
_LONG = _PLAIN | {"max_position_embeddings": 128, "intermediate_size": 96}
_FEW = _LONG | {"num_key_value_heads": 2}
_WINDOW = _FEW | {"head_dim": SIZE, "sliding_window": 8}
_GPT = {"vocab_size": WORDS, "n_embd": HEADS * SIZE, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 128}
_PAIR = {"vocab_size": WORDS, "d_model": HEADS * SIZE, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
         "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96}
_ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_EXPERTS = _FEW | {"num_local_experts": 4, "num_experts_per_tok": 2}
_MANY = _FEW | {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 48}
_LATENT = _LONG | {"num_key_value_heads": HEADS, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
                    "qk_rope_head_dim": 8, "v_head_dim": SIZE, "moe_intermediate_size": 48, "n_routed_experts": 8,
                    "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1}
# Other angles from 12 positions on.
_LONG_ROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 12,
              "short_factor": [1.0 + 0.1 * i for i in range(SIZE // 2)],
              "long_factor": [2.0 + 0.5 * i for i in range(SIZE // 2)]}

DECODERS = {
    "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**_FEW)),
    "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**_FEW)),
    "qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**_FEW, head_dim=SIZE)),
    "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**_FEW, sliding_window=8)),
    "gemma": lambda: t.GemmaForCausalLM(t.GemmaConfig(**_LONG, num_key_value_heads=1, head_dim=SIZE)),
    "gemma2": lambda: t.Gemma2ForCausalLM(t.Gemma2Config(**_WINDOW)),
    "gemma3": lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**_WINDOW)),
    "phi": lambda: t.PhiForCausalLM(t.PhiConfig(**_LONG)),
    "phi3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**_FEW, pad_token_id=0)),
    "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(**_GPT)),
    "gpt bigcode": lambda: t.GPTBigCodeForCausalLM(t.GPTBigCodeConfig(**_GPT, multi_query=True)),
    "gpt neo": lambda: t.GPTNeoForCausalLM(t.GPTNeoConfig(
        vocab_size=WORDS, hidden_size=HEADS * SIZE, num_layers=LAYERS, num_heads=HEADS, max_position_embeddings=128,
        attention_types=[[["global", "local"], 1]], window_size=6)),
    "codegen": lambda: t.CodeGenForCausalLM(t.CodeGenConfig(**_GPT, rotary_dim=8)),
    "gptj": lambda: t.GPTJForCausalLM(t.GPTJConfig(**_GPT, rotary_dim=8)),
    "gpt neox": lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**_LONG)),
    "opt": lambda: t.OPTForCausalLM(t.OPTConfig(**_PLAIN, max_position_embeddings=128, ffn_dim=96,
                                                word_embed_proj_dim=HEADS * SIZE)),
    "bloom": lambda: t.BloomForCausalLM(t.BloomConfig(vocab_size=WORDS, hidden_size=HEADS * SIZE, n_layer=LAYERS,
                                                      n_head=HEADS)),
    "mpt": lambda: t.MptForCausalLM(t.MptConfig(vocab_size=WORDS, d_model=HEADS * SIZE, n_heads=HEADS, n_layers=LAYERS,
                                                max_seq_len=128)),
    "xglm": lambda: t.XGLMForCausalLM(t.XGLMConfig(vocab_size=WORDS, d_model=HEADS * SIZE, num_layers=LAYERS,
                                                   attention_heads=HEADS, ffn_dim=96, max_position_embeddings=128)),
    "biogpt": lambda: t.BioGptForCausalLM(t.BioGptConfig(**_LONG)),
    "falcon": lambda: t.FalconForCausalLM(t.FalconConfig(**_PLAIN)),
    "olmo2": lambda: t.Olmo2ForCausalLM(t.Olmo2Config(**_FEW, **_ENDS)),
    "olmo": lambda: t.OlmoForCausalLM(t.OlmoConfig(**_LONG)),
    "stablelm": lambda: t.StableLmForCausalLM(t.StableLmConfig(**_FEW)),
    "starcoder2": lambda: t.Starcoder2ForCausalLM(t.Starcoder2Config(**_FEW)),
    "cohere2": lambda: t.Cohere2ForCausalLM(t.Cohere2Config(**_FEW, sliding_window=8, sliding_window_pattern=2)),
    "glm4": lambda: t.Glm4ForCausalLM(t.Glm4Config(**_FEW, **_ENDS, head_dim=SIZE)),
    "nemotron": lambda: t.NemotronForCausalLM(t.NemotronConfig(**_FEW)),
    "persimmon": lambda: t.PersimmonForCausalLM(t.PersimmonConfig(**_LONG)),
    "exaone4": lambda: t.Exaone4ForCausalLM(t.Exaone4Config(**_FEW, sliding_window=8, sliding_window_pattern=2)),
    "cohere": lambda: t.CohereForCausalLM(t.CohereConfig(**_FEW)),
    "smollm3": lambda: t.SmolLM3ForCausalLM(t.SmolLM3Config(**_FEW, **_ENDS)),
    "granite": lambda: t.GraniteForCausalLM(t.GraniteConfig(**_FEW)),
    "mixtral": lambda: t.MixtralForCausalLM(t.MixtralConfig(**_EXPERTS)),
    "qwen2 moe": lambda: t.Qwen2MoeForCausalLM(t.Qwen2MoeConfig(**_MANY, shared_expert_intermediate_size=40)),
    "qwen3 moe": lambda: t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**_MANY, head_dim=SIZE)),
    "olmoe": lambda: t.OlmoeForCausalLM(t.OlmoeConfig(**_FEW, **_ENDS, num_experts=8, num_experts_per_tok=3)),
    "phimoe": lambda: t.PhimoeForCausalLM(t.PhimoeConfig(**_EXPERTS, **_ENDS)),
    "granite moe": lambda: t.GraniteMoeForCausalLM(t.GraniteMoeConfig(**_EXPERTS)),
    "deepseek v2": lambda: t.DeepseekV2ForCausalLM(t.DeepseekV2Config(
        **_LATENT, n_group=1, topk_group=1, topk_method="greedy")),
    "deepseek v3": lambda: t.DeepseekV3ForCausalLM(t.DeepseekV3Config(**_LATENT, n_group=2, topk_group=1)),
    "ernie4.5": lambda: t.Ernie4_5ForCausalLM(t.Ernie4_5Config(**_FEW, head_dim=SIZE)),
    "ernie4.5 moe": lambda: t.Ernie4_5_MoeForCausalLM(t.Ernie4_5_MoeConfig(
        **_FEW, moe_intermediate_size=48, moe_num_experts=8, moe_k=2, moe_num_shared_experts=1, moe_layer_start_index=1)),
    "glm": lambda: t.GlmForCausalLM(t.GlmConfig(**_FEW, **_ENDS, head_dim=SIZE)),
    "glm4 moe": lambda: t.Glm4MoeForCausalLM(t.Glm4MoeConfig(
        **_FEW, head_dim=SIZE, moe_intermediate_size=48, n_routed_experts=8, num_experts_per_tok=2, first_k_dense_replace=1)),
    "dots1": lambda: t.Dots1ForCausalLM(t.Dots1Config(
        **_FEW, head_dim=SIZE, moe_intermediate_size=48, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1,
        first_k_dense_replace=1)),
    "hunyuan": lambda: t.HunYuanDenseV1ForCausalLM(t.HunYuanDenseV1Config(**_FEW, **_ENDS, head_dim=SIZE)),
    "hunyuan moe": lambda: t.HunYuanMoEV1ForCausalLM(t.HunYuanMoEV1Config(
        **_FEW, **_ENDS, head_dim=SIZE, num_experts=4, moe_topk=2)),
    "seed oss": lambda: t.SeedOssForCausalLM(t.SeedOssConfig(**_FEW, head_dim=SIZE)),
    "apertus": lambda: t.ApertusForCausalLM(t.ApertusConfig(**_FEW, **_ENDS)),
    "arcee": lambda: t.ArceeForCausalLM(t.ArceeConfig(**_FEW, **_ENDS)),
    "helium": lambda: t.HeliumForCausalLM(t.HeliumConfig(**_FEW, **_ENDS, head_dim=SIZE)),
    "olmo3": lambda: t.Olmo3ForCausalLM(t.Olmo3Config(**_FEW, **_ENDS, sliding_window=8)),
    "granite moe shared": lambda: t.GraniteMoeSharedForCausalLM(t.GraniteMoeSharedConfig(
        **_EXPERTS, shared_intermediate_size=40)),
    "diffllama": lambda: t.DiffLlamaForCausalLM(t.DiffLlamaConfig(**_FEW, **_ENDS)),
    "nanochat": lambda: t.NanoChatForCausalLM(t.NanoChatConfig(**_FEW, **_ENDS)),
    "bitnet": lambda: t.BitNetForCausalLM(t.BitNetConfig(**_FEW, **_ENDS)),
    "ministral": lambda: t.MinistralForCausalLM(t.MinistralConfig(**_FEW, head_dim=SIZE, sliding_window=8)),
    "phimoe long": lambda: t.PhimoeForCausalLM(t.PhimoeConfig(**_EXPERTS, **_ENDS, rope_parameters=_LONG_ROPE | {
        "short_mscale": 1.1, "long_mscale": 1.3})),
    "phi3 long": lambda: t.Phi3ForCausalLM(t.Phi3Config(**_FEW, pad_token_id=0, original_max_position_embeddings=12,
                                                        rope_parameters=_LONG_ROPE)),
    "gpt oss": lambda: t.GptOssForCausalLM(t.GptOssConfig(**_EXPERTS, **_ENDS, head_dim=SIZE, sliding_window=8)),
}
WITH_ENCODER = {
    "t5": lambda: t.T5ForConditionalGeneration(t.T5Config(
        vocab_size=WORDS, d_model=HEADS * SIZE, d_kv=SIZE, d_ff=96, num_layers=LAYERS, num_heads=HEADS,
        decoder_start_token_id=0)),
    "bart": lambda: t.BartForConditionalGeneration(t.BartConfig(**_PAIR, max_position_embeddings=128)),
    "marian": lambda: t.MarianMTModel(t.MarianConfig(**_PAIR, max_position_embeddings=128, pad_token_id=0,
                                                     decoder_start_token_id=0)),
    "whisper": lambda: t.WhisperForConditionalGeneration(t.WhisperConfig(
        **_PAIR, **_ENDS, max_target_positions=128, max_source_positions=ENCODED["whisper"], num_mel_bins=8,
        decoder_start_token_id=1)),
}
# Models with layers that keep a state of fixed size beside or instead of keys and values. transformers' own exporter writes them.
HYBRIDS = {
    "lfm2": lambda: t.Lfm2ForCausalLM(t.Lfm2Config(**_FEW, layer_types=["conv", "full_attention"], conv_L_cache=3)),
    "falcon h1": lambda: t.FalconH1ForCausalLM(t.FalconH1Config(
        **_FEW, mamba_d_ssm=64, mamba_n_heads=8, mamba_d_head=8, mamba_d_state=8, mamba_n_groups=1)),
    "granite hybrid": lambda: t.GraniteMoeHybridForCausalLM(t.GraniteMoeHybridConfig(
        **_FEW, layer_types=["mamba", "attention"], mamba_n_heads=8, mamba_d_head=16, mamba_d_state=8, num_local_experts=0,
        shared_intermediate_size=40)),
    "qwen3 next": lambda: t.Qwen3NextForCausalLM(t.Qwen3NextConfig(
        **_FEW, head_dim=SIZE, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2,
        linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8, num_experts=0)),
}
ALL = list(DECODERS) + list(WITH_ENCODER) + list(HYBRIDS)


def _flat(cache):
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


class _Decoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = DynamicCache()
        for layer in range(LAYERS):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        takes = self.model.forward.__code__.co_varnames
        more = {"position_ids": position_ids} if "position_ids" in takes else {}
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True, **more)
        return (out.logits, *_flat(out.past_key_values))


class _WithEncoder(torch.nn.Module):
    """Takes the encoder's keys and values as inputs; the encoder's output is projected once elsewhere."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, encoder_hidden_states, *past, mask=None):
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        for layer in range(LAYERS):
            cache.self_attention_cache.update(past[4 * layer], past[4 * layer + 1], layer)
            cache.cross_attention_cache.update(past[4 * layer + 2], past[4 * layer + 3], layer)
            cache.is_updated[layer] = True
        out = self.model(decoder_input_ids=input_ids, encoder_outputs=(encoder_hidden_states,), attention_mask=mask,
                         past_key_values=cache, use_cache=True)
        return (out.logits, *_flat(out.past_key_values.self_attention_cache))


def _rows(name, model):
    """(heads, row size) of a layer's keys, and of its values. Latent attention caches other values instead."""
    if name in WITH_ENCODER:
        return (HEADS, SIZE), (HEADS, SIZE)
    with torch.no_grad():
        layer = model(torch.randint(0, WORDS, (1, 5)), use_cache=True).past_key_values.layers[0]
    return tuple((kept.shape[1], kept.shape[3]) for kept in (layer.keys, layer.values))


def _ports(name, model):
    """Returns inputs as (name, example, dims that vary), and output names with dims that vary."""
    rows, past, total = "sequence_length", "past_sequence_length", "past_sequence_length + sequence_length"
    ids = torch.randint(0, WORDS, (2, 3))
    inputs, outputs = [("input_ids", ids, {0: "batch_size", 1: rows})], [("logits", {0: "batch_size", 1: rows})]
    if name in DECODERS:
        inputs.append(("attention_mask", torch.ones(2, 8, dtype=torch.int64), {0: "batch_size", 1: "total_sequence_length"}))
        inputs.append(("position_ids", torch.arange(5, 8).repeat(2, 1), {0: "batch_size", 1: rows}))
        kinds, encoded = [("", 5, past)], 0
    else:
        encoded = ENCODED.get(name, 7)
        dims = {0: "batch_size"} | ({} if name in ENCODED else {1: "encoder_sequence_length"})
        inputs.append(("encoder_hidden_states", torch.randn(2, encoded, HEADS * SIZE), dims))
        kinds = [(".decoder", 5, past), (".encoder", encoded, "encoder_sequence_length")]
    for layer in range(LAYERS):
        for kind, length, symbol in kinds:
            for part, (heads, size) in zip(("key", "value"), _rows(name, model)):
                inputs.append((f"past_key_values.{layer}{kind}.{part}", torch.randn(2, heads, length, size),
                               {0: "batch_size", 2: symbol}))
                if kind != ".encoder":
                    outputs.append((f"present.{layer}{kind}.{part}", {0: "batch_size", 2: total}))
    return inputs, outputs


def _export_by_transformers(model, path):
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=torch.randint(0, WORDS, (2, 5)), past_key_values=cache, use_cache=True)
        inputs = {"input_ids": torch.randint(0, WORDS, (2, 3)), "attention_mask": torch.ones(2, 8, dtype=torch.int64),
                  "past_key_values": cache}
        if "position_ids" in model.forward.__code__.co_varnames:
            inputs["position_ids"] = torch.arange(5, 8).repeat(2, 1)
        exported = OnnxExporter().export(model, inputs, config=OnnxConfig(dynamic=True))
    onnx_ir.save(exported.program, path)


def export(name, exporter, path):
    """Writes the model `name` by the exporter "script", "dynamo" or "transformers"."""
    torch.manual_seed(1)
    model = (DECODERS | WITH_ENCODER | HYBRIDS)[name]().eval()
    if exporter == "transformers":
        _export_by_transformers(model, path)
        return
    if name in HYBRIDS:
        raise ValueError(f"{name} keeps states that only transformers' exporter names")
    if hasattr(model, "set_experts_implementation") and model._can_set_experts_implementation():
        model.set_experts_implementation("batched_mm")  # what PyTorch's exporters can write
    inputs, outputs = _ports(name, model)
    wrapped = (_Decoder if name in DECODERS else _WithEncoder)(model).eval()
    tensors = tuple(example for _, example, _ in inputs)
    names = {"input_names": [port for port, _, _ in inputs], "output_names": [port for port, _ in outputs]}
    if exporter == "script":
        axes = {port: dims for port, _, dims in inputs} | dict(outputs)
        torch.onnx.export(wrapped, tensors, path, dynamic_axes=axes, opset_version=17, dynamo=False, **names)
        return
    named = 3 if name in DECODERS else 2  # the others are *past
    shapes = [dims for _, _, dims in inputs]
    torch.onnx.export(wrapped, tensors, path, dynamic_shapes=(*shapes[:named], tuple(shapes[named:])), opset_version=18,
                      dynamo=True, verbose=False, external_data=False, **names)

"""Small checkpoints with random weights, of the families that optimum-onnx exports, and `optimum-cli` itself run on them.
Each has a name, and a function that makes the model and returns the task."""
import torch
import transformers as t

from checkpoints import random_weights, run_module, write_tokenizer

WORDS, LAYERS, HEADS, SIZE = 97, 2, 4, 16
HIDDEN = HEADS * SIZE
_ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_PLAIN = {"vocab_size": WORDS, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, **_ENDS}
_LONG = _PLAIN | {"max_position_embeddings": 128, "intermediate_size": 96}
_FEW = _LONG | {"num_key_value_heads": 2}
_GPT = {"vocab_size": WORDS, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 128, **_ENDS}
_PAIR = {"vocab_size": WORDS, "d_model": HIDDEN, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
         "decoder_attention_heads": HEADS, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "max_position_embeddings": 128,
         "decoder_start_token_id": 1, **_ENDS}
_IMAGE = {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 96, "image_size": 32}
_SOUND = {"vocab_size": 32, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 96,
          "conv_dim": (32, 32), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2,
          "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, **_ENDS}
_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}

DECODERS = {
    "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**_FEW)),
    "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**_FEW, sliding_window=8)),
    "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**_FEW)),
    "qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**_FEW, head_dim=SIZE)),
    "qwen3_moe": lambda: t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**_FEW, **_MOE, head_dim=SIZE)),
    "gemma": lambda: t.GemmaForCausalLM(t.GemmaConfig(**_FEW, head_dim=SIZE)),
    "gemma2": lambda: t.Gemma2ForCausalLM(t.Gemma2Config(**_FEW, head_dim=SIZE, sliding_window=8)),
    "gemma3": lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**_FEW, head_dim=SIZE, sliding_window=8, layer_types=[
        "sliding_attention", "full_attention"])),
    "phi": lambda: t.PhiForCausalLM(t.PhiConfig(**_LONG)),
    "phi3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**_FEW)),
    "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(**_GPT)),
    "gpt_bigcode": lambda: t.GPTBigCodeForCausalLM(t.GPTBigCodeConfig(**_GPT)),
    "gpt_neo": lambda: t.GPTNeoForCausalLM(t.GPTNeoConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, num_layers=LAYERS, num_heads=HEADS, max_position_embeddings=128,
        attention_types=[[["global", "local"], 1]], window_size=6, **_ENDS)),
    "gpt_neox": lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**_LONG)),
    "gptj": lambda: t.GPTJForCausalLM(t.GPTJConfig(**_GPT, rotary_dim=8)),
    "codegen": lambda: t.CodeGenForCausalLM(t.CodeGenConfig(**_GPT, rotary_dim=8)),
    "opt": lambda: t.OPTForCausalLM(t.OPTConfig(**_PLAIN, max_position_embeddings=128, ffn_dim=96, word_embed_proj_dim=HIDDEN)),
    "bloom": lambda: t.BloomForCausalLM(t.BloomConfig(vocab_size=WORDS, hidden_size=HIDDEN, n_layer=LAYERS, n_head=HEADS, **_ENDS)),
    "falcon": lambda: t.FalconForCausalLM(t.FalconConfig(**_PLAIN)),
    "falcon alibi": lambda: t.FalconForCausalLM(t.FalconConfig(**_PLAIN, alibi=True)),
    "mpt": lambda: t.MptForCausalLM(t.MptConfig(vocab_size=WORDS, d_model=HIDDEN, n_heads=HEADS, n_layers=LAYERS, max_seq_len=128)),
    "olmo": lambda: t.OlmoForCausalLM(t.OlmoConfig(**_LONG)),
    "olmo2": lambda: t.Olmo2ForCausalLM(t.Olmo2Config(**_FEW)),
    "granite": lambda: t.GraniteForCausalLM(t.GraniteConfig(**_FEW)),
    "stablelm": lambda: t.StableLmForCausalLM(t.StableLmConfig(**_FEW)),
    "smollm3": lambda: t.SmolLM3ForCausalLM(t.SmolLM3Config(**_FEW)),
    "cohere": lambda: t.CohereForCausalLM(t.CohereConfig(**_FEW)),
    "nemotron": lambda: t.NemotronForCausalLM(t.NemotronConfig(**_FEW)),
    "helium": lambda: t.HeliumForCausalLM(t.HeliumConfig(**_FEW, head_dim=SIZE)),
    "glm": lambda: t.GlmForCausalLM(t.GlmConfig(**_FEW, head_dim=SIZE)),
    "arcee": lambda: t.ArceeForCausalLM(t.ArceeConfig(**_FEW)),
    "deepseek_v3": lambda: t.DeepseekV3ForCausalLM(t.DeepseekV3Config(
        **_LONG, num_key_value_heads=HEADS, q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=SIZE,
        moe_intermediate_size=48, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=2, first_k_dense_replace=1, n_group=2,
        topk_group=1)),
    "gpt_oss": lambda: t.GptOssForCausalLM(t.GptOssConfig(
        **_FEW, num_local_experts=4, num_experts_per_tok=2, head_dim=SIZE, sliding_window=8)),
}

PAIRS = {
    "t5": lambda: t.T5ForConditionalGeneration(t.T5Config(
        vocab_size=WORDS, d_model=HIDDEN, d_kv=SIZE, d_ff=96, num_layers=LAYERS, num_heads=HEADS, decoder_start_token_id=0)),
    "t5 gated": lambda: t.T5ForConditionalGeneration(t.T5Config(
        vocab_size=WORDS, d_model=HIDDEN, d_kv=SIZE, d_ff=96, num_layers=LAYERS, num_heads=HEADS, decoder_start_token_id=0,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "mt5": lambda: t.MT5ForConditionalGeneration(t.MT5Config(
        vocab_size=WORDS, d_model=HIDDEN, d_kv=SIZE, d_ff=96, num_layers=LAYERS, num_heads=HEADS, decoder_start_token_id=0)),
    "longt5": lambda: t.LongT5ForConditionalGeneration(t.LongT5Config(
        vocab_size=WORDS, d_model=HIDDEN, d_kv=SIZE, d_ff=96, num_layers=LAYERS, num_heads=HEADS, decoder_start_token_id=0,
        local_radius=4)),
    "bart": lambda: t.BartForConditionalGeneration(t.BartConfig(**_PAIR)),
    "mbart": lambda: t.MBartForConditionalGeneration(t.MBartConfig(**_PAIR)),
    "marian": lambda: t.MarianMTModel(t.MarianConfig(**_PAIR)),
    "pegasus": lambda: t.PegasusForConditionalGeneration(t.PegasusConfig(**_PAIR)),
    "blenderbot": lambda: t.BlenderbotForConditionalGeneration(t.BlenderbotConfig(**_PAIR)),
    "blenderbot-small": lambda: t.BlenderbotSmallForConditionalGeneration(t.BlenderbotSmallConfig(**_PAIR)),
    "m2m_100": lambda: t.M2M100ForConditionalGeneration(t.M2M100Config(**_PAIR)),
    "whisper": lambda: t.WhisperForConditionalGeneration(t.WhisperConfig(
        **{k: v for k, v in _PAIR.items() if k != "max_position_embeddings"}, max_target_positions=128, max_source_positions=1500,
        num_mel_bins=8)),
    "speech_to_text": lambda: t.Speech2TextForConditionalGeneration(t.Speech2TextConfig(
        **{k: v for k, v in _PAIR.items() if k != "max_position_embeddings"}, max_target_positions=128, max_source_positions=200,
        input_feat_per_channel=8, input_channels=1, conv_channels=32)),
    "vision-encoder-decoder": lambda: t.VisionEncoderDecoderModel(t.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        t.ViTConfig(**_IMAGE, patch_size=8), t.GPT2Config(**_GPT, add_cross_attention=True), decoder_start_token_id=1, pad_token_id=0)),
    "trocr": lambda: t.VisionEncoderDecoderModel(t.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        t.ViTConfig(**_IMAGE, patch_size=8), t.TrOCRConfig(
            vocab_size=WORDS, d_model=HIDDEN, decoder_layers=LAYERS, decoder_attention_heads=HEADS, decoder_ffn_dim=96,
            max_position_embeddings=128, cross_attention_hidden_size=HIDDEN, **_ENDS), decoder_start_token_id=1, pad_token_id=0)),
}


def _bert(model, config, **more):
    return lambda: getattr(t, model)(getattr(t, config)(**_LONG | more))


# name: task, model
ENCODERS = {
    "bert": ("fill-mask", _bert("BertForMaskedLM", "BertConfig")),
    "bert classifier": ("text-classification", _bert("BertForSequenceClassification", "BertConfig", num_labels=3)),
    "roberta": ("question-answering", _bert("RobertaForQuestionAnswering", "RobertaConfig")),
    "xlm-roberta": ("token-classification", _bert("XLMRobertaForTokenClassification", "XLMRobertaConfig")),
    "camembert": ("feature-extraction", _bert("CamembertModel", "CamembertConfig")),
    "distilbert": ("fill-mask", lambda: t.DistilBertForMaskedLM(t.DistilBertConfig(
        vocab_size=WORDS, dim=HIDDEN, n_layers=LAYERS, n_heads=HEADS, hidden_dim=96, max_position_embeddings=128))),
    "albert": ("fill-mask", _bert("AlbertForMaskedLM", "AlbertConfig", embedding_size=32)),
    "electra": ("fill-mask", _bert("ElectraForMaskedLM", "ElectraConfig", embedding_size=32)),
    "deberta": ("fill-mask", _bert("DebertaForMaskedLM", "DebertaConfig", relative_attention=True, pos_att_type=["c2p", "p2c"])),
    "deberta-v2": ("fill-mask", _bert("DebertaV2ForMaskedLM", "DebertaV2Config", relative_attention=True, position_buckets=16,
                                      pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm", share_att_key=True)),
    "mpnet": ("fill-mask", _bert("MPNetForMaskedLM", "MPNetConfig")),
    "convbert": ("fill-mask", _bert("ConvBertForMaskedLM", "ConvBertConfig", embedding_size=HIDDEN)),
    "mobilebert": ("fill-mask", _bert("MobileBertForMaskedLM", "MobileBertConfig", embedding_size=32, intra_bottleneck_size=32,
                                      true_hidden_size=32)),
    "squeezebert": ("fill-mask", _bert("SqueezeBertForMaskedLM", "SqueezeBertConfig", embedding_size=HIDDEN)),
    "nystromformer": ("fill-mask", _bert("NystromformerForMaskedLM", "NystromformerConfig", segment_means_seq_len=16, num_landmarks=4)),
    "modernbert": ("fill-mask", _bert("ModernBertForMaskedLM", "ModernBertConfig", local_attention=8, reference_compile=False)),
    "esm": ("fill-mask", _bert("EsmForMaskedLM", "EsmConfig", mask_token_id=3, position_embedding_type="rotary")),
    "ibert": ("fill-mask", _bert("IBertForMaskedLM", "IBertConfig")),
    "layoutlm": ("feature-extraction", _bert("LayoutLMModel", "LayoutLMConfig")),
    "rembert": ("fill-mask", _bert("RemBertForMaskedLM", "RemBertConfig", input_embedding_size=32, output_embedding_size=48)),
    "roformer": ("fill-mask", _bert("RoFormerForMaskedLM", "RoFormerConfig", embedding_size=HIDDEN)),
    "splinter": ("question-answering", _bert("SplinterForQuestionAnswering", "SplinterConfig")),
    "xlm": ("fill-mask", lambda: t.XLMWithLMHeadModel(t.XLMConfig(vocab_size=WORDS, emb_dim=HIDDEN, n_layers=LAYERS, n_heads=HEADS))),
    "flaubert": ("fill-mask", lambda: t.FlaubertWithLMHeadModel(t.FlaubertConfig(
        vocab_size=WORDS, emb_dim=HIDDEN, n_layers=LAYERS, n_heads=HEADS))),
    "megatron-bert": ("fill-mask", _bert("MegatronBertForMaskedLM", "MegatronBertConfig")),
    "data2vec-text": ("fill-mask", _bert("Data2VecTextForMaskedLM", "Data2VecTextConfig")),
    "big_bird": ("fill-mask", _bert("BigBirdForMaskedLM", "BigBirdConfig", attention_type="original_full")),
    "longformer": ("fill-mask", _bert("LongformerForMaskedLM", "LongformerConfig", attention_window=8)),
    "perceiver": ("fill-mask", lambda: t.PerceiverForMaskedLM(t.PerceiverConfig(
        vocab_size=WORDS, d_model=HIDDEN, d_latents=32, num_latents=8, num_self_attends_per_block=1, num_self_attention_heads=4,
        num_cross_attention_heads=4, qk_channels=32, v_channels=32, max_position_embeddings=64))),
    "vit": ("image-classification", lambda: t.ViTForImageClassification(t.ViTConfig(**_IMAGE, patch_size=8))),
    "deit": ("image-classification", lambda: t.DeiTForImageClassification(t.DeiTConfig(**_IMAGE, patch_size=8))),
    "beit": ("image-classification", lambda: t.BeitForImageClassification(t.BeitConfig(**_IMAGE, patch_size=8,
                                                                                        use_relative_position_bias=True))),
    "data2vec-vision": ("image-classification", lambda: t.Data2VecVisionForImageClassification(t.Data2VecVisionConfig(
        **_IMAGE, patch_size=8))),
    "dinov2": ("feature-extraction", lambda: t.Dinov2Model(t.Dinov2Config(**_IMAGE, patch_size=8))),
    "vit_msn": ("image-classification", lambda: t.ViTMSNForImageClassification(t.ViTMSNConfig(**_IMAGE, patch_size=8))),
    "hiera": ("image-classification", lambda: t.HieraForImageClassification(t.HieraConfig(
        image_size=[64, 64], embed_dim=16, depths=[1, 1, 2, 1], num_heads=[1, 2, 4, 8]))),
    "swin": ("image-classification", lambda: t.SwinForImageClassification(t.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4))),
    "swinv2": ("image-classification", lambda: t.Swinv2ForImageClassification(t.Swinv2Config(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4))),
    "swin2sr": ("image-to-image", lambda: t.Swin2SRForImageSuperResolution(t.Swin2SRConfig(
        image_size=16, embed_dim=16, depths=[2], num_heads=[2], window_size=4, upscale=2, upsampler="pixelshuffle"))),
    "convnext": ("image-classification", lambda: t.ConvNextForImageClassification(t.ConvNextConfig(
        hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], image_size=64))),
    "convnextv2": ("image-classification", lambda: t.ConvNextV2ForImageClassification(t.ConvNextV2Config(
        hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], image_size=64))),
    "levit": ("image-classification", lambda: t.LevitForImageClassification(t.LevitConfig(
        image_size=64, hidden_sizes=[16, 32, 48], num_attention_heads=[1, 2, 3], depths=[1, 1, 1], key_dim=[8, 8, 8]))),
    "mobilevit": ("image-classification", lambda: t.MobileViTForImageClassification(t.MobileViTConfig(
        image_size=64, hidden_sizes=[24, 32, 40], neck_hidden_sizes=[8, 16, 24, 32, 40, 48, 64]))),
    "mobilenet_v1": ("image-classification", lambda: t.MobileNetV1ForImageClassification(t.MobileNetV1Config(
        image_size=64, depth_multiplier=0.25))),
    "mobilenet_v2": ("image-classification", lambda: t.MobileNetV2ForImageClassification(t.MobileNetV2Config(
        image_size=64, depth_multiplier=0.35))),
    "efficientnet": ("image-classification", lambda: t.EfficientNetForImageClassification(t.EfficientNetConfig(
        image_size=64, width_coefficient=0.25, depth_coefficient=0.5, hidden_dim=320))),
    "poolformer": ("image-classification", lambda: t.PoolFormerForImageClassification(t.PoolFormerConfig(
        hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1]))),
    "pvt": ("image-classification", lambda: t.PvtForImageClassification(t.PvtConfig(
        image_size=64, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4]))),
    "regnet": ("image-classification", lambda: t.RegNetForImageClassification(t.RegNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], groups_width=8))),
    "resnet": ("image-classification", lambda: t.ResNetForImageClassification(t.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1]))),
    "segformer": ("semantic-segmentation", lambda: t.SegformerForSemanticSegmentation(t.SegformerConfig(
        hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=32))),
    "dpt": ("depth-estimation", lambda: t.DPTForDepthEstimation(t.DPTConfig(
        **_IMAGE | {"num_hidden_layers": 4}, patch_size=8, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[16, 16, 32, 32],
        fusion_hidden_size=16))),
    "glpn": ("depth-estimation", lambda: t.GLPNForDepthEstimation(t.GLPNConfig(
        hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16))),
    "yolos": ("object-detection", lambda: t.YolosForObjectDetection(t.YolosConfig(
        **_IMAGE | {"image_size": [64, 64]}, patch_size=8, num_detection_tokens=10))),
    "detr": ("object-detection", lambda: t.DetrForObjectDetection(t.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=t.ResNetConfig(
            embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], out_features=["stage4"]),
        d_model=HIDDEN, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96,
        decoder_ffn_dim=96, num_queries=10))),
    "table-transformer": ("object-detection", lambda: t.TableTransformerForObjectDetection(t.TableTransformerConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=t.ResNetConfig(
            embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], out_features=["stage4"]),
        d_model=HIDDEN, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96,
        decoder_ffn_dim=96, num_queries=10))),
    "rt_detr": ("object-detection", lambda: t.RTDetrForObjectDetection(t.RTDetrConfig(
        backbone_config=t.RTDetrResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], layer_type="basic",
                                             out_features=["stage2", "stage3", "stage4"]),
        encoder_hidden_dim=32, encoder_in_channels=[32, 48, 64], encoder_ffn_dim=64, d_model=32, num_queries=10, decoder_ffn_dim=64,
        decoder_layers=2, decoder_attention_heads=4, encoder_attention_heads=4, decoder_in_channels=[32, 32, 32],
        anchor_image_size=None))),
    "clip": ("zero-shot-image-classification", lambda: t.CLIPModel(t.CLIPConfig(
        text_config={**_LONG, "projection_dim": 32}, vision_config={**_IMAGE, "patch_size": 8}, projection_dim=32))),
    "siglip": ("zero-shot-image-classification", lambda: t.SiglipModel(t.SiglipConfig(
        text_config={**_LONG, "projection_size": HIDDEN}, vision_config={**_IMAGE, "patch_size": 8}))),
    "chinese_clip": ("zero-shot-image-classification", lambda: t.ChineseCLIPModel(t.ChineseCLIPConfig(
        text_config=_LONG, vision_config={**_IMAGE, "patch_size": 8}, projection_dim=32))),
    "owlvit": ("zero-shot-object-detection", lambda: t.OwlViTForObjectDetection(t.OwlViTConfig(
        text_config={**_LONG, "max_position_embeddings": 16}, vision_config={**_IMAGE, "patch_size": 8}, projection_dim=HIDDEN))),
    "groupvit": ("feature-extraction", lambda: t.GroupViTModel(t.GroupViTConfig(
        text_config=_LONG, vision_config={**_IMAGE, "patch_size": 4, "depths": [1, 1, 1], "num_group_tokens": [8, 4, 0],
                                          "num_output_groups": [8, 4, 4]}, projection_dim=32, projection_intermediate_dim=32))),
    "sam": ("feature-extraction", lambda: t.SamModel(t.SamConfig(
        vision_config={"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 64, "patch_size": 8,
                       "output_channels": 32, "window_size": 4, "global_attn_indexes": [1], "mlp_dim": 64, "num_pos_feats": 16},
        prompt_encoder_config={"hidden_size": 32, "image_size": 64, "patch_size": 8, "mask_input_channels": 4},
        mask_decoder_config={"hidden_size": 32, "mlp_dim": 64, "num_attention_heads": 2, "iou_head_hidden_dim": 32}))),
    "wav2vec2": ("automatic-speech-recognition", lambda: t.Wav2Vec2ForCTC(t.Wav2Vec2Config(**_SOUND))),
    "hubert": ("automatic-speech-recognition", lambda: t.HubertForCTC(t.HubertConfig(**_SOUND))),
    "wavlm": ("audio-classification", lambda: t.WavLMForSequenceClassification(t.WavLMConfig(**_SOUND))),
    "wav2vec2-conformer": ("automatic-speech-recognition", lambda: t.Wav2Vec2ConformerForCTC(t.Wav2Vec2ConformerConfig(
        **_SOUND, position_embeddings_type="rotary"))),
    "unispeech-sat": ("automatic-speech-recognition", lambda: t.UniSpeechSatForCTC(t.UniSpeechSatConfig(**_SOUND))),
    "sew": ("automatic-speech-recognition", lambda: t.SEWForCTC(t.SEWConfig(**_SOUND, squeeze_factor=2))),
    "sew-d": ("automatic-speech-recognition", lambda: t.SEWDForCTC(t.SEWDConfig(
        **_SOUND, squeeze_factor=2, max_position_embeddings=64, position_buckets=16))),
    "data2vec-audio": ("automatic-speech-recognition", lambda: t.Data2VecAudioForCTC(t.Data2VecAudioConfig(
        **_SOUND | {"conv_pos_kernel_size": 5, "num_conv_pos_embeddings": 2}))),
    "audio-spectrogram-transformer": ("audio-classification", lambda: t.ASTForAudioClassification(t.ASTConfig(
        hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=96, max_length=64, num_mel_bins=32))),
    "patchtst": ("feature-extraction", lambda: t.PatchTSTModel(t.PatchTSTConfig(
        num_input_channels=3, context_length=32, patch_length=4, patch_stride=4, d_model=32, num_hidden_layers=2,
        num_attention_heads=4, ffn_dim=64))),
    "patchtsmixer": ("feature-extraction", lambda: t.PatchTSMixerModel(t.PatchTSMixerConfig(
        num_input_channels=3, context_length=32, patch_length=4, patch_stride=4, d_model=16, num_layers=2))),
}


def checkpoint(name, model, folder):
    """Writes the model and its processor files with save_pretrained, unless they exist."""
    if (folder / "tokenizer.json").exists():
        return
    torch.manual_seed(5)
    made = model().eval()
    random_weights(made)
    made.save_pretrained(folder)
    write_tokenizer(folder, WORDS)
    if name == "whisper":
        t.WhisperFeatureExtractor(feature_size=8).save_pretrained(folder)
    if name == "speech_to_text":
        t.SequenceFeatureExtractor(feature_size=8, sampling_rate=16000, padding_value=0.0).save_pretrained(folder)


def export(name, model, task, folder, *options):
    """Exports a checkpoint with optimum-cli. Returns the folder."""
    made = folder / "_".join(["onnx", *(o.strip("-") for o in options)])
    if not list(made.glob("*.onnx")):
        checkpoint(name, model, folder / "checkpoint")
        run_module("optimum.commands.optimum_cli", ["export", "onnx", "--model", folder / "checkpoint", "--task", task, *options, made],
                   made.with_suffix(".log"))
    return made


# Sizes of named dims that differ between models.
_SMALL = {"height": 32, "width": 32}
_SOUNDS = {"sequence_length": 400}
SIZES = {name: _SMALL for name in ("vit", "deit", "beit", "data2vec-vision", "dinov2", "vit_msn", "swin", "swinv2", "dpt", "clip", "siglip",
                                   "chinese_clip", "owlvit", "groupvit")} | {
    name: _SOUNDS for name in ("wav2vec2", "hubert", "wavlm", "wav2vec2-conformer", "unispeech-sat", "sew", "sew-d", "data2vec-audio")} | {
    "swin2sr": {"height": 16, "width": 16}, "patchtst": {"sequence_length": 32}, "patchtsmixer": {"sequence_length": 32},
    "nystromformer": {"sequence_length": 16}, "longformer": {"sequence_length": 16}}


def task_of(name):
    if name in ("whisper", "speech_to_text"):
        return "automatic-speech-recognition-with-past"
    return "image-to-text-with-past" if name in ("vision-encoder-decoder", "trocr") else "text2text-generation-with-past"

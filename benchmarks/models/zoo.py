"""Many architectures of transformers at a fraction of their width: a wide range of exported graphs."""

from collections.abc import Callable

import transformers as hf
from torch import nn

from benchmarks.models.text import Fields, WithPast

TEXT = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 211}
IMAGE = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "image_size": 64}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
DECODER = {**TEXT, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

Build = Callable[[], nn.Module]


def text_encoder(model: str, config: str, **settings: object) -> Build:
    def build() -> nn.Module:
        made = getattr(hf, model)(getattr(hf, config)(**{**TEXT, **settings}))
        return Fields(made, ("input_ids", "attention_mask"), ("last_hidden_state",))

    return build


def image_encoder(model: str, config: str, *, field: str = "last_hidden_state", **settings: object) -> Build:
    def build() -> nn.Module:
        return Fields(getattr(hf, model)(getattr(hf, config)(**settings)), ("pixel_values",), (field,))

    return build


def decoder(model: str, config: str, **settings: object) -> Build:
    def build() -> nn.Module:
        return WithPast(getattr(hf, model)(getattr(hf, config)(**{**DECODER, **settings})))

    return build


TEXT_ENCODERS: dict[str, Build] = {
    "albert": text_encoder("AlbertModel", "AlbertConfig", embedding_size=32),
    "deberta": text_encoder("DebertaV2Model", "DebertaV2Config", relative_attention=True, position_buckets=16),
    "electra": text_encoder("ElectraModel", "ElectraConfig", embedding_size=32),
    "mpnet": text_encoder("MPNetModel", "MPNetConfig"),
    "roberta": text_encoder("RobertaModel", "RobertaConfig"),
    "modernbert": text_encoder("ModernBertModel", "ModernBertConfig", pad_token_id=0),
    "squeezebert": text_encoder("SqueezeBertModel", "SqueezeBertConfig", embedding_size=48),
}
IMAGE_ENCODERS: dict[str, Build] = {
    "beit": image_encoder("BeitModel", "BeitConfig", **IMAGE),
    "convnextv2": image_encoder(
        "ConvNextV2Model", "ConvNextV2Config", hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 2, 1]
    ),
    "deit": image_encoder("DeiTModel", "DeiTConfig", **IMAGE),
    "dinov2": image_encoder("Dinov2Model", "Dinov2Config", **IMAGE, patch_size=16),
    "mobilenet_v1": image_encoder("MobileNetV1Model", "MobileNetV1Config", depth_multiplier=0.25, min_depth=8),
    "mobilevit": image_encoder(
        "MobileViTModel",
        "MobileViTConfig",
        image_size=64,
        hidden_sizes=[32, 48, 64],
        neck_hidden_sizes=[8, 16, 24, 32, 40, 48, 64],
        num_attention_heads=4,
    ),
    "poolformer": image_encoder(
        "PoolFormerModel", "PoolFormerConfig", hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1]
    ),
    "pvt": image_encoder(
        "PvtV2Model", "PvtV2Config", image_size=64, hidden_sizes=[16, 32, 40, 64], depths=[1, 1, 1, 1]
    ),
    "regnet": image_encoder(
        "RegNetModel", "RegNetConfig", embedding_size=16, hidden_sizes=[16, 32, 48, 64], groups_width=8
    ),
    "resnet": image_encoder(
        "ResNetForImageClassification",
        "ResNetConfig",
        field="logits",
        embedding_size=16,
        hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1],
    ),
    "segformer": image_encoder(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        field="logits",
        hidden_sizes=[16, 32, 40, 64],
        depths=[1, 1, 1, 1],
        decoder_hidden_size=32,
    ),
    "swinv2": image_encoder(
        "Swinv2Model", "Swinv2Config", image_size=64, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4
    ),
    "yolos": image_encoder(
        "YolosForObjectDetection", "YolosConfig", field="logits", **{**IMAGE, "image_size": [64, 64]}
    ),
}
DECODERS: dict[str, Build] = {
    "bloom": decoder("BloomForCausalLM", "BloomConfig", n_layer=2, n_head=4, hidden_size=48),
    "falcon": decoder("FalconForCausalLM", "FalconConfig", new_decoder_architecture=True, num_kv_heads=2, alibi=False),
    "gemma": decoder("GemmaForCausalLM", "GemmaConfig", head_dim=12),
    "gemma2": decoder("Gemma2ForCausalLM", "Gemma2Config", head_dim=12, query_pre_attn_scalar=12),
    "gpt_neox": decoder("GPTNeoXForCausalLM", "GPTNeoXConfig", rotary_pct=0.5),
    "mistral": decoder("MistralForCausalLM", "MistralConfig", sliding_window=8),
    "olmo": decoder("OlmoForCausalLM", "OlmoConfig"),
    "opt": decoder("OPTForCausalLM", "OPTConfig", ffn_dim=96, word_embed_proj_dim=48, max_position_embeddings=512),
    "phi": decoder("PhiForCausalLM", "PhiConfig", partial_rotary_factor=0.5),
    "qwen2": decoder("Qwen2ForCausalLM", "Qwen2Config"),
    "qwen3": decoder("Qwen3ForCausalLM", "Qwen3Config", head_dim=12),
    "stablelm": decoder("StableLmForCausalLM", "StableLmConfig", partial_rotary_factor=0.5),
}

# Convolutions alone can be written at old versions of the operator set.
LEGACY_OPSETS = {"resnet": 9, "mobilenet_v1": 10, "regnet": 11, "poolformer": 13, "roberta": 14, "deit": 16}
# Those whose cache has a head for every query.
FULL_CACHES = ("bloom", "falcon", "gpt_neox", "opt")


def legacy_opset(name: str) -> int:
    return LEGACY_OPSETS.get(name, 17)


def cache_heads(name: str) -> int:
    return 4 if name in FULL_CACHES else 2


def t5_decoder() -> nn.Module:
    """decoder ids i64[N, S], encoder states f32[N, T, D], mask i64[N, T] -> logits"""
    config = hf.T5Config(
        d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, vocab_size=211, decoder_start_token_id=0
    )
    return EncoderDecoder(hf.T5ForConditionalGeneration(config))


def whisper_decoder() -> nn.Module:
    """decoder ids i64[N, S], encoder states f32[N, T, D] -> hidden states f32[N, S, D]"""
    config = hf.WhisperConfig(
        d_model=48, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=96, vocab_size=211, **TOKENS
    )
    made = hf.models.whisper.modeling_whisper.WhisperDecoder(config)
    return Fields(made, ("input_ids", "encoder_hidden_states"), ("last_hidden_state",))


def segformer_b0() -> nn.Module:
    """pixel_values f32[N, 3, 224, 224] -> logits f32[N, 150, 56, 56]"""
    model = hf.SegformerForSemanticSegmentation(hf.SegformerConfig(num_labels=150))
    return Fields(model, ("pixel_values",), ("logits",))


def mobilevit_s() -> nn.Module:
    """pixel_values f32[N, 3, 256, 256] -> f32[N, 640, 8, 8]"""
    return Fields(hf.MobileViTModel(hf.MobileViTConfig()), ("pixel_values",), ("last_hidden_state",))


def clip_text() -> nn.Module:
    """input_ids, attention_mask i64[N, S] -> f32[N, 512]"""
    config = hf.CLIPTextConfig(vocab_size=8192, num_hidden_layers=6, max_position_embeddings=256)
    return Fields(hf.CLIPTextModelWithProjection(config), ("input_ids", "attention_mask"), ("text_embeds",))


def clip_image() -> nn.Module:
    """pixel_values f32[N, 3, 224, 224] -> f32[N, 512], patches of 32x32"""
    config = hf.CLIPVisionConfig(num_hidden_layers=6)
    return Fields(hf.CLIPVisionModelWithProjection(config), ("pixel_values",), ("image_embeds",))


def deberta_v3() -> nn.Module:
    """input_ids, attention_mask i64[N, S] -> f32[N, S, 768], attention to relative places"""
    config = hf.DebertaV2Config(
        vocab_size=8192, hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_hidden_layers=4,
        relative_attention=True, position_buckets=256, pos_att_type=["p2c", "c2p"], share_att_key=True,
        norm_rel_ebd="layer_norm", max_position_embeddings=512,
    )  # fmt: skip
    return Fields(hf.DebertaV2Model(config), ("input_ids", "attention_mask"), ("last_hidden_state",))


def mixtral_prefill() -> nn.Module:
    """input_ids, attention_mask i64[N, S] -> f32[N, S, 8192], two of eight experts for each token"""
    config = hf.MixtralConfig(
        vocab_size=8192, hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=2, num_local_experts=8, use_cache=False, experts_implementation="batched_mm",
    )  # fmt: skip
    return Fields(hf.MixtralForCausalLM(config), ("input_ids", "attention_mask"), ("logits",))


def qwen2_decode() -> nn.Module:
    """ids i64[N, S], mask i64[N, P+S], 16 f32[N, 2, P, 64] -> logits f32[N, S, 8192], 16 f32[N, 2, P+S, 64]"""
    config = hf.Qwen2Config(
        vocab_size=8192, hidden_size=896, intermediate_size=4864, num_hidden_layers=8, num_attention_heads=14,
        num_key_value_heads=2,
    )  # fmt: skip
    return WithPast(hf.Qwen2ForCausalLM(config))


def wav2vec2() -> nn.Module:
    """samples f32[N, 16000] -> f32[N, 49, 768], four of the twelve layers"""
    config = hf.Wav2Vec2Config(num_hidden_layers=4)
    return Fields(hf.Wav2Vec2Model(config), ("input_values",), ("last_hidden_state",))


class EncoderDecoder(nn.Module):
    """The decoder half of a sequence-to-sequence model over given encoder states."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: object, encoder_states: object, attention_mask: object) -> object:
        states = hf.modeling_outputs.BaseModelOutput(last_hidden_state=encoder_states)
        out = self.model(
            decoder_input_ids=input_ids, encoder_outputs=states, attention_mask=attention_mask, use_cache=False
        )
        return out.logits

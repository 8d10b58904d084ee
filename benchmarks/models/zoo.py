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

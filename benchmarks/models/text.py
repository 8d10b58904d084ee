"""Transformers from the configurations of the originals, with seeded random weights; nothing is downloaded."""

import transformers as hf
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache


class Fields(nn.Module):
    """Wraps a transformers model so that it takes tensors in order and returns the named fields of its output."""

    def __init__(self, model: nn.Module, inputs: tuple[str, ...], fields: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.inputs, self.fields = model, inputs, fields

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        out = self.model(**dict(zip(self.inputs, values, strict=True)))
        return tuple(out[field] for field in self.fields)


class WithPast(nn.Module):
    """A decoder step: ids, mask and the cached keys and values in; logits and the grown cache out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, past: list[Tensor]) -> tuple[Tensor, ...]:
        pairs = list(zip(past[::2], past[1::2], strict=True))
        out = self.model(
            input_ids=input_ids, attention_mask=attention_mask, past_key_values=DynamicCache(pairs), use_cache=True
        )
        present = [tensor for layer in out.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return (out.logits, *present)


def bert(layers: int, hidden: int, heads: int) -> nn.Module:
    """input_ids, attention_mask, token_type_ids: i64[N, S] -> f32[N, S, H], f32[N, H]"""
    config = hf.BertConfig(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, intermediate_size=4 * hidden
    )
    names = ("input_ids", "attention_mask", "token_type_ids")
    return Fields(hf.BertModel(config), names, ("last_hidden_state", "pooler_output"))


def distilbert() -> nn.Module:
    """input_ids, attention_mask: i64[N, S] -> f32[N, S, 768]"""
    return Fields(hf.DistilBertModel(hf.DistilBertConfig()), ("input_ids", "attention_mask"), ("last_hidden_state",))


def t5_small_encoder() -> nn.Module:
    """input_ids, attention_mask: i64[N, S] -> f32[N, S, 512]"""
    config = hf.T5Config(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8)
    return Fields(hf.T5EncoderModel(config), ("input_ids", "attention_mask"), ("last_hidden_state",))


def gpt2_decode() -> nn.Module:
    """ids i64[N, S], mask i64[N, P+S], 24 f32[N, 12, P, 64] -> logits f32[N, S, 50257], 24 f32[N, 12, P+S, 64]"""
    return WithPast(hf.GPT2LMHeadModel(hf.GPT2Config()))


def llama_small_decode() -> nn.Module:
    """ids i64[N, S], mask i64[N, P+S], 16 f32[N, 4, P, 64] -> logits f32[N, S, 32000], 16 f32[N, 4, P+S, 64]"""
    config = hf.LlamaConfig(
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=8,
        num_attention_heads=12,
        num_key_value_heads=4,
        vocab_size=32000,
    )
    return WithPast(hf.LlamaForCausalLM(config))


def vit_base() -> nn.Module:
    """pixel_values: f32[N, 3, 224, 224] -> f32[N, 1000]"""
    return Fields(hf.ViTForImageClassification(hf.ViTConfig(num_labels=1000)), ("pixel_values",), ("logits",))


def swin_tiny() -> nn.Module:
    """pixel_values: f32[N, 3, 224, 224] -> f32[N, 1000]"""
    return Fields(hf.SwinForImageClassification(hf.SwinConfig(num_labels=1000)), ("pixel_values",), ("logits",))


def convnext_tiny() -> nn.Module:
    """pixel_values: f32[N, 3, 224, 224] -> f32[N, 1000]"""
    config = hf.ConvNextConfig(num_labels=1000, layer_scale_init_value=0.5)
    return Fields(hf.ConvNextForImageClassification(config), ("pixel_values",), ("logits",))


def whisper_tiny_encoder() -> nn.Module:
    """input_features: f32[N, 80, 3000] -> f32[N, 1500, 384]"""
    config = hf.WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536)
    encoder = hf.models.whisper.modeling_whisper.WhisperEncoder(config)
    return Fields(encoder, ("input_features",), ("last_hidden_state",))

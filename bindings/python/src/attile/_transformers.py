# SPDX-License-Identifier: Apache-2.0
"""Attention for models of Hugging Face's transformers, by its interface of attention functions."""
# mypy: disable-error-code="import"
from __future__ import annotations

import math
from typing import Any, Optional, Union

import torch
from torch import Tensor

from ._library import AttileUnsupportedError
from ._sdpa import Problem, _autocast, attend, refusal, say_once
from ._versions import check_version


def _terms(attention_mask: Optional[Tensor], position_bias: Optional[Tensor]) -> tuple[Optional[Tensor], Optional[Tensor]]:
    """bias and allowed of what transformers hands over."""
    if attention_mask is None or attention_mask.dtype == torch.bool:
        return position_bias, attention_mask
    return attention_mask if position_bias is None else attention_mask + position_bias, None


def _serve(tensors: tuple[Any, Any, Any, Any], position_bias: Optional[Tensor], sinks: Optional[Tensor], options: dict[str, Any]) -> Union[Tensor, str]:
    """The result [B, Hq, Lq, D] of query, key, value and mask, or why transformers is to compute it."""
    reason = refusal((*tensors, position_bias, sinks))
    if reason:
        return reason
    query, key, value, attention_mask = _autocast(*tensors)
    if not query.dtype == key.dtype == value.dtype:
        return f"query, key and value are of types {query.dtype}, {key.dtype} and {value.dtype}; one type is served"
    bias, allowed = _terms(attention_mask, position_bias)
    if bias is not None and bias.dtype not in (query.dtype, torch.float32):
        bias = bias.to(query.dtype)
    if sinks is not None:
        sinks = sinks.to(torch.float64 if query.dtype == torch.float64 else torch.float32)
    try:
        return attend(Problem(query, key, value, bias, allowed), sinks, **options)
    except AttileUnsupportedError as error:
        return str(error)


def attention(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor], dropout: float = 0.0, scaling: Optional[float] = None,
              is_causal: Optional[bool] = None, position_bias: Optional[Tensor] = None, softcap: Optional[float] = None, s_aux: Optional[Tensor] = None,
              **options: Any) -> tuple[Tensor, None]:
    """What a model calls as its attention: query [B, Hq, Lq, D], key and value [B, Hkv, Lk, D]; the result is [B, Lq, Hq, D], and no weights.

    ``softcap`` and the sinks ``s_aux`` [Hq] are Attile's own options; a sliding window is in ``attention_mask``. What is not served, such as dropout, goes to transformers' "sdpa",
    or raises a ValueError where that has no such option.
    """
    if attention_mask is not None:
        attention_mask = attention_mask[..., : key.shape[2]]  # Versions before 5 may hand over a longer one.
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    # As transformers' own: without a mask a row sees the keys up to its own number, as where a static cache begins to fill; the single row of decoding sees all.
    mask = "causal_top_left" if query.shape[2] > 1 and attention_mask is None and causal else None
    if dropout:
        found: Union[Tensor, str] = "dropout is not 0"
    elif scaling is not None and (scaling == 0.0 or not math.isfinite(scaling)):
        found = "scaling is 0 or not finite"
    else:
        found = _serve((query, key, value, attention_mask), position_bias, s_aux, {"scale": scaling or 0.0, "softcap": softcap or 0.0, "mask": mask})
    if not isinstance(found, str):
        return found.transpose(1, 2), None
    if softcap is not None or s_aux is not None:
        raise ValueError(f"attile does not serve this attention with softcap or sinks: {found}; attn_implementation=\"eager\" does")
    say_once(found)
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    more: dict[str, Any] = {} if position_bias is None else {"position_bias": position_bias}
    left: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **more, **options)
    return left


def register_transformers(name: str = "attile") -> None:
    """Let models of Hugging Face's transformers take Attile: ``from_pretrained(..., attn_implementation="attile")`` or ``model.set_attn_implementation("attile")``.

    Needs transformers 4.53 or later, below 6. Masks are those of its "sdpa".
    """
    import transformers

    check_version("attile.torch.register_transformers()", "transformers", transformers.__version__, (4, 53), 6)
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, sdpa_mask)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model of Hugging Face's transformers that generates tokens with Attile's attention: here a small one with random weights.

    python3 transformers_model.py          with attile, PyTorch and transformers 5 installed, or PYTHONPATH=bindings/python/src
"""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=100, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, eos_token_id=None))
tokens = torch.randint(1, 100, (2, 8))
options = {"attention_mask": torch.ones_like(tokens), "max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
expected = model.generate(tokens, **options)

# [registered]
import attile.torch

attile.torch.register_transformers()
model.set_attn_implementation("attile")  # or from_pretrained(..., attn_implementation="attile")
generated = model.generate(tokens, **options)
# [registered]

print(f"{tuple(generated.shape)}, the tokens of transformers' own attention: {torch.equal(generated, expected)}")

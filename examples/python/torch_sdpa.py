#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model of PyTorch's own modules, unchanged, whose attention Attile computes: two lines more than without.

    python3 torch_sdpa.py          with attile and PyTorch 2.4 or later installed, or PYTHONPATH=bindings/python/src
"""
import torch

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(d_model=64, nhead=4, dim_feedforward=128, dropout=0.0, batch_first=True)
model = torch.nn.TransformerEncoder(layer, num_layers=2)
x = torch.randn(2, 100, 64)
causal = torch.nn.Transformer.generate_square_subsequent_mask(100)
expected = model(x, mask=causal)

# [served]
import attile.torch

with attile.torch.sdpa():  # or, once for the whole program, attile.torch.enable()
    y = model(x, mask=causal)
    y.square().mean().backward()
# [served]

weight = model.layers[0].self_attn.in_proj_weight
print(f"within 1e-5 of PyTorch's own: {bool((y - expected).abs().max() <= 1e-5)}; gradients: {bool(weight.grad.abs().max() > 0)}")

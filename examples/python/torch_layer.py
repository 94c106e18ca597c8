#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An attention layer for PyTorch, compiled into one graph and trained: it learns to say the first token of what it has seen.

    python3 torch_layer.py          with attile and PyTorch 2.4 or later installed, or PYTHONPATH=bindings/python/src

The forward and the backward pass run on Attile's backend; torch.compile needs a C++ compiler.
"""
import torch

import attile.torch

torch.manual_seed(0)
batch, length, width, heads, tokens = 8, 16, 32, 4, 10


# [layer]
class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Parameter(torch.randn(width, 3 * width) / width**0.5)
        self.out = torch.nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, x):
        qkv = attile.torch.gemm(x, self.qkv).unflatten(-1, (3, heads, width // heads))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each [batch, heads, length, width / heads]; nothing is copied
        seen = attile.torch.attention(q, k, v, mask="causal_top_left")
        return x + attile.torch.gemm(seen.transpose(1, 2).flatten(2), self.out)


layer = torch.compile(Attention(), fullgraph=True)
# [layer]

embedding, place, head = torch.nn.Embedding(tokens, width), torch.nn.Parameter(torch.randn(length, width)), torch.nn.Linear(width, tokens)
optimiser = torch.optim.Adam([*embedding.parameters(), place, *layer.parameters(), *head.parameters()], lr=0.01)
losses = []
for step in range(60):
    text = torch.randint(tokens, (batch, length))
    logits = head(layer(embedding(text) + place))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, :1].expand(-1, length).flatten())
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
assert losses[-1] < 0.5 * losses[0], losses
print(f"loss {losses[0]:.2f}, after {len(losses)} steps {losses[-1]:.2f}")

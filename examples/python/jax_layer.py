#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An attention layer for JAX, compiled and trained: it learns to say the first token of what it has seen.

    python3 jax_layer.py          with attile and JAX 0.5 or later installed, or PYTHONPATH=build/cpu/python
"""
import jax
import jax.numpy as jnp

# [layer]
from attile.jax import attention  # from jax.nn import dot_product_attention as attention


def layer(weights, x):
    qkv = jnp.einsum("btc,cxnh->xbtnh", x, weights["qkv"])
    seen = attention(*qkv, is_causal=True)  # [batch, length, heads, width / heads]
    return x + jnp.einsum("btnh,nhc->btc", seen, weights["out"])
# [layer]


batch, length, width, heads, tokens = 8, 16, 32, 4, 10
keys = iter(jax.random.split(jax.random.key(0), 8))


def random(*shape, scale=1.0):
    return scale * jax.random.normal(next(keys), shape)


def loss(weights, text):
    logits = layer(weights, weights["embedding"][text] + weights["place"]) @ weights["head"]
    return -jax.nn.log_softmax(logits)[jnp.arange(batch)[:, None], jnp.arange(length), text[:, :1]].mean()


@jax.jit
def step(weights, text):
    value, gradient = jax.value_and_grad(loss)(weights, text)
    size = jnp.sqrt(sum(jnp.sum(x**2) for x in jax.tree.leaves(gradient)))
    return jax.tree.map(lambda x, dx: x - 0.5 * dx / jnp.maximum(size, 1), weights, gradient), value


weights = {"qkv": random(width, 3, heads, width // heads, scale=width**-0.5), "out": random(heads, width // heads, width, scale=width**-0.5), "embedding": random(tokens, width),
           "place": random(length, width), "head": random(width, tokens, scale=width**-0.5)}
losses = []
for text_key in jax.random.split(next(keys), 200):
    weights, value = step(weights, jax.random.randint(text_key, (batch, length), 0, tokens))
    losses.append(float(value))
assert losses[-1] < 0.5 * losses[0], losses
print(f"loss {losses[0]:.2f}, after {len(losses)} steps {losses[-1]:.2f}")

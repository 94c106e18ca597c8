#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a folder with a Llama model of random weights: config.json, model.safetensors and tokenizer.model.

usage: make_model.py FOLDER [--hidden 64] [--inner 172] [--layers 3] [--heads 4] [--heads-kv 2] [--vocab 512] [--positions 256]
                            [--dtype F32|BF16|F16] [--tied] [--seed 1]

The text of such a model means nothing, but its tokens can be checked, and it takes the time that a trained model of its shape takes.
"""
import argparse
import json
import pathlib
import struct

import numpy as np

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def shapes(c):
    """Name and shape of each tensor, in the order of the file."""
    dim_q, dim_kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    hidden, inner = c["hidden_size"], c["intermediate_size"]
    yield "model.embed_tokens.weight", (c["vocab_size"], hidden)
    for i in range(c["num_hidden_layers"]):
        for name, shape in [("input_layernorm", (hidden,)), ("self_attn.q_proj", (dim_q, hidden)), ("self_attn.k_proj", (dim_kv, hidden)),
                            ("self_attn.v_proj", (dim_kv, hidden)), ("self_attn.o_proj", (hidden, dim_q)), ("post_attention_layernorm", (hidden,)),
                            ("mlp.gate_proj", (inner, hidden)), ("mlp.up_proj", (inner, hidden)), ("mlp.down_proj", (hidden, inner))]:
            yield f"model.layers.{i}.{name}.weight", shape
    yield "model.norm.weight", (hidden,)
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], hidden)


def values(random, name, shape):
    """Gains near 1; products that keep the size of what goes through them; logits that differ enough for one token to be the likeliest."""
    if len(shape) == 1:
        return (1 + 0.1 * random.standard_normal(shape)).astype(np.float32)
    wide = 1 if "embed" in name else 3 / np.sqrt(shape[1]) if "lm_head" in name else 1.5 / np.sqrt(shape[1])
    return random.standard_normal(shape, dtype=np.float32) * np.float32(wide)


def narrow(x, dtype):
    if dtype == "F16":
        return x.astype("<f2").tobytes()
    if dtype == "BF16":  # to nearest, ties to even
        bits = x.astype("<f4").view("<u4")
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()
    return x.astype("<f4").tobytes()


def write_weights(path, config, dtype, seed):
    random, header, end = np.random.default_rng(seed), {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes(config):
        size = int(np.prod(shape)) * (4 if dtype == "F32" else 2)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes(config):
            file.write(narrow(values(random, name, shape), dtype))


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def piece(text, score, kind):
    """A message of protocol buffers: text, score, kind."""
    body = b"\x0a" + varint(len(text)) + text + b"\x15" + struct.pack("<f", score) + (b"\x18" + varint(kind) if kind != NORMAL else b"")
    return b"\x0a" + varint(len(body)) + body


def write_tokenizer(path, vocab, seed):
    """Control pieces, bytes, joined pairs of what is there already, the earliest the best, and the characters that they are made of."""
    characters = ["\u2581"] + [chr(c) for c in range(ord("a"), ord("z") + 1)] + list("ABCDE.,!?'é")
    fixed = 3 + 256 + len(characters)
    if vocab < fixed:
        raise SystemExit(f"make_model.py: --vocab is {vocab}, a tokenizer has at least {fixed} pieces")
    random, joined, known = np.random.default_rng(seed), [], list(characters)
    while len(joined) < vocab - fixed:
        a, b = (known[int(len(known) * random.random() ** 2)] for _ in range(2))
        if a + b not in known and "\u2581" not in b and len(a + b) < 9:
            joined.append(a + b)
            known.append(a + b)
    pieces = [(b"<unk>", 0.0, UNKNOWN), (b"<s>", 0.0, CONTROL), (b"</s>", 0.0, CONTROL)]
    pieces += [(f"<0x{byte:02X}>".encode(), 0.0, BYTE) for byte in range(256)]
    pieces += [(text.encode(), -float(rank), NORMAL) for rank, text in enumerate(joined + characters)]
    trainer = b"\x18\x02"  # model_type: BPE
    with open(path, "wb") as file:
        file.write(b"".join(piece(*p) for p in pieces) + b"\x12" + varint(len(trainer)) + trainer)


def main():
    parser = argparse.ArgumentParser(description="Writes a Llama model of random weights.")
    parser.add_argument("folder", type=pathlib.Path)
    for name, value in [("hidden", 64), ("inner", 172), ("layers", 3), ("heads", 4), ("heads-kv", 2), ("vocab", 512), ("positions", 256), ("seed", 1)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", choices=["F32", "BF16", "F16"], default="F32")
    parser.add_argument("--tied", action="store_true")
    o = parser.parse_args()
    config = {"model_type": "llama", "hidden_act": "silu", "hidden_size": o.hidden, "intermediate_size": o.inner, "num_hidden_layers": o.layers,
              "num_attention_heads": o.heads, "num_key_value_heads": o.heads_kv, "head_dim": o.hidden // o.heads, "vocab_size": o.vocab,
              "max_position_embeddings": o.positions, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": o.tied}
    o.folder.mkdir(parents=True, exist_ok=True)
    (o.folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    write_weights(o.folder / "model.safetensors", config, o.dtype, o.seed)
    write_tokenizer(o.folder / "tokenizer.model", o.vocab, o.seed)


if __name__ == "__main__":
    main()

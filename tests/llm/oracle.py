# SPDX-License-Identifier: Apache-2.0
"""A Llama model in NumPy, in float64 and without a cache: what examples/llm must say. It shares no code with the programs."""
import json
import struct

import numpy as np


class File:
    """The tensors of a safetensors file, in float64."""

    def __init__(self, path):
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        self.entries, self.data = json.loads(raw[8:8 + length]), raw[8 + length:]

    def __getitem__(self, name):
        entry = self.entries[name]
        begin, end = entry["data_offsets"]
        piece = self.data[begin:end]
        if entry["dtype"] == "BF16":
            flat = (np.frombuffer(piece, "<u2").astype("<u4") << 16).view("<f4")
        else:
            flat = np.frombuffer(piece, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
        return flat.reshape(entry["shape"]).astype(np.float64)


def brain(x):
    """Rounded to bfloat16, to nearest and ties to even."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


class Model:
    """`narrow` rounds what goes through products and attention."""

    def __init__(self, folder, narrow=lambda x: x):
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.file, self.narrow = File(folder / "model.safetensors"), narrow

    def weight(self, name):
        return self.narrow(self.file[name + ".weight"]).T

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"]) * self.file[name + ".weight"]

    def rotated(self, x):
        """[length, heads, head_dim] at the positions 0, 1, ..."""
        length, _, dim = x.shape
        angle = np.arange(length)[:, None] * self.config["rope_theta"] ** (-2 * np.arange(dim // 2) / dim)
        turn = np.exp(1j * angle)[:, None, :]
        point = (x[..., :dim // 2] + 1j * x[..., dim // 2:]) * turn
        return np.concatenate([point.real, point.imag], -1)

    def attention(self, q, k, v):
        group = q.shape[1] // k.shape[1]
        k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.shape[-1])
        scores[:, ~np.tri(len(q), dtype=bool)] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("hij,jhd->ihd", p / p.sum(-1, keepdims=True), v)

    def logits(self, tokens):
        """Of the last token."""
        c, narrow = self.config, self.narrow
        x = self.file["model.embed_tokens.weight"][tokens]
        for i in range(c["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            y = narrow(self.norm(x, layer + "input_layernorm"))
            q, k, v = ((y @ self.weight(f"{layer}self_attn.{n}_proj")).reshape(len(x), -1, c["head_dim"]) for n in "qkv")
            y = narrow(self.attention(narrow(self.rotated(q)), narrow(self.rotated(k)), narrow(v)))
            x = x + y.reshape(len(x), -1) @ self.weight(layer + "self_attn.o_proj")
            y = narrow(self.norm(x, layer + "post_attention_layernorm"))
            gate = y @ self.weight(layer + "mlp.gate_proj")
            y = narrow(gate / (1 + np.exp(-gate)) * (y @ self.weight(layer + "mlp.up_proj")))
            x = x + y @ self.weight(layer + "mlp.down_proj")
        return narrow(self.norm(x[-1:], "model.norm"))[0] @ self.weight("model.embed_tokens" if c["tie_word_embeddings"] else "lm_head")


class Tokenizer:
    """Byte-pair encoding by a SentencePiece model, by the definition: join the best pair until there is none."""

    def __init__(self, folder):
        self.pieces = []
        for number, body in fields((folder / "tokenizer.model").read_bytes()):
            if number == 1:
                parts = dict(fields(body))
                self.pieces.append((parts[1], struct.unpack("<f", parts.get(2, bytes(4)))[0], parts.get(3, 1)))
        self.normal = {text: (score, i) for i, (text, score, kind) in reversed(list(enumerate(self.pieces))) if kind == 1}
        self.special = {text: i for i, (text, _, kind) in enumerate(self.pieces) if kind != 1}

    def encode(self, text):
        parts = [c.encode() for c in "\u2581" + text.replace(" ", "\u2581")] if text else []
        while True:
            scores = [self.normal.get(a + b, (-np.inf,))[0] for a, b in zip(parts, parts[1:])]
            if not scores or max(scores) == -np.inf:
                break
            i = scores.index(max(scores))
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        out = [self.special[b"<s>"]]
        for part in parts:
            out += [self.normal[part][1]] if part in self.normal else [self.special[b"<0x%02X>" % byte] for byte in part]
        return out

    def decode(self, tokens):
        out = b""
        for text, _, kind in (self.pieces[t] for t in tokens):
            out += text.replace("\u2581".encode(), b" ") if kind in (1, 2) else bytes([int(text[3:5], 16)]) if kind == 6 else b""
        return out[1:] if out.startswith(b" ") else out


def fields(message):
    """Numbers and values of a message of protocol buffers."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        size = {0: 0, 1: 8, 5: 4}.get(tag & 7)
        if size == 0:
            yield tag >> 3, varint()
            continue
        size = varint() if size is None else size
        yield tag >> 3, message[at:at + size]
        at += size


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return ((z ^ z >> 31) >> 11) / 2**53


def generate(model, tokenizer, prompt, count, temperature=0.0, top_p=0.9, seed=1):
    """The tokens, and by how much the closest decision was taken: in logits (greedy) or in probability (a draw)."""
    tokens, margin, random = tokenizer.encode(prompt), np.inf, Random(seed)
    for _ in range(count):
        logits = model.logits(tokens)
        order = np.argsort(-logits, kind="stable")
        if temperature == 0:
            token = order[0]
            margin = min(margin, logits[order[0]] - logits[order[1]])
        else:
            p = np.exp((logits - logits.max()) / temperature)
            p = p[order] / p.sum()
            ends = np.cumsum(p)
            kept = int(np.argmax(ends >= top_p)) + 1 if ends[-1] >= top_p else len(p)
            drawn = random.next() * ends[kept - 1]
            at = int(np.argmax(ends[:kept] > drawn))
            token = order[at]
            margin = min(margin, abs(ends[at] - drawn), abs(drawn - (ends[at - 1] if at else -1)), *np.abs(ends[max(0, kept - 2):kept] - top_p))
        if token == tokenizer.special[b"</s>"]:
            break
        tokens.append(int(token))
    return tokens, margin

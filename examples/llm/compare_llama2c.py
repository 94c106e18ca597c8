#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of this example beside llama2.c, on one thread, with one model of random weights.

usage: compare_llama2c.py LLM LLAMA2C FOLDER [--tokens 64] [--rounds 5] [--processor-time]

LLM is this example, LLAMA2C is https://github.com/karpathy/llama2.c: `gcc -Ofast run.c -lm -o run`. FOLDER is a model of make_model.py in F32,
for 110 million weights: make_model.py FOLDER --hidden 768 --inner 2048 --layers 12 --heads 12 --heads-kv 12 --vocab 32000 --positions 1024 --tied
The runs alternate. With --processor-time it is milliseconds of processor time per token: what a run of --tokens more takes beyond a run of 8. The model is written for llama2.c beside FOLDER; both programs read the same weights and take the likeliest token each time.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import struct
import subprocess

import numpy as np


def tensors(folder):
    raw = (folder / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            yield name, np.frombuffer(raw, "<f4", (end - begin) // 4, 8 + length + begin).reshape(entry["shape"])


def neighbours(w, heads):
    """llama2.c rotates column 2i with 2i + 1, where the published models rotate i with i + head_dim / 2."""
    rows, columns = w.shape
    return w.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_llama2c(folder, path):
    config, weights = json.loads((folder / "config.json").read_text(encoding="utf-8")), dict(tensors(folder))
    hidden, layers, heads, heads_kv = (config[k] for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"))
    positions, tied = config["max_position_embeddings"], config["tie_word_embeddings"]
    with open(path, "wb") as file:
        vocab = config["vocab_size"] if tied else -config["vocab_size"]
        file.write(struct.pack("<7i", hidden, config["intermediate_size"], layers, heads, heads_kv, vocab, positions))
        file.write(weights["model.embed_tokens.weight"].tobytes())
        for name in ("input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "post_attention_layernorm",
                     "mlp.gate_proj", "mlp.down_proj", "mlp.up_proj"):
            for i in range(layers):
                w = weights[f"model.layers.{i}.{name}.weight"]
                w = neighbours(w, heads) if "q_proj" in name else neighbours(w, heads_kv) if "k_proj" in name else w
                file.write(w.tobytes())
        file.write(weights["model.norm.weight"].tobytes())
        file.write(bytes(4 * positions * (hidden // heads)))  # tables of RoPE, which llama2.c skips
        if not tied:
            file.write(weights["lm_head.weight"].tobytes())


def write_llama2c_tokenizer(vocab, path):
    """Any pieces will do for timing."""
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    words += [f"w{i}" for i in range(vocab - len(words))]
    with open(path, "wb") as file:
        file.write(struct.pack("<i", 27))
        for word in words:
            file.write(struct.pack("<fi", 0.0, len(word)) + word.encode())


def rate(command, pattern, environment):
    """Tokens per second, as the program prints them."""
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True)
    return float(re.search(pattern, done.stderr)[1])


def processor_seconds(command, environment):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    parser = argparse.ArgumentParser(description="Tokens per second beside llama2.c.")
    parser.add_argument("llm")
    parser.add_argument("llama2c")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processor-time", action="store_true")
    o = parser.parse_args()
    model, tokenizer = o.folder.with_suffix(".bin"), o.folder.with_suffix(".tokenizer.bin")
    config = json.loads((o.folder / "config.json").read_text(encoding="utf-8"))
    write_llama2c(o.folder, model)
    write_llama2c_tokenizer(config["vocab_size"], tokenizer)
    attile, llama2c = {"ATTILE_BACKEND": "cpu", "ATTILE_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "1"}
    programs = {"llama2.c": ([o.llama2c, model, "-z", tokenizer, "-t", "0"], rb"tok/s: ([\d.]+)", llama2c),
                "attile": ([o.llm, o.folder, "", "-v", "-i"], rb"then ([\d.]+) tokens/s", attile),
                "attile -b": ([o.llm, o.folder, "", "-v", "-i", "-b"], rb"then ([\d.]+) tokens/s", attile)}
    found = {name: [] for name in programs}
    for _ in range(o.rounds):
        for name, (command, pattern, environment) in programs.items():
            if o.processor_time:
                few, many = (processor_seconds([*command, "-n", str(tokens)], environment) for tokens in (8, 8 + o.tokens))
                found[name].append((many - few) / o.tokens * 1e3)
            else:
                found[name].append(rate([*command, "-n", str(o.tokens)], pattern, environment))
        print("   ".join(f"{name} {values[-1]:6.2f}" for name, values in found.items()), flush=True)
    for name, values in found.items():
        if o.processor_time:
            ratio = statistics.median(b / a for a, b in zip(values, found["llama2.c"]))
            print(f"{name}: median {statistics.median(values):.1f} ms of processor time per token; llama2.c takes {ratio:.2f} times as long")
        else:
            ratio = statistics.median(a / b for a, b in zip(values, found["llama2.c"]))
            print(f"{name}: median {statistics.median(values):.1f}, best {max(values):.1f} tokens/s; {ratio:.2f} of llama2.c beside it, {max(values) / max(found['llama2.c']):.2f} by the best")


if __name__ == "__main__":
    main()

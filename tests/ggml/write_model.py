# SPDX-License-Identifier: Apache-2.0
"""A small Llama model with random weights for llama.cpp, the same for every run.

usage: write_model.py GGUF_PY FILE TYPE [--layers N] [--width N]
    GGUF_PY    the folder gguf-py of llama.cpp's sources
    TYPE       f32, f16 or bf16: what the matrices are stored as
It has no vocabulary: tokens are numbers.
"""
import argparse
import sys

VOCABULARY = 512
HEAD_DIM = 64
SEED = 9  # of 1 to 40, the one whose least certain token leads by most


def write(gguf, numpy, path, kind, layers, width):
    heads, ff = width // HEAD_DIM, 2 * width
    draw = numpy.random.default_rng(SEED)
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(4096)
    file.add_embedding_length(width)
    file.add_block_count(layers)
    file.add_feed_forward_length(ff)
    file.add_head_count(heads)
    file.add_head_count_kv(heads // 2)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(HEAD_DIM)
    file.add_vocab_size(VOCABULARY)
    file.add_tokenizer_model("no_vocab")
    stored = {"f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16, "bf16": gguf.GGMLQuantizationType.BF16}[kind]

    def matrix(name, rows, columns):
        values = draw.normal(scale=2 / columns**0.5, size=(rows, columns)).astype(numpy.float32)
        file.add_tensor(f"{name}.weight", gguf.quants.quantize(values, stored), raw_dtype=stored)

    def ones(name):
        file.add_tensor(f"{name}.weight", numpy.ones(width, dtype=numpy.float32))

    matrix("token_embd", VOCABULARY, width)
    for layer in range(layers):
        block = f"blk.{layer}."
        ones(block + "attn_norm")
        matrix(block + "attn_q", width, width)
        matrix(block + "attn_k", width // 2, width)
        matrix(block + "attn_v", width // 2, width)
        matrix(block + "attn_output", width, width)
        ones(block + "ffn_norm")
        matrix(block + "ffn_gate", ff, width)
        matrix(block + "ffn_up", ff, width)
        matrix(block + "ffn_down", width, ff)
    ones("output_norm")
    matrix("output", VOCABULARY, width)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def main():
    words = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    words.add_argument("gguf_py")
    words.add_argument("file")
    words.add_argument("type", choices=["f32", "f16", "bf16"])
    words.add_argument("--layers", type=int, default=3)
    words.add_argument("--width", type=int, default=256)
    given = words.parse_args()
    sys.path.insert(0, given.gguf_py)
    import gguf
    import numpy
    write(gguf, numpy, given.file, given.type, given.layers, given.width)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files and arguments of examples/llm that are wrong: each gives one sentence on stderr and exit code 1, and nothing is written.

usage: bad_files_test.py MAKE_MODEL COMMAND...                    a case for each sentence
       bad_files_test.py --mutate SECONDS SEED MAKE_MODEL COMMAND...   files with bits flipped and ends cut off, at random
"""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.model"


def run(command, arguments, environment=()):
    return subprocess.run([*command, *arguments], capture_output=True, timeout=120, env={**os.environ, **dict(environment)})


def fault(done):
    """What is wrong with how the program refused, or None."""
    lines = done.stderr.decode(errors="replace").splitlines()
    if done.returncode != 1:
        return f"exit code {done.returncode}: {lines}"
    if done.stdout:
        return f"wrote {done.stdout[:60]}"
    if len(lines) != 1 or not lines[0].startswith("llm: "):
        return f"said {lines}"
    return None


def edit_config(**changes):
    def change(folder):
        config = json.loads((folder / CONFIG).read_text())
        config.update(changes)
        (folder / CONFIG).write_text(json.dumps({k: v for k, v in config.items() if v != "absent"}))
    return change


def edit_header(change):
    def on_file(folder):
        raw = (folder / WEIGHTS).read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:8 + length])
        change(header)
        text = json.dumps(header).encode()
        (folder / WEIGHTS).write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length:])
    return on_file


def edit_bytes(name, change):
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def write(name, data):
    return edit_bytes(name, lambda _: data)


def in_first_layer(**changes):
    return edit_header(lambda header: header["model.layers.0.self_attn.q_proj.weight"].update(changes))


NAN = b"\x00\x00\xc0\x7f"
CASES = {  # Name: what is done to the folder, arguments after it (None: a prompt), the sentence, and variables of the environment.
    "no_folder": (shutil.rmtree, None, r"config\.json cannot be opened"),
    "no_weights": (lambda f: (f / WEIGHTS).unlink(), None, r"model\.safetensors cannot be opened"),
    "no_tokenizer": (lambda f: (f / TOKENIZER).unlink(), None, r"tokenizer\.model cannot be opened"),
    "config_no_json": (write(CONFIG, b"{\"hidden_size\": 6"), None, r"config\.json is not a JSON object"),
    "config_array": (write(CONFIG, b"[]"), None, r"config\.json is not a JSON object"),
    "config_empty": (write(CONFIG, b""), None, r"config\.json is not a JSON object"),
    "config_no_hidden": (edit_config(hidden_size="absent"), None, r"hidden_size must be a whole number from 1 to"),
    "config_layers_text": (edit_config(num_hidden_layers="3"), None, r"num_hidden_layers must be a whole number"),
    "config_fraction": (edit_config(intermediate_size=172.5), None, r"intermediate_size must be a whole number"),
    "config_negative": (edit_config(vocab_size=-512), None, r"vocab_size must be a whole number"),
    "config_huge": (edit_config(num_attention_heads=1e300), None, r"num_attention_heads must be a whole number"),
    "config_heads": (edit_config(num_key_value_heads=3), None, r"num_attention_heads 4 is not a multiple of num_key_value_heads 3"),
    "config_odd": (edit_config(head_dim=15), None, r"head_dim is 15, it must be even"),
    "config_eps": (edit_config(rms_norm_eps=-1), None, r"rms_norm_eps must be a number from 0 to 1"),
    "config_theta": (edit_config(rope_theta="x"), None, r"rope_theta must be a number from 1"),
    "config_scaling": (edit_config(rope_scaling={"type": "linear"}), None, r"rope_scaling is not supported"),
    "config_other": (edit_config(model_type="gpt2"), None, r"model_type must be \"llama\""),
    "weights_empty": (write(WEIGHTS, b""), None, r"has 0 bytes, less than a safetensors file begins with"),
    "weights_seven": (edit_bytes(WEIGHTS, lambda raw: raw[:7]), None, r"has 7 bytes, less than"),
    "weights_in_header": (edit_bytes(WEIGHTS, lambda raw: raw[:500]), None, r"its header has \d+ bytes, but the file has 500: it is cut short"),
    "weights_other_file": (write(WEIGHTS, b"PK\x03\x04 is how an archive begins"), None, r"its header has \d+ bytes, but the file has 29"),
    "weights_header_no_json": (write(WEIGHTS, b"\x04" + bytes(7) + b"{]{]data"), None, r"its header is not a JSON object"),
    "weights_no_data": (edit_bytes(WEIGHTS, lambda raw: raw[:8 + int.from_bytes(raw[:8], "little")]), None,
                        r"is cut short: model\.embed_tokens\.weight ends at byte 131072 of the data, which has 0"),
    "weights_cut": (edit_bytes(WEIGHTS, lambda raw: raw[:-1]), None, r"is cut short: lm_head\.weight ends at byte \d+ of the data, which has \d+"),
    "weights_other_shape": (edit_config(hidden_size=32), None, r"embed_tokens\.weight has the shape \[512,64\], config\.json asks for \[512,32\]"),
    "weights_fewer_heads": (edit_config(num_key_value_heads=1), None, r"k_proj\.weight has the shape \[32,64\], config\.json asks for \[16,64\]"),
    "weights_more_layers": (edit_config(num_hidden_layers=4), None, r"has no tensor model\.layers\.3\.input_layernorm\.weight"),
    "weights_rank": (in_first_layer(shape=[64, 64, 1]), None, r"q_proj\.weight has the shape \[64,64,1\]"),
    "weights_no_shape": (in_first_layer(shape=None), None, r"q_proj\.weight has the shape null"),
    "weights_type": (in_first_layer(dtype="I8"), None, r"q_proj\.weight has the type I8, expected F32, BF16 or F16"),
    "weights_offsets": (in_first_layer(data_offsets=[0, 4]), None, r"data_offsets of model\.layers\.0\.self_attn\.q_proj\.weight are not those of 16384 bytes"),
    "weights_offsets_back": (in_first_layer(data_offsets=[16384, 0]), None, r"data_offsets of .* are not those of 16384 bytes"),
    "weights_offsets_beyond": (in_first_layer(data_offsets=[2**52, 2**52 + 16384]), None, r"is cut short: .*q_proj\.weight ends at byte \d+"),
    "weights_nan": (edit_bytes(WEIGHTS, lambda raw: raw[:-4] + NAN), None, r"the model gives numbers that are not finite"),
    "tokenizer_empty": (write(TOKENIZER, b""), None, r"tokenizer\.model is cut short, or not a SentencePiece model"),
    "tokenizer_other": (write(TOKENIZER, b"{\"version\": \"1.0\"}"), None, r"tokenizer\.model is cut short, or not a SentencePiece model"),
    "tokenizer_cut": (edit_bytes(TOKENIZER, lambda raw: raw[:len(raw) // 2]), None, r"tokenizer\.model (is cut short|has \d+ pieces)"),
    "tokenizer_short": (edit_bytes(TOKENIZER, lambda raw: raw + b"\x0a\x03\x0a\x01z"), None,
                        r"tokenizer\.model has 513 pieces, but the model has 512: it belongs to another model"),
    "tokenizer_no_begin": (edit_bytes(TOKENIZER, lambda raw: raw.replace(b"<s>", b"<S>")), None, r"tokenizer\.model has no piece <s>"),
    "tokenizer_no_byte": (edit_bytes(TOKENIZER, lambda raw: raw.replace(b"<0x0A>", b"<0x0G>")), None, r"piece 13 is of the kind byte and names none"),
    "backend": (lambda f: None, ["x"], r"nosuch", {"ATTILE_BACKEND": "nosuch"}),
    "prompt_long": (lambda f: None, ["z" * 300], r"the prompt has 30\d tokens, the model takes at most 256"),
    "tokens": (lambda f: None, ["x", "-n", "0"], r"-n is 0, expected"),
    "tokens_word": (lambda f: None, ["x", "-n", "ten"], r"-n is ten, expected"),
    "temperature": (lambda f: None, ["x", "-t", "-1"], r"-t is -1, expected"),
    "temperature_nan": (lambda f: None, ["x", "-t", "nan"], r"-t is nan, expected"),
    "top_p": (lambda f: None, ["x", "-p", "1.5"], r"-p is 1\.5, expected"),
    "seed": (lambda f: None, ["x", "-s", "1e99"], r"-s is 1e99, expected"),
}


def check_cases(whole, work, command):
    faults = []
    for name, (change, arguments, sentence, *environment) in CASES.items():
        folder = work / name
        shutil.copytree(whole, folder)
        change(folder)
        done = run(command, [folder, *(arguments or ["abc", "-n", "3"])], *environment)
        wrong = fault(done)
        if not wrong and not re.search(sentence, done.stderr.decode()):
            wrong = f"said {done.stderr.decode()!r}, expected {sentence!r}"
        if wrong:
            faults.append(f"{name}: {wrong}")
    if pathlib.Path("/dev/full").exists():
        with open("/dev/full", "wb") as full:
            done = subprocess.run([*command, whole, "abc", "-n", "3"], stdout=full, stderr=subprocess.PIPE, timeout=120)
        wrong = fault(done)
        if wrong:
            faults.append(f"full disk: {wrong}")
    print("\n".join(faults) or f"{len(CASES)} cases")
    return bool(faults)


def mutated(raw, name, draw):
    """A copy with some bits flipped, bytes replaced or its end cut off; of weights mostly in the header, where lengths are."""
    out = bytearray(raw)
    reach = 8 + int.from_bytes(raw[:8], "little") if name == WEIGHTS and draw.random() < 0.9 else len(raw)
    for _ in range(draw.choice([0, 1, 1, 2, 5])):
        at = draw.randrange(reach)
        out[at] = out[at] ^ 1 << draw.randrange(8) if draw.random() < 0.7 else draw.choice(b"0123456789[]{}\",:-eE\x00\xff\x7f")
    if draw.random() < 0.3:
        del out[draw.randrange(len(out)):]
    return bytes(out)


def check_mutations(whole, work, command, seconds, seed):
    draw, end, count, refused = random.Random(seed), time.monotonic() + seconds, 0, 0
    files = {name: (whole / name).read_bytes() for name in (CONFIG, WEIGHTS, TOKENIZER)}
    folder = work / "mutated"
    shutil.copytree(whole, folder)
    while time.monotonic() < end or count < 20:
        name = draw.choice(list(files))
        data = mutated(files[name], name, draw)
        (folder / name).write_bytes(data)
        done = run(command, [folder, "abc", "-n", "2"])
        wrong = fault(done) if done.returncode else f"wrote to stderr: {done.stderr}" if done.stderr else None
        if wrong:
            kept = pathlib.Path(tempfile.mkdtemp(prefix="llm_mutated_")) / name
            kept.write_bytes(data)
            print(f"mutation {count} of seed {seed}, {kept}: {wrong}")
            return True
        (folder / name).write_bytes(files[name])
        count, refused = count + 1, refused + bool(done.returncode)
    print(f"{count} mutations, {refused} refused, each by one sentence")
    return False


def main():
    words = sys.argv[1:]
    mutate = words[:1] == ["--mutate"]
    seconds, seed = (float(words[1]), int(words[2])) if mutate else (0, 0)
    make_model, *command = words[3 * mutate:]
    with tempfile.TemporaryDirectory() as work:
        whole = pathlib.Path(work) / "whole"
        subprocess.run([sys.executable, make_model, whole], check=True)
        failed = check_mutations(whole, pathlib.Path(work), command, seconds, seed) if mutate else check_cases(whole, pathlib.Path(work), command)
    sys.exit(failed)


if __name__ == "__main__":
    main()

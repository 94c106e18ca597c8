# SPDX-License-Identifier: Apache-2.0
"""Attile as the attention of models of Hugging Face's transformers: small ones with random weights, beside the attention that transformers calls "eager"."""
import importlib.util
import unittest
import warnings
from unittest import mock

for needed in ("torch", "transformers"):
    if importlib.util.find_spec(needed) is None:
        raise unittest.SkipTest("PyTorch or transformers is not installed")

import torch  # noqa: E402
import transformers  # noqa: E402

import attile.torch  # noqa: E402
from attile import _sdpa, _transformers  # noqa: E402

attile.torch.register_transformers()
TOKENS, PADDED = 97, 4
SHAPE = {"vocab_size": TOKENS, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
MODELS = {"Llama": {}, "Mistral": {"sliding_window": 5}, "Gemma2": {"sliding_window": 5, "attn_logit_softcapping": 2.0},
          "GptOss": {"sliding_window": 5, "num_local_experts": 4, "num_experts_per_tok": 2}}  # The last one has sinks.


def model_of(name):
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**SHAPE, **MODELS[name])).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.2)
    return model


def choose(model, name):
    """Which attention a model has from now on; the first versions of the interface have no method for it."""
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation(name)
    else:
        model.config._attn_implementation = name


def difference(one, other):
    return float((one - other).detach().abs().max() / other.detach().abs().max())


class Models(unittest.TestCase):
    def both(self, model, run):
        """What `run` gives with "eager" and with Attile, which leaves no call to PyTorch."""
        choose(model, "eager")
        expected = run()
        choose(model, "attile")
        with mock.patch.object(_transformers, "say_once", side_effect=AssertionError("left to PyTorch")), mock.patch.object(_transformers, "attend", wraps=_sdpa.attend) as calls:
            found = run()
        self.assertGreaterEqual(calls.call_count, SHAPE["num_hidden_layers"])
        return found, expected

    def test_models(self):
        for name in MODELS:
            if not hasattr(transformers, f"{name}Config"):
                continue
            model = model_of(name)
            tokens, seen = torch.randint(1, TOKENS, (2, 11)), torch.ones(2, 11, dtype=torch.long)
            seen[1, :PADDED] = 0
            with self.subTest(model=name, what="logits"), torch.no_grad():
                for mask in (None, seen):
                    found, expected = self.both(model, lambda model=model, mask=mask, tokens=tokens: model(tokens, attention_mask=mask).logits)
                    kept = seen.bool() if mask is not None else slice(None)
                    self.assertTrue(difference(found[kept], expected[kept]) <= 1e-5)
            with self.subTest(model=name, what="generation"):
                for cache, mask in ((None, seen), ("static", seen), (None, torch.ones_like(seen))):
                    options = {"attention_mask": mask, "max_new_tokens": 9, "do_sample": False, "cache_implementation": cache}
                    found, expected = self.both(model, lambda model=model, options=options, tokens=tokens: model.generate(tokens, **options))
                    self.assertTrue(torch.equal(found, expected))
            with self.subTest(model=name, what="gradients"):
                weights = [weight for weight in model.parameters() if weight.requires_grad]
                found, expected = self.both(model, lambda model=model, weights=weights, tokens=tokens: torch.autograd.grad(model(tokens, labels=tokens).loss, weights, allow_unused=True))
                self.assertTrue(max(difference(one, other) for one, other in zip(found, expected) if other is not None and bool(other.any())) <= 1e-4)

    def test_compiled(self):
        model, tokens = model_of("Llama"), torch.randint(1, TOKENS, (2, 11))
        choose(model, "attile")
        with torch.no_grad():
            expected = model(tokens, use_cache=False).logits
            found = torch.compile(lambda tokens: model(tokens, use_cache=False).logits, backend="aot_eager")(tokens)
        self.assertTrue(difference(found, expected) <= 1e-5)


class Arguments(unittest.TestCase):
    def setUp(self):
        self.module = torch.nn.Module()
        self.module.num_key_value_groups = 2
        self.q, self.kv = torch.rand(2, 4, 5, 8), torch.rand(2, 2, 5, 8)
        self.bias = torch.rand(1, 4, 5, 5)
        _sdpa._said.clear()

    def compare(self, mask, **options):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        found, weights = _transformers.attention(self.module, self.q, self.kv, self.kv, mask, **options)
        self.assertIsNone(weights)
        if "position_bias" in options:  # Versions before 5 do not have it.
            sum_of = options.pop("position_bias")
            mask = sum_of if mask is None else torch.where(mask, sum_of, float("-inf")) if mask.dtype == torch.bool else mask + sum_of
        self.assertTrue(torch.allclose(found, sdpa_attention_forward(self.module, self.q, self.kv, self.kv, mask, **options)[0], atol=1e-6))

    def test_masks(self):
        seen = torch.rand(2, 1, 5, 5) < 0.7
        seen[..., 0] = True
        for mask in (None, seen, self.bias, torch.rand(2, 1, 1, 5)):
            self.compare(mask, scaling=0.3)
        self.compare(seen, position_bias=self.bias)
        self.compare(self.bias, position_bias=self.bias)
        self.compare(None, position_bias=self.bias, is_causal=False)
        self.compare(None, is_causal=True)
        self.compare(None, is_causal=False)

    def test_types_that_autocast_makes_one(self):
        kv = self.kv.bfloat16()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found, _ = _transformers.attention(self.module, self.q, self.kv, kv, None)
        self.assertEqual(found.dtype, torch.bfloat16)
        self.assertTrue(torch.allclose(found.float(), _transformers.attention(self.module, self.q, self.kv, self.kv, None)[0], atol=2e-2))
        with self.assertRaisesRegex(ValueError, "types torch.float32, torch.float32 and torch.bfloat16"):
            _transformers.attention(self.module, self.q, self.kv, kv, None, softcap=2.0)
        with self.assertRaisesRegex(ValueError, "scaling is 0"):
            _transformers.attention(self.module, self.q, self.kv, self.kv, None, scaling=0.0, softcap=2.0)

    def test_a_device_without_autocast_is_left_to_transformers(self):
        q, kv = self.q.to("meta"), self.kv.to("meta")
        with self.assertWarnsRegex(UserWarning, "tensors on meta are not served"):
            found, _ = _transformers.attention(self.module, q, kv, kv, None)
        self.assertEqual((found.device.type, found.shape), ("meta", (2, 5, 4, 8)))
        with self.assertRaisesRegex(ValueError, "with softcap or sinks: tensors on meta are not served"):
            _transformers.attention(self.module, q, kv, kv, None, position_bias=self.bias.to("meta"), softcap=2.0)

    def test_a_gradient_to_the_sinks_alone(self):
        q, kv, sinks = self.q.double(), self.kv.double(), torch.rand(4, dtype=torch.float64).requires_grad_()
        self.assertTrue(torch.autograd.gradcheck(lambda sinks: _transformers.attention(self.module, q, kv, kv, None, s_aux=sinks)[0], sinks))

    def test_dropout_is_left_to_transformers(self):
        with self.assertWarnsRegex(UserWarning, "dropout is not 0"):
            torch.manual_seed(1)
            found = _transformers.attention(self.module, self.q, self.kv, self.kv, None, dropout=0.5)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            torch.manual_seed(1)
            self.assertTrue(torch.equal(found, _transformers.attention(self.module, self.q, self.kv, self.kv, None, dropout=0.5)[0]))
        for options in ({"softcap": 2.0}, {"s_aux": torch.rand(4)}):
            with self.assertRaisesRegex(ValueError, "with softcap or sinks: dropout is not 0"):
                _transformers.attention(self.module, self.q, self.kv, self.kv, None, dropout=0.5, **options)

    def test_other_versions_are_refused(self):
        for version in ("4.40.0", "4.52.4", "6.0.0"):
            sentence = f"register_transformers.*: transformers is version {version}, expected 4.53 or later, below 6$"
            with mock.patch.object(transformers, "__version__", version), self.assertRaisesRegex(ImportError, sentence):
                attile.torch.register_transformers()


if __name__ == "__main__":
    unittest.main()

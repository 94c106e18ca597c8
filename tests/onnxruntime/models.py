# SPDX-License-Identifier: Apache-2.0
"""Models of one node, and random ones of each operator, for the tests and the measurements."""
import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper

TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16, "bool": TensorProto.BOOL,
         "int32": TensorProto.INT32, "int64": TensorProto.INT64}
MICROSOFT = "com.microsoft"


@dataclasses.dataclass
class Case:
    """A node with its inputs (None: absent). valid: which elements of an output are compared, by its name; all by default.
    inner: bfloat16, which NumPy does not have: the model casts float32 inputs to it, and outputs from it.
    """
    op: str
    inputs: dict
    outputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    domain: str = ""
    opset: int = 24
    valid: dict = dataclasses.field(default_factory=dict)
    dynamic: bool = False
    constants: tuple = ()  # Inputs that are part of the model.
    inner: str = ""

    def dtype(self):
        return self.inner or str(next(iter(self.inputs.values())).dtype)

    def given(self):
        return {name: value for name, value in self.inputs.items() if value is not None}

    def feeds(self):
        return {name: value for name, value in self.given().items() if name not in self.constants}

    def model(self):
        def info(name, value):
            shape = [f"{name}_{i}" for i in range(value.ndim)] if self.dynamic else value.shape
            return helper.make_tensor_value_info(name, TYPES[str(value.dtype)], shape)

        names = [name if value is not None else "" for name, value in self.inputs.items()]
        while names and not names[-1]:
            names.pop()
        first = next(iter(self.inputs.values()))
        nodes = [helper.make_node(self.op, names, self.outputs, domain=self.domain, **self.attributes)]
        if self.inner:
            cast = [name for name, value in self.given().items() if str(value.dtype) == "float32"]
            inner = [name + "_inner" if name in cast else name for name in names], [name and name + "_inner" for name in self.outputs]
            nodes = ([helper.make_node("Cast", [name], [name + "_inner"], to=TYPES[self.inner]) for name in cast]
                     + [helper.make_node(self.op, *inner, domain=self.domain, **self.attributes)]
                     + [helper.make_node("Cast", [name + "_inner"], [name], to=TensorProto.FLOAT) for name in self.outputs if name])
        outputs = [helper.make_tensor_value_info(name, TYPES[str(first.dtype)], None) for name in self.outputs if name]
        constants = [onnx.numpy_helper.from_array(self.inputs[name], name) for name in self.constants]
        graph = helper.make_graph(nodes, "one", [info(*pair) for pair in self.feeds().items()], outputs, constants)
        sets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString()

    def __str__(self):
        shapes = ", ".join(f"{name} {value.dtype}{list(value.shape)}" for name, value in self.given().items())
        return f"{self.op}({shapes}) {self.attributes} outputs {self.outputs} opset {self.opset} {self.inner}"


def to_bfloat16(array):
    """The nearest numbers of bfloat16, as float32."""
    bits = np.ascontiguousarray(array, "float32").view("uint32")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype("uint32").view("float32")


def inner_of(dtype):
    """Case.inner for that type."""
    return dtype if dtype == "bfloat16" else ""


class Draw:
    """Random cases. Every choice comes from one generator, so a seed gives the same case again."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def one_of(self, *values):
        return values[self.random.integers(len(values))]

    def chance(self, share=0.5):
        return self.random.random() < share

    def extent(self):
        return int(self.one_of(1, 2, 3, 5, 8, 17, 33, 64))

    def dtype(self):
        return self.one_of("float32", "float64", "float16", "bfloat16")

    def array(self, *shape, dtype="float32"):
        """dtype bfloat16: of float32, numbers that bfloat16 has."""
        array = self.random.standard_normal(shape)
        return to_bfloat16(array) if dtype == "bfloat16" else array.astype(dtype)

    def matmul(self):
        m, k, n = (self.extent() for _ in range(3))
        dtype = self.dtype()
        batch = [int(self.random.integers(1, 4)) for _ in range(self.random.integers(0, 5))]
        one = [1 if self.chance(0.3) else extent for extent in batch][self.random.integers(0, len(batch) + 1):]
        other = [1 if self.chance(0.3) else extent for extent in batch]
        a, b = ([*one, m, k], [*other, k, n]) if self.chance() else ([*other, m, k], [*one, k, n])
        a = [k] if self.chance(0.1) else a
        b = [k] if self.chance(0.1) else b
        return Case("MatMul", {"a": self.array(*a, dtype=dtype), "b": self.array(*b, dtype=dtype)}, ["y"], dynamic=self.chance(),
                    opset=self.one_of(13, 24) if dtype == "bfloat16" else self.one_of(9, 13, 24), inner=inner_of(dtype),
                    constants=() if inner_of(dtype) else self.one_of((), ("b",)))

    def gemm(self):
        m, k, n = (self.extent() for _ in range(3))
        dtype = self.dtype()
        trans_a, trans_b = int(self.chance()), int(self.chance())
        c = self.one_of(None, [], [1], [n], [1, n], [m, 1], [m, n], [1, 1])
        attributes = {"transA": trans_a, "transB": trans_b}
        if self.chance():
            attributes |= {"alpha": float(self.one_of(0.0, 0.5, -2.0)), "beta": float(self.one_of(0.0, 1.0, 0.25))}
        return Case("Gemm", {"a": self.array(*([k, m] if trans_a else [m, k]), dtype=dtype),
                             "b": self.array(*([n, k] if trans_b else [k, n]), dtype=dtype),
                             "c": None if c is None else self.array(*c, dtype=dtype)}, ["y"], attributes, dynamic=self.chance(),
                    opset=self.one_of(13, 24) if dtype == "bfloat16" else self.one_of(11, 13, 24), inner=inner_of(dtype))

    def softmax(self):
        shape = [self.extent() for _ in range(self.random.integers(1, 6))]
        shape = [min(extent, 9) for extent in shape] if len(shape) > 3 else shape
        axis = int(self.random.integers(-len(shape), len(shape)))
        attributes = {} if self.chance(0.2) and len(shape) > 1 else {"axis": axis}
        dtype = self.dtype()
        opset = self.one_of(13, 24) if dtype == "bfloat16" else self.one_of(9, 11, 13, 24)
        if opset == 9 and axis < 0:
            attributes = {"axis": axis + len(shape)}
        return Case("Softmax", {"x": self.array(*shape, dtype=dtype)}, ["y"], attributes, opset=opset, dynamic=self.chance(),
                    inner=inner_of(dtype))

    def mask(self, shape, dtype):
        """A mask that broadcasts to `shape`, of float or bool, in which each row has a key."""
        cut = [1 if self.chance(0.3) else extent for extent in shape[:-1]] + [shape[-1]]
        cut = cut[self.random.integers(0, 3):]
        if self.chance():
            return self.array(*cut, dtype=dtype)
        mask = self.random.random(cut) < 0.7
        mask[..., 0] = True
        return mask

    def attention(self):
        dtype = self.one_of("float32", "float64", "float16", "bfloat16")
        batch, group, heads, rows, keys = int(self.one_of(1, 2, 3)), int(self.one_of(1, 2, 4)), int(self.one_of(1, 2)), self.extent(), self.extent()
        dim, dim_v, past = int(self.one_of(8, 16, 40, 64)), int(self.one_of(8, 16, 64)), int(self.one_of(0, 0, 3, 20))
        opset = self.one_of(23, 24)
        attributes = {"is_causal": int(self.chance())}
        if self.chance(0.3):
            attributes["scale"] = 0.3
        if self.chance(0.3):
            attributes["softcap"] = 2.0
        if self.chance(0.3):  # 3D
            attributes |= {"q_num_heads": heads * group, "kv_num_heads": heads}
            q, k, v = ([batch, length, width] for length, width in
                       ((rows, heads * group * dim), (keys, heads * dim), (keys, heads * dim_v)))
        else:
            q, k, v = [batch, heads * group, rows, dim], [batch, heads, keys, dim], [batch, heads, keys, dim_v]
        width = past + keys
        if opset >= 24 and self.chance(0.3):  # The mask may be shorter than the keys.
            width = int(self.random.integers(1, width + 1))
        inputs = {"q": self.array(*q, dtype=dtype), "k": self.array(*k, dtype=dtype), "v": self.array(*v, dtype=dtype),
                  "mask": self.mask([batch, heads * group, rows, width], dtype) if self.chance() else None,
                  "past_k": self.array(batch, heads, past, dim, dtype=dtype) if past else None,
                  "past_v": self.array(batch, heads, past, dim_v, dtype=dtype) if past else None}
        if opset >= 24 and not past and self.chance(0.5):
            inputs["lengths"] = self.random.integers(0, keys + 1, batch)
        outputs = ["y", "present_k", "present_v"] if past else ["y"]
        return Case("Attention", inputs, outputs, attributes, opset=opset, dynamic=self.chance(), inner=inner_of(dtype))

    def padding(self, batch, rows, keys, most):
        """Up to `most` zeros at the beginning, or some anywhere. Each row sees a key."""
        if self.chance():
            return (np.arange(keys) >= self.random.integers(0, most + 1, (batch, 1))).astype("int32")
        mask = self.random.random(self.one_of((batch, keys), (batch, rows, keys))) < 0.7
        mask[..., 0] = True
        return mask.astype("int32")

    def multi_head_attention(self):
        dtype = self.one_of("float32", "float32", "float16", "bfloat16")
        batch, heads, rows, keys = int(self.one_of(1, 2, 3)), int(self.one_of(1, 2, 4)), self.extent(), self.extent()
        dim, past = int(self.one_of(8, 16, 64)), int(self.one_of(0, 0, 4, 30))
        unidirectional = int(self.chance())
        if unidirectional:
            keys = rows
        attributes = {"num_heads": heads, "unidirectional": unidirectional}
        if self.chance(0.3):
            attributes["scale"] = 0.3
        bias = [self.one_of(1, batch), self.one_of(1, heads), rows, past + keys] if self.chance() else None
        inputs = {"q": self.array(batch, rows, heads * dim, dtype=dtype), "k": self.array(batch, keys, heads * dim, dtype=dtype),
                  "v": self.array(batch, keys, heads * dim, dtype=dtype),
                  "bias": self.array(3 * heads * dim, dtype=dtype) if self.chance(0.3) else None,
                  "padding": self.padding(batch, rows, past + keys, past if unidirectional else past + keys - 1) if self.chance() else None,
                  "attention_bias": self.array(*bias, dtype=dtype) if bias else None,
                  "past_k": self.array(batch, heads, past, dim, dtype=dtype) if past else None,
                  "past_v": self.array(batch, heads, past, dim, dtype=dtype) if past else None}
        outputs = ["y", "present_k", "present_v"] if past or self.chance(0.3) else ["y"]
        return Case("MultiHeadAttention", inputs, outputs, attributes, MICROSOFT, dynamic=self.chance() and inputs["bias"] is None,
                    inner=inner_of(dtype))

    def group_query_attention(self):
        dtype = self.one_of("float32", "float32", "float16", "bfloat16")
        batch, group, heads, dim = int(self.one_of(1, 2, 3)), int(self.one_of(1, 2, 4)), int(self.one_of(1, 2)), int(self.one_of(16, 64))
        prompt = self.chance()
        rows = int(self.one_of(1, 4, 17, 33)) if prompt else int(self.one_of(1, 1, 3)) if batch == 1 else 1
        capacity = 0 if prompt and self.chance() else int(self.one_of(40, 70))  # rows of the past
        keys = self.random.integers(1, rows + 1, batch) if prompt else self.random.integers(rows + 1, 41, batch)
        total = rows if prompt else int(keys.max())
        if prompt:
            keys[self.random.integers(batch)] = rows
        attributes = {"num_heads": heads * group, "kv_num_heads": heads}
        if self.chance(0.3):
            attributes["scale"] = 0.3
        if self.chance(0.3):
            attributes["softcap"] = 2.0
        if self.chance(0.3):
            attributes["local_window_size"] = int(self.one_of(1, 4, 16))
        sink = self.chance(0.2)
        if not sink and self.chance(0.2):
            attributes["smooth_softmax"] = 1
        rotary = self.chance()
        if rotary:
            attributes |= {"do_rotary": 1, "rotary_interleaved": int(self.chance())}
        width = heads * dim
        packed = self.chance(0.3)

        def array(*shape):
            return self.array(*shape, dtype=dtype)

        angles = self.random.standard_normal((80, dim // 2))
        cosine, sine = (to_bfloat16(x) if dtype == "bfloat16" else x.astype(dtype) for x in (np.cos(angles), np.sin(angles)))
        inputs = {"q": array(batch, rows, width * group + (2 * width if packed else 0)),
                  "k": None if packed else array(batch, rows, width), "v": None if packed else array(batch, rows, width),
                  "past_k": array(batch, heads, capacity, dim) if capacity else None,
                  "past_v": array(batch, heads, capacity, dim) if capacity else None,
                  "seqlens": (keys - 1).astype("int32"), "total": np.array(total, "int32"),
                  "cos": cosine if rotary else None, "sin": sine if rotary else None, "position_ids": None,
                  "attention_bias": array(self.one_of(1, batch), self.one_of(1, heads * group), rows, total) if self.chance(0.3) else None,
                  "head_sink": array(heads * group) if sink else None}
        rows_valid = np.arange(rows)[None, :, None] < (keys[:, None, None] if prompt else rows)
        cache_valid = np.arange(max(capacity, total))[None, None, :, None] < keys[:, None, None, None]
        return Case("GroupQueryAttention", inputs, ["y", "present_k", "present_v"], attributes, MICROSOFT, dynamic=self.chance(),
                    valid={"y": rows_valid, "present_k": cache_valid, "present_v": cache_valid}, inner=inner_of(dtype))

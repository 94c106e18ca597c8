#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model in ONNX's format, run by ONNX Runtime with Attile: causal attention, and a product with constant weights.

    python3 onnx_model.py build/cpu/lib/libattile_onnxruntime.so          with onnxruntime 1.23 or later and onnx installed
"""
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

library = os.path.abspath(sys.argv[1])
random = np.random.default_rng(0)
weights = random.standard_normal((64, 64)).astype(np.float32)
nodes = [helper.make_node("Attention", ["q", "k", "v"], ["seen"], is_causal=1), helper.make_node("MatMul", ["seen", "weights"], ["y"])]
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "heads", "length", 64]) for name in "qkv"]
outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "heads", "length", 64])]
graph = helper.make_graph(nodes, "layer", inputs, outputs, [numpy_helper.from_array(weights, "weights")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10).SerializeToString()

# [load]
import onnxruntime

onnxruntime.register_execution_provider_library("attile", library)
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "attile"]
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices, {"threads": "2"})
session = onnxruntime.InferenceSession(model, options)
# [load]

feeds = {name: random.standard_normal((2, 4, 100, 64)).astype(np.float32) for name in "qkv"}
expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
difference = np.abs(session.run(None, feeds)[0] - expected).max()
print(f"providers {session.get_providers()}: as by the CPU provider: {difference < 1e-4}")

# SPDX-License-Identifier: Apache-2.0
"""Sessions of ONNX Runtime with Attile's execution provider, and with its own CPU provider alone."""
import os
import re
import sys
import tempfile

import onnxruntime

NAME = "attile"


def register(library):
    """Load the plugin into ONNX Runtime."""
    onnxruntime.register_execution_provider_library(NAME, os.path.abspath(library))


def devices():
    """The devices that the plugin offers."""
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == NAME]


def session_options(threads=1):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def with_attile(model, threads=1, provider_options=None):
    """A session that has Attile before the CPU provider. model: bytes."""
    options = session_options(threads)
    options.add_provider_for_devices(devices(), provider_options or {"threads": str(threads)})
    return onnxruntime.InferenceSession(model, options)


def with_attile_and_reasons(model):
    """Such a session, and why nodes were left to another provider, as ONNX Runtime's log says it."""
    options = session_options()
    options.log_severity_level = 2
    options.add_provider_for_devices(devices(), {"threads": "1"})
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)  # ONNX Runtime writes there, not to sys.stderr.
        try:
            session = onnxruntime.InferenceSession(model, options)
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        log.seek(0)
        text = log.read().decode(errors="replace")
    return session, [f"{op}: {reason}" for op, reason in re.findall(r"Attile leaves (\w+) to another provider: ([^\n\x1b]*)", text)]


def with_cpu(model, threads=1):
    return onnxruntime.InferenceSession(model, session_options(threads), providers=["CPUExecutionProvider"])


def claimed(session):
    """The operators of the nodes that Attile has in a session, in no order."""
    found = []
    for part in session.get_provider_graph_assignment_info():
        if part.ep_name == NAME:
            found += [node.op_type for node in part.get_nodes()]
    return found


def expect(right, sentence):
    """End the test with a sentence unless `right`."""
    if not right:
        sys.exit(sentence)

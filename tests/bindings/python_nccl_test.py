# SPDX-License-Identifier: Apache-2.0
"""attile.distributed over NCCL: ranks that are threads, by the library that ATTILE_TEST_NCCL names, against the local calls. With a stand-in the device is emulated."""
import ctypes
import os
import sys
import types
import unittest
import unittest.mock

import numpy as np
import python_over_ranks as over_ranks
from python_distributed_test import run_ranks

import attile
import attile.distributed
from attile.distributed import Communicator, Matrix

BACKEND = os.environ.get("ATTILE_TEST_BACKEND", "emulated")  # with NCCL itself "cuda": a GPU for each rank
RANKS = 2
DEVICES = range(RANKS) if BACKEND != "emulated" else [0] * RANKS


class Group:
    """A process group as PyTorch has it: a backend for each type of device, and of NCCL's the communicator."""

    def __init__(self, pointer):
        self.pointer = pointer

    def _get_backend(self, device):
        assert device == "device cuda"
        return types.SimpleNamespace(_comm_ptr=lambda: self.pointer)


def torch_of(world):
    """What the package uses of PyTorch."""
    distributed = types.SimpleNamespace(group=types.SimpleNamespace(WORLD=world))
    return {"torch": types.SimpleNamespace(device=lambda kind: f"device {kind}", distributed=distributed), "torch.distributed": distributed}


class Nccl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nccl = ctypes.CDLL(os.environ["ATTILE_TEST_NCCL"])

    def setUp(self):
        self.comms = (ctypes.c_void_p * RANKS)()
        self.assertEqual(self.nccl.ncclCommInitAll(self.comms, RANKS, (ctypes.c_int * RANKS)(*DEVICES)), 0)

    def tearDown(self):
        for comm in self.comms:
            self.nccl.ncclCommDestroy(ctypes.c_void_p(comm))

    def on_ranks(self, work, comm_of=lambda pointer: pointer):
        """work(communicator) on every rank; what the ranks returned or raised."""

        def run(rank):
            with attile.Context(f"{BACKEND}:{DEVICES[rank]}") as context, Communicator.nccl(comm_of(self.comms[rank]), context=context, timeout=60) as ranks:
                return work(ranks)

        return run_ranks(RANKS, run)

    def test_results_are_those_of_one_rank(self):
        def work(ranks):
            self.assertEqual((ranks.info.kind, ranks.ranks), ("nccl", RANKS))
            over_ranks.check_options(ranks, np.float32)

        self.assertEqual(self.on_ranks(work), [None] * RANKS)

    def test_products(self):
        whole = np.arange(64, dtype=np.float32).reshape(8, 8)

        def work(ranks):
            rows = whole[4 * ranks.rank:][:4].copy()
            a, d = (Matrix(x, whole.shape, grid=(RANKS, 1)) for x in (rows, np.full_like(rows, np.nan)))
            return ranks.gemm(a, a, d)

        np.testing.assert_array_equal(np.concatenate(self.on_ranks(work)), whole @ whole)

    def test_a_number_a_pointer_or_a_group(self):
        for comm_of in (ctypes.c_void_p, Group, lambda pointer: types.SimpleNamespace(_comm_ptr=lambda: pointer)):
            with unittest.mock.patch.dict(sys.modules, torch_of(None)):
                self.assertEqual(self.on_ranks(lambda ranks: ranks.info.kind, comm_of), ["nccl"] * RANKS)
        with unittest.mock.patch.dict(sys.modules, torch_of(Group(0))), self.assertRaisesRegex(ValueError, "has no communicator of NCCL yet; expected device_id"):
            Communicator.nccl()  # the default group
        with unittest.mock.patch.dict(sys.modules, torch_of(None)), self.assertRaisesRegex(ValueError, "comm is None, and torch.distributed has no default process group"):
            Communicator.nccl()
        with self.assertRaisesRegex(TypeError, "comm is a list; expected an ncclComm_t as an integer"):
            Communicator.nccl([])

    def test_no_communicator_and_no_device(self):
        with attile.Context(f"{BACKEND}:0") as context, self.assertRaisesRegex(attile.AttileError, "options->communicator is 0; expected an ncclComm_t"):
            Communicator.nccl(0, context=context)
        with attile.Context("reference") as context, self.assertRaisesRegex(attile.AttileError, "the context's device is of type 1"):
            Communicator.nccl(self.comms[0], context=context)


if __name__ == "__main__":
    unittest.main()

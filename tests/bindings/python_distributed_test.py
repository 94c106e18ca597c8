# SPDX-License-Identifier: Apache-2.0
"""attile.distributed: ranks that are threads, by the library's own transport and by one in Python, against the local calls; and what goes wrong there."""
import dataclasses
import importlib.util
import queue
import signal
import socket
import subprocess
import sys
import threading
import unittest

import numpy as np
import python_over_ranks as over_ranks

import attile
import attile.distributed
from attile.distributed import Communicator, Matrix, positions

BACKENDS = ("reference", "cpu")
_groups = iter(range(1, 1000))


class Mail:
    """A transport in Python: a queue for each pair of ranks. `failing` is raised by the send of that number."""

    def __init__(self, rank, boxes, failing=None):
        self.rank, self.boxes, self.failing, self.sent, self.given_up = rank, boxes, failing, 0, []

    def send(self, data, to):
        self.sent += 1
        if self.failing and self.sent == self.failing[0]:
            raise self.failing[1]
        self.boxes[self.rank, to].put(bytes(data))

    def receive(self, data, source):
        return data, self.boxes[source, self.rank]

    def wait(self, request, seconds):
        if request is None:
            return
        data, box = request
        try:
            data[:] = box.get(timeout=seconds) if seconds > 0 else box.get_nowait()
        except queue.Empty:
            raise TimeoutError from None

    def give_up(self, why):
        self.given_up.append(why)


def run_ranks(count, work):
    """work(rank) on a thread each; what the ranks returned or raised."""
    found = [None] * count

    def run(rank):
        try:
            found[rank] = work(rank)
        except BaseException as error:  # handed to the test
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def mail(count):
    return {(a, b): queue.Queue() for a in range(count) for b in range(count)}


def small(ranks, rows=4):
    q = np.ones((1, 2, rows, 8), np.float32)
    return ranks.attention(q, q, q)


class Products(unittest.TestCase):
    """Whole numbers, so that sums in any order are the same."""

    M, N, K = 22, 15, 18

    @classmethod
    def setUpClass(cls):
        rng = np.random.default_rng(3)
        cls.a, cls.b, cls.c = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((cls.M, cls.K), (cls.K, cls.N), (cls.M, cls.N)))

    @staticmethod
    def cut(whole, rank, ranks, **layout):
        """What a rank has of a matrix, and where that is in the whole one."""
        made = Matrix(None, whole.shape, **layout)
        rows, columns = layout.get("grid") or (1, ranks)
        place = (rank % rows, rank // rows) if layout.get("order") == "columns" else (rank // columns, rank % columns)
        index = []
        for extent, block, source, at, count in zip(whole.shape, made.block, made.source, place, (rows, columns)):
            block = block or -(-extent // count)
            index.append([i for i in range(extent) if source == attile.distributed.REPLICATED or (i // block + source) % count == at])
        own = np.ascontiguousarray(whole[np.ix_(*index)])
        assert own.shape == made.local_shape(rank, ranks)
        return dataclasses.replace(made, local=own), np.ix_(*index)

    def test_every_method_on_other_layouts_of_each_matrix(self):
        expected = np.maximum(2 * (self.a @ self.b) - self.c + np.arange(self.N, dtype=np.float32), 0)
        for method in ("auto", "stationary_a", "stationary_b", "stationary_c"):

            def work(rank, method=method):
                with Communicator.threads(rank, 4, next_group) as ranks:
                    a, _ = self.cut(self.a.T.copy(), rank, 4, grid=(2, 2), block=(3, 4), source=(1, 0))
                    b, _ = self.cut(self.b, rank, 4, grid=(4, 1), order="columns")
                    d, index = self.cut(self.c, rank, 4, block=(0, 2), source=(attile.distributed.REPLICATED, 3))
                    bias = np.arange(self.N, dtype=np.float32)[index[1][0]]
                    found = ranks.gemm(a, b, d, d.local, transa=True, alpha=2, beta=-1, bias=bias, activation="relu", method=method, panel=5)
                    self.assertIs(found, d.local)
                    np.testing.assert_array_equal(found, expected[index])
                    return ranks.gemm(a, b, d, transa=True, method=method, query=True).method

            next_group = next(_groups)
            for found in run_ranks(4, work):
                if isinstance(found, BaseException):
                    raise found
                self.assertIn(found, (method,) if method != "auto" else ("stationary_a", "stationary_b", "stationary_c"))

    def test_a_part_of_each(self):
        def work(rank):
            with Communicator.threads(rank, 2, group) as ranks:
                a, _ = self.cut(self.a, rank, 2, origin=(2, 3))
                b, _ = self.cut(self.b, rank, 2, origin=(1, 4))
                d, index = self.cut(self.c, rank, 2, origin=(5, 6))
                expected = self.c.copy()
                expected[5:12, 6:14] = self.a[2:9, 3:9] @ self.b[1:7, 4:12]
                np.testing.assert_array_equal(ranks.gemm(a, b, d, m=7, n=8, k=6), expected[index])

        group = next(_groups)
        self.assertEqual(run_ranks(2, work), [None, None])

    def test_what_is_wrong_is_said(self):
        with Communicator.threads(0, 1) as ranks:
            a, b, d = (self.cut(whole, 0, 1)[0] for whole in (self.a, self.b, self.c))
            with self.assertRaisesRegex(attile.AttileError, "a->block_rows is -1"):
                ranks.gemm(dataclasses.replace(a, block=(-1, 0)), b, d)
            with self.assertRaisesRegex(attile.AttileError, "d->grid is 2 x 2"):
                ranks.gemm(a, b, dataclasses.replace(d, grid=(2, 2)))
            with self.assertRaisesRegex(ValueError, "method is 'ring'"):
                ranks.gemm(a, b, d, method="ring")
            np.testing.assert_array_equal(ranks.gemm(a, b, d), self.a @ self.b)


class Threads(unittest.TestCase):
    def run_all(self, count, make):
        for backend in BACKENDS:
            group, boxes = next(_groups), mail(count)

            def work(rank):
                with attile.Context(backend) as context, make(rank, count, group, boxes, context) as ranks:
                    over_ranks.check_all(ranks)
                    return ranks.info.kind

            for answer in run_ranks(count, work):
                if isinstance(answer, BaseException):
                    raise answer
                self.assertIn(answer, ("threads", "callbacks"))

    def test_the_library_s_threads(self):
        for count in (1, 2, 3, 4):
            self.run_all(count, lambda rank, count, group, boxes, context: Communicator.threads(rank, count, group, context=context, timeout=60))

    def test_a_transport_in_python(self):
        for count in (1, 2, 3, 4):
            self.run_all(count, lambda rank, count, group, boxes, context: Communicator.callbacks(Mail(rank, boxes), rank, count, context=context, timeout=60))


class Single(unittest.TestCase):
    def test_positions(self):
        for layout in over_ranks.LAYOUTS:
            for count in (1, 2, 3, 4):
                of_all = np.concatenate([positions(layout, 11, rank, count) for rank in range(count)])
                self.assertEqual(sorted(of_all), list(range(11)))
        self.assertEqual(list(positions("zigzag", 8, 0, 2)), [0, 1, 6, 7])
        self.assertEqual(list(positions("striped", 7, 1, 3)), [1, 4])
        with self.assertRaisesRegex(attile.AttileArgumentError, "rank"):
            positions("zigzag", 8, 2, 2)

    def test_a_communicator_that_was_closed(self):
        with Communicator.threads(0, 1) as ranks:
            self.assertEqual((ranks.info.kind, ranks.rank, ranks.ranks), ("threads", 0, 1))
            self.assertIs(ranks.context, attile.default_context())
            self.assertEqual(small(ranks).shape, (1, 2, 4, 8))
        ranks.close()
        with self.assertRaises(attile.AttileRankError) as caught:
            small(ranks)
        self.assertEqual(caught.exception.name, "ATTILE_ERROR_INVALID_COMM")

    def test_what_is_no_communicator(self):
        with self.assertRaisesRegex(TypeError, "comm is a str; expected a communicator of mpi4py"):
            Communicator.mpi("world")
        with self.assertRaisesRegex(attile.AttileError, "mpi"):  # there is none in this process
            Communicator.mpi()
        with self.assertRaises(attile.AttileArgumentError):
            Communicator.threads(2, 2)


class Faults(unittest.TestCase):
    def test_ranks_that_disagree(self):
        group = next(_groups)

        def work(rank):
            with Communicator.threads(rank, 2, group, timeout=60) as ranks:
                q = np.ones((1, 2, 4, 8), np.float32 if rank else np.float64)
                with self.assertRaises(attile.AttileRankError) as caught:
                    ranks.attention(q, q, q)
                self.assertEqual(caught.exception.name, "ATTILE_ERROR_RANKS_DISAGREE")
                self.assertEqual(ranks.info.status, caught.exception.status)

        self.assertEqual(run_ranks(2, work), [None, None])

    def test_a_transport_that_fails(self):
        boxes, mails = mail(2), {}

        def work(rank):
            mails[rank] = Mail(rank, boxes, failing=(3, OSError("the wire is cut")) if rank == 0 else None)
            with Communicator.callbacks(mails[rank], rank, 2, timeout=1) as ranks:
                small(ranks)

        cut, late = run_ranks(2, work)
        self.assertIsInstance(cut, attile.AttileRankError)
        self.assertEqual(cut.name, "ATTILE_ERROR_TRANSPORT")
        self.assertIsInstance(cut.__cause__, OSError)
        self.assertIn("wire", str(cut.__cause__))
        self.assertIsInstance(late, attile.AttileRankError)
        self.assertEqual(len(mails[0].given_up), 1)
        self.assertIn("could not send to rank 1", mails[0].given_up[0])

    def test_an_interrupt_in_a_transport_stays_one(self):
        boxes = mail(2)

        def work(rank):
            with Communicator.callbacks(Mail(rank, boxes, failing=(3, KeyboardInterrupt()) if rank == 0 else None), rank, 2, timeout=1) as ranks:
                small(ranks)

        interrupted, late = run_ranks(2, work)
        self.assertIsInstance(interrupted, KeyboardInterrupt)
        self.assertIsInstance(late, attile.AttileRankError)

    def test_a_late_rank(self):
        boxes = mail(2)

        def work(rank):
            with Communicator.callbacks(Mail(rank, boxes), rank, 2, timeout=0.3) as ranks:
                if rank == 0:
                    small(ranks)

        late, gone = run_ranks(2, work)
        self.assertIsNone(gone)
        self.assertEqual(late.name, "ATTILE_ERROR_RANK_LATE")
        self.assertIn("rank 1", late.message)

    def test_memory_of_a_request_that_is_over(self):
        boxes, kept = mail(2), []

        class Keeper(Mail):
            def receive(self, data, source):
                kept.append(data)
                return super().receive(data, source)

        def work(rank):
            with Communicator.callbacks(Keeper(rank, boxes), rank, 2, timeout=60) as ranks:
                small(ranks)

        self.assertEqual(run_ranks(2, work), [None, None])
        for data in kept:
            with self.assertRaises(ValueError):
                data[0] = 1


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class ProcessGroups(unittest.TestCase):
    def test_gloo(self):
        for count in (1, 3):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            processes = [subprocess.Popen([sys.executable, "python_ranks_main.py", "torch", str(rank), str(count), str(port)], stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True) for rank in range(count)]
            for process in processes:
                text, _ = process.communicate(timeout=300)
                self.assertEqual(process.returncode, 0, text)
                self.assertIn("right", text)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Causal attention of one sequence and its gradients, spread over the ranks of MPI. Each rank compares its rows with those of one call.

    mpiexec -n 4 python3 attention_ranks.py       with attile installed, or PYTHONPATH=bindings/python/src; needs mpi4py
"""
import sys

import attile
import attile.distributed
import numpy as np
from mpi4py import MPI

length, heads, heads_kv, dim = 1000, 4, 2, 16
rng = np.random.default_rng(1)  # the same whole sequences on every rank; a real program has its own shard only
q, k, v, dout = (rng.uniform(-1, 1, (1, count, length, dim)).astype(np.float32) for count in (heads, heads_kv, heads_kv, heads))

# [ranks]
with attile.distributed.Communicator.mpi(MPI.COMM_WORLD) as ranks:
    mine = ranks.positions("zigzag", length)  # which positions this rank has
    own = q[:, :, mine], k[:, :, mine], v[:, :, mine]
    options = {"layout": "zigzag", "method": "ring", "len_q": length, "len_k": length, "mask": "causal_top_left"}
    o, lse = ranks.attention(*own, lse=True, **options)
    dq, dk, dv = ranks.attention_backward(dout[:, :, mine], *own, o, lse, **options)
# [ranks]

whole, whole_lse = attile.attention(q, k, v, lse=True, mask="causal_top_left")
expected = whole, *attile.attention_backward(dout, q, k, v, whole, whole_lse, mask="causal_top_left")
right = all(bool((np.abs(found - of_one[:, :, mine]) <= 1e-5).all()) for found, of_one in zip((o, dq, dk, dv), expected))
right = MPI.COMM_WORLD.allreduce(right, MPI.LAND)
if MPI.COMM_WORLD.rank == 0:
    print(f"{MPI.COMM_WORLD.size} ranks, {length} positions: within 1e-5 of one call: {right}")
sys.exit(not right)

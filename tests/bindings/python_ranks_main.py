# SPDX-License-Identifier: Apache-2.0
"""One rank of attile.distributed in a process of its own, by MPI or PyTorch, on each backend: python_ranks_main.py mpi | torch RANK RANKS PORT"""
import sys

import numpy as np
import python_over_ranks as over_ranks

import attile
from attile.distributed import Communicator

BACKENDS = ("reference", "cpu")


def run_mpi():
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    reverse = world.Split(0, -world.Get_rank())  # a communicator that is not MPI_COMM_WORLD: ranks the other way round
    for backend in BACKENDS:
        with attile.Context(backend) as context:
            with Communicator.mpi(world, context=context, timeout=60) as ranks:
                assert (ranks.rank, ranks.ranks, ranks.info.kind) == (world.Get_rank(), world.Get_size(), "mpi")
                over_ranks.check_all(ranks)
            for comm in (reverse, reverse.py2f()):
                with Communicator.mpi(comm, context=context, timeout=60) as ranks:
                    assert ranks.rank == world.Get_size() - 1 - world.Get_rank(), ranks.rank
                    over_ranks.check_outputs(ranks)
    with Communicator.mpi() as ranks:
        assert ranks.rank == world.Get_rank()
    return world.Get_rank()


def run_torch(rank, count, port):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=count)
    other = dist.new_group(list(range(count)))
    for backend in BACKENDS:
        with attile.Context(backend) as context:
            with Communicator.process_group(context=context, timeout=60) as ranks:
                assert (ranks.rank, ranks.ranks, ranks.info.kind) == (rank, count, "callbacks")
                over_ranks.check_all(ranks)
                over_ranks.check_tensors(ranks, torch)
            with Communicator.process_group(other, context=context, timeout=60) as ranks:
                over_ranks.check_outputs(ranks)
    if count > 2:  # a group without the last one
        some = dist.new_group(list(range(1, count)))
        if rank > 0:
            with Communicator.process_group(some, timeout=60) as ranks:
                assert (ranks.rank, ranks.ranks) == (rank - 1, count - 1)
                over_ranks.check_outputs(ranks)
    dist.barrier()
    late = dist.new_group(list(range(count)))
    if rank == 0 and count > 1:
        try:
            Communicator.process_group(late, timeout=0.5)
        except attile.AttileRankError as error:
            assert error.name == "ATTILE_ERROR_RANK_LATE", error
        else:
            raise AssertionError("no rank was late")
    dist.barrier()
    dist.destroy_process_group()
    return rank


if __name__ == "__main__":
    np.seterr(all="raise")
    print("right on rank", run_mpi() if sys.argv[1] == "mpi" else run_torch(*map(int, sys.argv[2:])))

# SPDX-License-Identifier: Apache-2.0
# In a repository of Spack this file is packages/attile/package.py; `spack dev-build attile@main` in the project's tree builds that.
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Attile(CMakePackage, CudaPackage):
    """Attention and matrix multiplication with a stable C interface, and backends for CPUs and GPUs that are loaded at run time."""

    homepage = "https://example.org/attile"  # the project's address, once it has one
    git = "https://example.org/attile.git"

    license("Apache-2.0")

    version("main", branch="main")

    variant("shared", default=True, description="A shared library; otherwise a static one with the cpu backend in it")
    variant("cpu", default=True, description="The SIMD and multi-threaded CPU backend")
    variant("mpi", default=False, description="The transport for ranks of MPI")
    variant("fortran", default=False, description="The Fortran module")
    variant("tools", default=True, description="The attile program, which shows, checks and measures backends")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("highway@1.0.3:", type="build", when="+cpu")
    depends_on("cli11", type="build", when="+tools")
    depends_on("cuda@11.8:", when="+cuda")
    depends_on("mpi", when="+mpi")

    conflicts("platform=darwin", msg="attile is for Linux")
    conflicts("platform=windows", msg="attile is for Linux")

    def cmake_args(self):
        args = [
            self.define("ATTILE_DEVELOPER", False),
            self.define("ATTILE_INSTALL", True),
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("ATTILE_BACKEND_CPU", "cpu"),
            self.define_from_variant("ATTILE_BACKEND_CUDA", "cuda"),
            self.define_from_variant("ATTILE_COMM_MPI", "mpi"),
            self.define_from_variant("ATTILE_BUILD_FORTRAN", "fortran"),
            self.define_from_variant("ATTILE_BUILD_TOOLS", "tools"),
        ]
        if self.spec.satisfies("+mpi"):
            args.append(self.define("ATTILE_MPI_COMPILERS", self.spec["mpi"].mpicc))
        if self.spec.satisfies("+cuda") and not self.spec.satisfies("cuda_arch=none"):
            args.append(self.define("ATTILE_CUDA_ARCHITECTURES", [f"{arch}-real" for arch in self.spec.variants["cuda_arch"].value]))
        return args

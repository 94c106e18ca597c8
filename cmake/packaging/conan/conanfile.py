# SPDX-License-Identifier: Apache-2.0
"""libattile for Conan 2: `conan create cmake/packaging/conan` packs the tree that it lies in."""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import stdcpp_library
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.0"
TREE = os.path.join("..", "..", "..")  # from this file


class AttileConan(ConanFile):
    name = "attile"
    description = "Attention and matrix multiplication with a stable C interface, and backends for CPUs and GPUs"
    license = "Apache-2.0"
    topics = ("attention", "gemm", "matrix-multiplication", "cuda")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "cpu": [True, False]}
    default_options = {"shared": True, "fPIC": True, "cpu": True}

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, TREE, "include", "attile", "attile.h"))
        self.version = ".".join(re.findall(r"^#define ATTILE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header, re.M))

    def export_sources(self):
        for part in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "core/*", "backends/*", "bindings/*", "examples/*"):
            copy(self, part, os.path.join(self.recipe_folder, TREE), self.export_sources_folder, excludes=("*/target/*", "*/__pycache__/*"))

    def configure(self):
        if self.options.shared:
            self.options.rm_safe("fPIC")
            # Its interface is in C, and the runtime of C++ is linked in.
            self.settings.rm_safe("compiler.cppstd")
            self.settings.rm_safe("compiler.libcxx")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"{self.ref} is for Linux, not for {self.settings.os}")

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        if self.options.cpu:
            self.requires("highway/[>=1.0.3 <2]", visible=False, libs=False)  # headers alone

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.25]")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["ATTILE_DEVELOPER"] = False
        toolchain.cache_variables["ATTILE_BACKEND_CPU"] = bool(self.options.cpu)
        for dependency in self.dependencies.host.values():
            if dependency.ref.name == "highway" and dependency.package_folder:
                toolchain.cache_variables["ATTILE_HIGHWAY_INCLUDE"] = dependency.cpp_info.includedirs[0]
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        # Conan writes the files for CMake and pkg-config; bindings of other languages have packages of their own.
        for folder in (("lib", "cmake"), ("lib", "pkgconfig"), ("share",)):
            rmdir(self, os.path.join(self.package_folder, *folder))

    def package_info(self):
        self.cpp_info.libs = ["attile"]
        self.cpp_info.set_property("cmake_file_name", "attile")
        self.cpp_info.set_property("cmake_target_name", "attile::attile")
        self.cpp_info.set_property("pkg_config_name", "attile")
        if not self.options.shared:
            runtime = stdcpp_library(self)
            self.cpp_info.system_libs = [library for library in (runtime, "m", "dl", "pthread") if library]
            # A shared library that holds it stays loaded: backends keep pointers into it.
            self.cpp_info.sharedlinkflags = ["-Wl,-z,nodelete"]

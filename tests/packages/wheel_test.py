# SPDX-License-Identifier: Apache-2.0
"""Packs the build in a wheel by tools/wheel, installs it into an empty folder without a network, and runs programs there: which library is taken, and backends of other packages.

The environment says what is used: ATTILE_WHEEL_BUILD (build tree), ATTILE_WHEEL_SOURCE, ATTILE_WHEEL_WORK (an empty folder), ATTILE_WHEEL_FAKE (a backend named good), CC.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
import zipfile

BUILD, SOURCE, WORK, FAKE = (pathlib.Path(os.environ[f"ATTILE_WHEEL_{name}"]) for name in ("BUILD", "SOURCE", "WORK", "FAKE"))
COMPILER = os.environ["CC"]
SONAME = "libattile.so.1"
# Nothing of an Attile that this machine has may stand in for what is packed.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("ATTILE_") and name not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
# A call, then the backend's name and the files of libattile that are loaded.
PROGRAM = """
import attile, numpy as np
x = np.ones((2, 2), np.float32)
assert (attile.gemm(x, x) == 2).all()
print(attile.default_context().info.backend)
print(*sorted({line.split()[-1] for line in open("/proc/self/maps") if "libattile.so" in line}))
"""
OTHER_VERSION = "#include <stdint.h>\n__attribute__((visibility(\"default\"))) int32_t attile_version(void);\nint32_t attile_version(void) { return NUMBER; }\n"


def pack(*arguments, output):
    made = subprocess.run([sys.executable, SOURCE / "tools/wheel", *arguments, "--work", output / "work", "--output", output], env={**CLEAN, "SOURCE_DATE_EPOCH": "1795600000"}, capture_output=True,
                          text=True, check=False)
    if made.returncode:
        raise AssertionError(made.stdout + made.stderr)
    [wheel] = output.glob("*.whl")
    return wheel


def install(wheel, site):
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", site, wheel], env=CLEAN, check=True, stdout=subprocess.DEVNULL)


def run(site, program=PROGRAM, **environment):
    return subprocess.run([sys.executable, "-B", "-c", program], env={**CLEAN, "PYTHONPATH": str(site), **environment}, cwd="/", capture_output=True, text=True, check=False)


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        cls.wheel = pack("--build", BUILD, output=WORK / "first")
        cls.site = WORK / "site"
        install(cls.wheel, cls.site)
        cls.own = cls.site / "attile/lib" / SONAME
        cls.system = WORK / "system"
        cls.system.mkdir()
        shutil.copy(cls.own, cls.system / SONAME)

    def copy_of_site(self, name):
        shutil.copytree(self.site, WORK / name)
        return WORK / name

    def library_of_version(self, number, folder):
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / "version.c"
        source.write_text(OTHER_VERSION)
        subprocess.run([COMPILER, "-shared", "-fPIC", f"-DNUMBER={number}", source, "-o", folder / SONAME], check=True)
        return folder / SONAME

    def check_taken(self, result, library):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split()[1:], [str(library)])
        return result.stdout.split()[0]

    def check_refused(self, result, sentence):
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.splitlines()[-1], f"ImportError: {sentence}")

    def test_it_needs_nothing_else(self):
        self.assertEqual(self.check_taken(run(self.site), self.own), "cpu")
        compiled = run(self.site, "import attile, sys; sys.exit(not attile.compiled)")
        self.assertEqual(compiled.returncode, 0, compiled.stderr)
        self.assertLess(self.wheel.stat().st_size, 10_000_000)

    def test_own_library_goes_before_the_systems(self):
        self.check_taken(run(self.site, LD_LIBRARY_PATH=str(self.system)), self.own)

    def test_named_library_goes_before_its_own(self):
        named = self.system / SONAME
        self.check_taken(run(self.site, ATTILE_LIBRARY=str(named)), named)
        missing = run(self.site, ATTILE_LIBRARY="/nonexistent/libattile.so.1")
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn("/nonexistent/libattile.so.1", missing.stderr)

    def test_systems_library_where_none_is_carried(self):
        site = self.copy_of_site("without")
        shutil.rmtree(site / "attile/lib")
        self.check_taken(run(site, LD_LIBRARY_PATH=str(self.system)), self.system / SONAME)

    def test_two_versions_in_one_folder(self):
        site = self.copy_of_site("mixed")
        old = self.library_of_version(1000000, site / "attile/lib")
        version = run(self.site, "import attile; print(attile.version())").stdout.strip()
        self.check_refused(run(site), f"{old} is Attile 1.0.0, and the Python package around it is {version}: two versions share one folder; remove it and install attile again")

    def test_library_too_old_or_of_another_major(self):
        version = run(self.site, "import attile; print(attile.version())").stdout.strip()
        for number, text in ((1000000, "1.0.0"), (2000000, "2.0.0")):
            other = self.library_of_version(number, WORK / f"other{number}")
            self.check_refused(run(self.site, ATTILE_LIBRARY=str(other)), f"{other} is Attile {text}, expected {version} or a later 1.x, which this Python package needs")

    def test_library_cut_short(self):
        site = self.copy_of_site("cut")
        library = site / "attile/lib" / SONAME
        whole = library.read_bytes()
        for size in (10, 64, 100, 5000, len(whole) // 2, len(whole) * 9 // 10):
            library.write_bytes(whole[:size])
            self.check_refused(run(site), f"{library} is cut short; install attile again")

    def test_same_build_same_bytes(self):
        again = pack("--build", BUILD, output=WORK / "a_second_place")
        self.assertEqual(hashlib.sha256(again.read_bytes()).hexdigest(), hashlib.sha256(self.wheel.read_bytes()).hexdigest())

    def test_list_of_what_is_in_it(self):
        archive = zipfile.ZipFile(self.wheel)
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/sboms/sbom.spdx.json")]
        listed = json.loads(archive.read(name))
        self.assertEqual(listed["spdxVersion"], "SPDX-2.3")
        files = {file["fileName"][2:]: file["checksums"][1]["checksumValue"] for file in listed["files"]}
        others = {name, next(entry for entry in archive.namelist() if entry.endswith("/RECORD"))}
        self.assertEqual(set(files), set(archive.namelist()) - others)
        for file, digest in files.items():
            self.assertEqual(hashlib.sha256(archive.read(file)).hexdigest(), digest, file)
        self.assertIn("highway", [package["name"] for package in listed["packages"]])

    def test_backend_of_another_package(self):
        site = self.copy_of_site("with_backend")
        wheel = pack("--backend", FAKE, "--package", "attile-good", output=WORK / "backend")
        install(wheel, site)
        name = "import attile; print(attile.Context('good').info.backend)"
        found = run(site, name)
        self.assertEqual((found.returncode, found.stdout, found.stderr), (0, "good\n", ""))
        self.assertEqual(self.check_taken(run(site), self.own.parents[3] / "with_backend/attile/lib" / SONAME), "cpu")
        # What the user names goes before it: here a file that is no backend.
        broken = WORK / "broken"
        broken.mkdir()
        (broken / FAKE.name).write_text("no library")
        report = run(site, "import attile; attile.Context('good'); print(attile.backend_report())", ATTILE_BACKEND_PATH=str(broken))
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertLess(report.stdout.index(str(broken)), report.stdout.index(str(site / "attile_good")), report.stdout)

        second = pack("--backend", FAKE, "--package", "attile-good-legacy", output=WORK / "backend_twice")
        install(second, site)
        twice = run(site, name)
        self.assertEqual(twice.stdout, "good\n")
        self.assertIn("the packages attile_good and attile_good_legacy both bring the backend 'good', and attile_good is used: uninstall one of them", twice.stderr)
        shutil.rmtree(site / "attile_good_legacy")
        (site / "attile_good" / FAKE.name).unlink()
        gone = run(site, name)
        self.assertNotEqual(gone.returncode, 0)
        self.assertIn(f"the package attile_good says that it brings the backend 'good', and holds no {FAKE.name}: install it again", gone.stderr)

    def test_tools_of_a_folder(self):
        tools, lines = WORK / "tools", (SOURCE / "cmake/packaging/wheel-requirements.txt").read_text().splitlines()
        for name, number in (line.split("==") for line in lines if not line.startswith("#")):
            info = tools / f"{name}-{number}.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        arguments = ["--backend", str(FAKE), "--package", "attile-good", "--tools", str(tools)]
        self.assertTrue(pack(*arguments, output=WORK / "by_tools").exists())
        [info] = tools.glob("wheel-*")
        for replaced, holds in (("Version: 0.1", "wheel 0.1"), ("", "no wheel")):
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: wheel\n{replaced}\n") if replaced else shutil.rmtree(info)
            result = subprocess.run([sys.executable, SOURCE / "tools/wheel", *arguments, "--work", WORK / "wrong"], env=CLEAN, capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"tools/wheel: --tools is {tools}, which holds {holds}, expected wheel ", result.stderr)

    def test_wrong_arguments(self):
        old = WORK / "old_nvcc"
        old.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 11.4, V11.4.48'\n")
        old.chmod(0o755)
        for arguments, sentence in ((["--cuda", "/nonexistent/nvcc"], "--cuda is /nonexistent/nvcc, expected nvcc of a CUDA toolkit"),
                                    (["--cuda", sys.executable], f"--cuda is {sys.executable}, expected nvcc of a CUDA toolkit"),
                                    (["--cuda", str(old)], f"--cuda is {old} of CUDA 11.4, expected 11.8 or later"),
                                    (["--backend", "/nonexistent/x.so", "--package", "attile-x"], "--backend is /nonexistent/x.so, expected a file libattile_backend_NAME.so"),
                                    (["--backend", str(FAKE), "--package", "Attile Cuda"], "--package is 'Attile Cuda', expected a name such as attile-cuda")):
            result = subprocess.run([sys.executable, SOURCE / "tools/wheel", *arguments, "--work", WORK / "wrong"], env=CLEAN, capture_output=True, text=True, check=False)
            self.assertEqual((result.returncode, result.stderr), (1, f"tools/wheel: {sentence}\n"))


if __name__ == "__main__":
    unittest.main()

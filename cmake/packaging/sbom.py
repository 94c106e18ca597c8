# SPDX-License-Identifier: Apache-2.0
"""The list of what is in a wheel, as SPDX 2.3 in JSON: its files, and what others wrote that is compiled into the libraries."""
import datetime
import email.parser
import hashlib
import json
import os
import re


CUDA_LICENCE = {"licenseId": "LicenseRef-CUDA-EULA", "name": "End User License Agreement of NVIDIA's CUDA toolkit",
                "extractedText": "The agreement comes with the toolkit. Its Attachment A lists libcudart_static.a among what programs may be distributed with.",
                "seeAlsos": ["https://docs.nvidia.com/cuda/eula/"]}


def _cache(tree, name):
    """An entry of a build tree's CMakeCache.txt, or an empty text."""
    found = re.search(rf"^{name}:[A-Z]+=(.*)$", (tree / "CMakeCache.txt").read_text(), re.M)
    return found[1] if found else ""


def _compiler(tree):
    [file] = tree.glob("CMakeFiles/*/CMakeCXXCompiler.cmake")
    text = file.read_text()
    return tuple(re.search(rf'^set\(CMAKE_CXX_COMPILER_{what} "(.*?)"\)', text, re.M)[1] for what in ("ID", "VERSION"))


def _parts(tree):
    """Name, version (None where it is not known), licence and supplier of what is compiled in."""
    kind, version = _compiler(tree)
    if kind == "GNU":
        yield "libstdc++", version, "GPL-3.0-or-later WITH GCC-exception-3.1", "Organization: Free Software Foundation"
    else:
        yield "libc++", version, "Apache-2.0 WITH LLVM-exception", "Organization: LLVM"
    highway = _cache(tree, "ATTILE_HIGHWAY_INCLUDE")
    if highway:
        with open(os.path.join(highway, "hwy/base.h"), encoding="utf-8") as header:
            numbers = dict(re.findall(r"^#define HWY_(MAJOR|MINOR|PATCH) (\d+)", header.read(), re.M))
        # Older ones have their version in no header.
        yield "highway", ".".join(numbers.values()) or None, "Apache-2.0 OR BSD-3-Clause", "Organization: Google LLC"


    for file in tree.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        toolkit = re.search(r'^set\(CMAKE_CUDA_COMPILER_VERSION "(.*?)"\)', file.read_text(), re.M)
        yield "cudart_static", toolkit[1] if toolkit else None, CUDA_LICENCE["licenseId"], "Organization: NVIDIA Corporation"


def document(root, info, tree):
    """The text of the list for an unpacked wheel in `root` with metadata in `info`; `tree` is the build tree that its libraries come from, or None if that is not known.
    Times are SOURCE_DATE_EPOCH."""
    metadata = email.parser.HeaderParser().parsestr((info / "METADATA").read_text())
    files, digests = [], []
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.name != "RECORD"):
        content = path.read_bytes()
        digests.append(hashlib.sha1(content).hexdigest())
        files.append({"SPDXID": f"SPDXRef-File-{len(files)}", "fileName": f"./{path.relative_to(root)}",
                      "checksums": [{"algorithm": "SHA1", "checksumValue": digests[-1]}, {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}],
                      "licenseConcluded": "Apache-2.0", "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION"})
    code = hashlib.sha1("".join(sorted(digests)).encode()).hexdigest()  # as SPDX defines it
    package = {"SPDXID": "SPDXRef-Package", "name": metadata["Name"], "versionInfo": metadata["Version"], "downloadLocation": "NOASSERTION", "supplier": "Organization: The Attile authors",
               "filesAnalyzed": True, "packageVerificationCode": {"packageVerificationCodeValue": code}, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
               "licenseInfoFromFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION"}
    packages, relations = [package], [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-Package"}]
    relations += [{"spdxElementId": "SPDXRef-Package", "relationshipType": "CONTAINS", "relatedSpdxElement": file["SPDXID"]} for file in files]
    for name, version, licence, supplier in _parts(tree) if tree else ():
        identity = f"SPDXRef-Part-{name.replace('+', 'x')}"
        packages.append({"SPDXID": identity, "name": name, **({"versionInfo": version} if version else {}), "downloadLocation": "NOASSERTION", "supplier": supplier,
                         "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION"})
        relations.append({"spdxElementId": "SPDXRef-Package", "relationshipType": "STATIC_LINK", "relatedSpdxElement": identity})
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    return json.dumps({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{metadata['Name']}-{metadata['Version']}",
                       "documentNamespace": f"https://spdx.org/spdxdocs/{metadata['Name']}-{metadata['Version']}-{code}",
                       "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: attile-tools-wheel"]},
                       **({"hasExtractedLicensingInfos": [CUDA_LICENCE]} if any(part["licenseDeclared"] == CUDA_LICENCE["licenseId"] for part in packages) else {}),
                       "packages": packages, "files": files, "relationships": relations}, indent=1) + "\n"

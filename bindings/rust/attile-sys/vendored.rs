// SPDX-License-Identifier: Apache-2.0
//! Builds libattile with the backends reference and cpu from the library's sources, as a static library in `OUT_DIR`: by cmake, a C and a C++20 compiler and GNU binutils.
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn build() -> Result<(), String> {
    println!("cargo:rerun-if-env-changed=CMAKE_ARGS");
    let folder = variable("CARGO_MANIFEST_DIR")?;
    let source = source(Path::new(&folder)).ok_or_else(|| {
        format!("the feature vendored builds libattile from its sources, and {} holds none: use the crate that tools/crate packs, or leave the feature out and install libattile", folder)
    })?;
    for part in ["CMakeLists.txt", "cmake", "include", "core", "backends/reference", "backends/cpu"] {
        println!("cargo:rerun-if-changed={}", source.join(part).display());
    }
    if std::env::var_os("DOCS_RS").is_some() {
        return Ok(()); // documentation links nothing
    }
    let (host, target) = (variable("HOST")?, variable("TARGET")?);
    if host != target && std::env::var_os("CMAKE_TOOLCHAIN_FILE").is_none() {
        return Err(format!(
            "the target is {} and this machine is {}: CMAKE_TOOLCHAIN_FILE has to name a toolchain file of CMake for the target",
            target, host
        ));
    }
    let tree = Path::new(&variable("OUT_DIR")?).join("library");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&source).arg("-B").arg(&tree);
    if std::env::var_os("CMAKE_GENERATOR").is_none() && !is_there("make") && is_there("ninja") {
        configure.env("CMAKE_GENERATOR", "Ninja");
    }
    configure.args([
        "-DBUILD_SHARED_LIBS=OFF",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DATTILE_DEVELOPER=OFF",
        "-DATTILE_INSTALL=ON",
        "-DCMAKE_INSTALL_LIBDIR=lib",
    ]);
    if source.join("highway").is_dir() {
        configure.arg(format!("-DATTILE_HIGHWAY_INCLUDE={}", source.join("highway").display()));
    }
    configure.args(std::env::var("CMAKE_ARGS").unwrap_or_default().split_whitespace());
    run(configure)?;
    let mut make = Command::new("cmake");
    make.arg("--build").arg(&tree).args([
        "--target",
        "attile",
        "--parallel",
        &std::env::var("NUM_JOBS").unwrap_or_else(|_| "1".to_string()),
    ]);
    run(make)?;
    println!("cargo:rustc-link-search=native={}", tree.join("lib").display());
    println!("cargo:rustc-link-lib=static=attile");
    link_runtime(&tree.join("attile.pc"))
}

/// Whether a program can be run.
fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// What the archive needs besides is in the library's own words for pkg-config.
fn link_runtime(file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {}", file.display(), error))?;
    let libraries =
        text.lines().find_map(|line| line.strip_prefix("Libs:")).ok_or_else(|| format!("{} has no line of libraries", file.display()))?;
    for library in libraries.split_whitespace().filter_map(|word| word.strip_prefix("-l")).filter(|library| *library != "attile") {
        println!("cargo:rustc-link-lib=dylib={}", library);
    }
    Ok(())
}

/// In a packed crate the folder library; in the project's tree its root.
fn source(folder: &Path) -> Option<PathBuf> {
    [folder.join("library"), folder.join("../../..")].into_iter().find(|source| source.join("core/attile.map").exists())
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| format!("cargo's variable {}: {}", name, error))
}

fn run(mut command: Command) -> Result<(), String> {
    let output =
        command.output().map_err(|error| format!("cmake cannot be run ({}); the feature vendored needs CMake 3.25 or later", error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{}{}\nlibattile was not built, see above ({:?}); it needs a C and a C++20 compiler and GNU binutils",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        command
    ))
}

// SPDX-License-Identifier: Apache-2.0
//! Finds libattile: in `ATTILE_DIR` (a prefix, or the folder that holds the library), else by pkg-config. With the feature `vendored` it builds a static one by CMake instead (vendored.rs). No crate
//! is needed for any of them.
use std::path::{Path, PathBuf};
use std::process::Command;

mod vendored;

fn main() {
    println!("cargo:rerun-if-env-changed=ATTILE_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    if std::env::var_os("CARGO_FEATURE_VENDORED").is_some() {
        if let Err(why) = vendored::build() {
            eprintln!("attile-sys: {}", why);
            std::process::exit(1);
        }
        return;
    }
    println!("cargo:rustc-link-lib=dylib=attile");
    let folder = match std::env::var_os("ATTILE_DIR") {
        Some(given) => in_prefix(Path::new(&given))
            .ok_or_else(|| format!("ATTILE_DIR is {:?}, and no libattile.so lies in it, its lib or its lib/<triplet>", given)),
        None => by_pkg_config(),
    };
    match folder {
        Ok(Some(folder)) => {
            println!("cargo:rustc-link-search=native={}", folder.display());
            // Crates that depend on this one can set a run path with DEP_ATTILE_LIB.
            println!("cargo:lib={}", folder.display());
        }
        Ok(None) => {} // the linker knows the folder by itself
        // Documentation and checks need no library; a link without one fails and names attile.
        Err(why) => println!("cargo:warning=libattile was not found: {}; set ATTILE_DIR to its prefix", why),
    }
}

fn in_prefix(prefix: &Path) -> Option<Option<PathBuf>> {
    let mut candidates = vec![prefix.to_path_buf(), prefix.join("lib"), prefix.join("lib64")];
    if let Ok(entries) = std::fs::read_dir(prefix.join("lib")) {
        candidates.extend(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    candidates.into_iter().find(|folder| folder.join("libattile.so").exists()).map(Some)
}

fn by_pkg_config() -> Result<Option<PathBuf>, String> {
    let output = Command::new("pkg-config")
        .args(["--libs-only-L", "attile >= 1.0"])
        .output()
        .map_err(|error| format!("pkg-config cannot be run ({})", error))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "));
    }
    Ok(first_folder(&output.stdout))
}

/// The first `-L` of pkg-config's answer, in which a backslash takes the next byte as it is: of a folder with spaces, or beyond ASCII.
fn first_folder(answer: &[u8]) -> Option<PathBuf> {
    let (mut words, mut word) = (Vec::new(), Vec::new());
    let mut bytes = answer.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => word.extend(bytes.next()),
            _ if byte.is_ascii_whitespace() => words.push(std::mem::take(&mut word)),
            _ => word.push(byte),
        }
    }
    words.push(word);
    words.iter().find(|word| word.starts_with(b"-L")).map(|word| PathBuf::from(String::from_utf8_lossy(&word[2..]).into_owned()))
}

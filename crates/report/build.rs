//! Compiles the model to WebAssembly, for the sliders of pages, where Rust's target for that is installed
//! (`rustup target add wasm32-unknown-unknown`). So the module is always that of the sources. Without the target or the feature
//! `sliders`, and in a package without the crates beside it, there are no sliders, and pages say so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const TARGET: &str = "wasm32-unknown-unknown";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let output = PathBuf::from(variable("OUT_DIR"));
    let library = target_library();
    println!("cargo::rustc-env=WASM_LIBRARY={}", library.display());
    // rustup writes it anew when targets come and go. A path that is not there would make every build run this again.
    let components = library.ancestors().nth(2).map(|rustlib| rustlib.join("components"));
    if let Some(components) = components.filter(|components| components.exists()) {
        println!("cargo::rerun-if-changed={}", components.display());
    }
    let sources = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../what-if/Cargo.toml");
    let is_wanted = env::var_os("CARGO_FEATURE_SLIDERS").is_some() && library.exists() && sources.exists();
    let module = if is_wanted { compiled(&sources, &output) } else { Vec::new() };
    fs::write(output.join("what-if.wasm"), module).expect("the output directory can be written");
}

/// Where the standard library of the target is if it is installed.
fn target_library() -> PathBuf {
    let printed =
        Command::new(variable("RUSTC")).args(["--print", "target-libdir", "--target", TARGET]).output();
    let printed = printed.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&printed).trim().into()
}

/// The module. One that cannot be compiled is a warning: everything else can be built.
fn compiled(manifest: &Path, output: &Path) -> Vec<u8> {
    let target_dir = output.join("build");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args([
        "rustc", "--quiet", "--locked", "--release", "--lib", "--crate-type", "cdylib", "--target", TARGET,
    ]);
    cargo.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(&target_dir);
    // What the build around it does to the compiler, such as clippy or another machine's flags, is not for this one.
    for name in ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"] {
        cargo.env_remove(name);
    }
    // Folders of this machine are in the messages of panics.
    let folders = [
        (Some(manifest.with_file_name("..").join("..")), "/contend"),
        (env::var_os("CARGO_HOME").map(Into::into), "/cargo"),
    ];
    let known = folders.into_iter().filter_map(|(folder, name)| Some((folder?.canonicalize().ok()?, name)));
    let flags: Vec<_> =
        known.map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display())).collect();
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    // Small rather than fast.
    for (name, value) in
        [("OPT_LEVEL", "s"), ("LTO", "fat"), ("CODEGEN_UNITS", "1"), ("PANIC", "abort"), ("STRIP", "symbols")]
    {
        cargo.env(format!("CARGO_PROFILE_RELEASE_{name}"), value);
    }
    let built = cargo.status().is_ok_and(|status| status.success());
    let directory = target_dir.join(TARGET).join("release");
    let module = built.then(|| newest(&directory)).flatten();
    let Some(module) = module else {
        println!(
            "cargo::warning=the sliders of pages could not be compiled to {TARGET}: pages will have none"
        );
        return Vec::new();
    };
    // Beside it lies the list of all sources that it was made of.
    let sources = fs::read_to_string(module.with_extension("d")).unwrap_or_default();
    let sources = sources.split_once(": ").map_or("", |(_, sources)| sources);
    for source in sources.split_whitespace() {
        println!("cargo::rerun-if-changed={source}");
    }
    fs::read(module).unwrap_or_default()
}

/// The module in a directory; after the crate was renamed there are two.
fn newest(directory: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let modules = files.filter(|path| path.extension().is_some_and(|ending| ending == "wasm"));
    modules.max_by_key(|path| fs::metadata(path).and_then(|file| file.modified()).ok())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set; cargo sets it for build scripts"))
}

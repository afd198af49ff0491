//! Gives the shared library its name for the dynamic linker.

fn main() {
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("set by cargo");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcontend.so.{major}");
    println!("cargo:rerun-if-changed=build.rs");
}

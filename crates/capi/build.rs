//! Gives the shared library its name for the dynamic linker, and keeps it loaded once it is: threads that have locked run
//! code of it when they end.

fn main() {
    let of_version = |part: &str| std::env::var(format!("CARGO_PKG_VERSION_{part}")).expect("set by cargo");
    let (major, minor) = (of_version("MAJOR"), of_version("MINOR"));
    // Before 1.0 a minor version breaks the interface.
    let interface = if major == "0" { format!("0.{minor}") } else { major };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcontend.so.{interface}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}

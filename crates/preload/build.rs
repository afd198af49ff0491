//! Link options of the shared object.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The constructor runs before those of all other libraries, so that no lock is used before it is decided who has it.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,initfirst");
    // Thread-exit handlers and atfork handlers point into it for good.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
}

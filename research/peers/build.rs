//! Compiles a shim for each C or C++ library whose headers are there. For one that is not, the reason goes into the
//! crate, so that a benchmark can say it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shims");
    for library in ["ck", "tbb", "absl", "nsync"] {
        println!("cargo::rustc-check-cfg=cfg(peer_{library})");
    }
    #[cfg(feature = "libraries")]
    shims::compile();
}

#[cfg(feature = "libraries")]
mod shims {
    /// A library: its name here, its shim, what to link, and its package.
    struct Library {
        name: &'static str,
        shim: &'static str,
        link: &'static [&'static str],
        package: &'static str,
    }

    const LIBRARIES: [Library; 4] = [
        Library { name: "ck", shim: "ck.c", link: &[], package: "libck-dev" },
        Library { name: "tbb", shim: "tbb.cc", link: &["tbb"], package: "libtbb-dev" },
        Library { name: "absl", shim: "absl.cc", link: &["absl_synchronization"], package: "libabsl-dev" },
        Library { name: "nsync", shim: "nsync.c", link: &["nsync"], package: "libnsync-dev" },
    ];

    pub(super) fn compile() {
        for library in LIBRARIES {
            match compile_one(&library) {
                Ok(()) => println!("cargo::rustc-cfg=peer_{}", library.name),
                Err(reason) => {
                    let name = library.name.to_uppercase();
                    println!("cargo::rustc-env=CONTEND_PEER_{name}_MISSING={reason}");
                }
            }
        }
    }

    fn compile_one(library: &Library) -> Result<(), String> {
        let cpp = library.shim.ends_with(".cc");
        let mut build = cc::Build::new();
        build
            .file(format!("shims/{}", library.shim))
            .cpp(cpp)
            .opt_level(3)
            .warnings(true)
            .cargo_warnings(false);
        build.std(if cpp { "c++17" } else { "c11" });
        let output = format!("contend_peer_{}", library.name);
        build.try_compile(&output).map_err(|error| {
            // The compiler's words may be many; a variable of cargo is one line.
            let why = error.to_string();
            let why = why.lines().next().unwrap_or_default();
            let why: String = why.chars().take(120).collect();
            format!("its shim does not compile; is {} installed? ({why})", library.package)
        })?;
        for link in library.link {
            println!("cargo::rustc-link-lib=dylib={link}");
        }
        Ok(())
    }
}

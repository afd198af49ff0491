//! The C and C++ examples compile without a warning, link to both libraries, and run; so does an installed copy.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where cargo has put libcontend.a and libcontend.so: beside this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.parent().expect("a test lies in a directory").to_owned()
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{}{said}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).expect("programs print text")
}

/// The compiler for a source file, with the standard of its language and all warnings as errors.
fn compiler(source: &Path) -> Command {
    let cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let mut compiler = Command::new(if cpp { "c++" } else { "cc" });
    compiler.arg(if cpp { "-std=c++17" } else { "-std=c11" });
    compiler.args(["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"]).arg(source);
    compiler
}

/// Installs what cargo has built, with the libraries in a folder of that name.
fn install(prefix: &Path, libdir: Option<&str>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
    let mut installing = Command::new("sh");
    installing.arg(script).arg(prefix).arg(libraries());
    succeeds(installing.env_remove("LIBDIR").envs(libdir.map(|libdir| ("LIBDIR", libdir))));
}

/// Installs into a fresh directory.
fn installed() -> tempfile::TempDir {
    let prefix = tempfile::tempdir().expect("a temporary directory");
    install(prefix.path(), None);
    prefix
}

fn examples() -> [PathBuf; 2] {
    [root().join("examples/c/tour.c"), root().join("examples/cpp/tour.cpp")]
}

#[test]
fn the_examples_run_with_the_static_library() {
    let prefix = installed();
    let include = prefix.path().join("include");
    for source in examples() {
        let program = prefix.path().join("program");
        let library = prefix.path().join("lib/libcontend.a");
        succeeds(
            compiler(&source).arg("-I").arg(&include).arg(library).args(["-lm", "-ldl", "-o"]).arg(&program),
        );
        assert!(succeeds(&mut Command::new(&program)).ends_with("all counts add up\n"));
    }
}

#[test]
fn the_examples_run_with_the_shared_library_by_pkg_config() {
    let prefix = installed();
    let lib = prefix.path().join("lib");
    let flags = succeeds(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "contend"])
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig")),
    );
    for source in examples() {
        let program = prefix.path().join("program");
        succeeds(compiler(&source).args(flags.split_whitespace()).arg("-o").arg(&program));
        let said = succeeds(Command::new(&program).env("LD_LIBRARY_PATH", &lib));
        assert!(said.ends_with("all counts add up\n"));
        let needed = succeeds(Command::new("readelf").arg("--dynamic").arg(&program));
        assert!(needed.contains(&format!("[libcontend.so.{}]", interface())), "{needed}");
    }
}

/// The number of the interface in the name of the shared library: before 1.0 a minor version breaks it.
fn interface() -> &'static str {
    match env!("CARGO_PKG_VERSION_MAJOR") {
        "0" => concat!("0.", env!("CARGO_PKG_VERSION_MINOR")),
        major => major,
    }
}

/// Builds and runs the example for CMake, with what says where the package is.
fn run_the_tour_by_cmake(place: &str, build: &Path) {
    let example = root().join("examples/cmake");
    succeeds(Command::new("cmake").arg("-S").arg(example).arg("-B").arg(build).arg(place));
    succeeds(Command::new("cmake").arg("--build").arg(build));
    for kind in ["shared", "static"] {
        succeeds(&mut Command::new(build.join(format!("tour_{kind}"))));
    }
}

#[test]
fn cmake_finds_the_package() {
    let prefix = installed();
    let place = format!("-DCMAKE_PREFIX_PATH={}", prefix.path().display());
    run_the_tour_by_cmake(&place, &prefix.path().join("build"));
}

/// As Debian has it: a folder for the libraries of each architecture, and `/lib` as a link to `usr/lib`, by which CMake may come.
#[test]
fn a_folder_for_the_libraries_of_an_architecture_is_found_through_a_link() {
    let system = tempfile::tempdir().expect("a temporary directory");
    let at = |path: &str| system.path().join(path);
    install(&at("usr"), Some("lib/some-linux-gnu"));
    std::os::unix::fs::symlink("usr/lib", at("lib")).expect("a link");
    let flags = |kind: &str| {
        let mut asked = Command::new("pkg-config");
        asked.args([kind, "contend"]).env("PKG_CONFIG_PATH", at("usr/lib/some-linux-gnu/pkgconfig"));
        PathBuf::from(&succeeds(&mut asked).trim()[2..]) // -I or -L
    };
    assert!(flags("--cflags-only-I").join("contend.h").exists());
    assert!(flags("--libs-only-L").join("libcontend.a").exists());
    let config = at("lib/some-linux-gnu/cmake/contend");
    run_the_tour_by_cmake(&format!("-Dcontend_DIR={}", config.display()), &at("build"));
}

/// What `install` builds holds the locks and what they reach, not the standard library: a program that is linked to it
/// statically gets no sockets and no name resolution, which glibc cannot do statically.
#[test]
fn what_is_installed_is_small() {
    const MOST_STATIC_BYTES: u64 = 4 << 20;
    const MOST_SHARED_BYTES: u64 = 1 << 20;
    let prefix = tempfile::tempdir().expect("a temporary directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
    succeeds(Command::new("sh").arg(script).arg(prefix.path()).env("CARGO_TARGET_DIR", target));
    let lib = prefix.path().join("lib");
    let bytes = |name: &str| std::fs::metadata(lib.join(name)).expect("it is installed").len();
    let (archive, shared) = (bytes("libcontend.a"), bytes("libcontend.so"));
    assert!(archive < MOST_STATIC_BYTES, "libcontend.a has {archive} bytes");
    assert!(shared < MOST_SHARED_BYTES, "libcontend.so has {shared} bytes");
    let needed = succeeds(Command::new("nm").arg("--undefined-only").arg(lib.join("libcontend.a")));
    for symbol in needed.lines().filter_map(|line| line.split_whitespace().last()) {
        assert!(!["getaddrinfo", "socket", "connect", "execvp"].contains(&symbol), "the locks need {symbol}");
    }
    let exported =
        succeeds(Command::new("nm").args(["--dynamic", "--defined-only"]).arg(lib.join("libcontend.so")));
    for symbol in exported.lines().filter_map(|line| line.split_whitespace().last()) {
        assert!(symbol.starts_with("contend_"), "{symbol} is exported");
    }
    let program = prefix.path().join("program");
    let [c, _] = examples();
    let include = prefix.path().join("include");
    let linked = ["-static", "-o"];
    succeeds(compiler(&c).arg("-I").arg(include).arg(lib.join("libcontend.a")).args(linked).arg(&program));
    assert!(succeeds(&mut Command::new(&program)).ends_with("all counts add up\n"));
}

/// The fenced blocks of a text, each with its language.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut blocks: Vec<(&str, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match (line.strip_prefix("```"), inside) {
            (Some(language), false) => blocks.push((language, String::new())),
            (Some(_), true) => {}
            (None, true) => blocks.last_mut().expect("it has begun").1 += &format!("{line}\n"),
            (None, false) => continue,
        }
        inside ^= line.starts_with("```");
    }
    blocks
}

/// Does what docs/library.md says, in a fresh directory beside a clone: writes each program to the file that its first line
/// names, and runs each command.
#[test]
fn the_quick_starts_of_the_library_run() {
    let library = std::fs::read_to_string(root().join("docs/library.md")).expect("the document is there");
    let place = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| place.path().join(name);
    std::os::unix::fs::symlink(root().canonicalize().expect("it is there"), at("contend")).expect("a link");
    // So that cargo takes what this workspace has, and needs no network.
    std::fs::create_dir(at("hits")).expect("a directory");
    std::fs::copy(root().join("Cargo.lock"), at("hits/Cargo.lock")).expect("a copy");
    let mut said = String::new();
    for (language, text) in blocks(&library) {
        if language == "sh" {
            let mut shell = Command::new("sh");
            shell.arg("-euc").arg(&text).current_dir(place.path()).env("CARGO_NET_OFFLINE", "true");
            shell.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed"));
            said += &succeeds(&mut shell);
        } else {
            let first = text.lines().next().expect("a program has lines");
            let file = first.trim_matches(['/', '*', ' ']);
            std::fs::write(at(file), &text).unwrap_or_else(|error| panic!("{language}: {file}: {error}"));
        }
    }
    assert_eq!(said, "4000 hits by 4 threads\n".repeat(3));
}

#[test]
fn one_unlock_serves_both_sides() {
    let prefix = installed();
    let program = prefix.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sides.c");
    let library = prefix.path().join("lib/libcontend.a");
    let include = prefix.path().join("include");
    succeeds(compiler(&source).arg("-I").arg(include).arg(library).args(["-lm", "-ldl", "-o"]).arg(&program));
    assert_eq!(succeeds(&mut Command::new(&program)), "either side\n");
}

#[test]
fn a_thread_may_end_after_the_library_was_closed() {
    let prefix = installed();
    let program = prefix.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unload.c");
    let include = prefix.path().join("include");
    succeeds(compiler(&source).arg("-I").arg(include).args(["-ldl", "-o"]).arg(&program));
    let library = prefix.path().join("lib/libcontend.so");
    assert_eq!(succeeds(Command::new(&program).arg(library)), "the thread ended\n");
}

#[test]
fn the_inheriting_mutex_says_what_it_denies() {
    runs_linked_statically("tests/rt.cpp");
}

#[test]
fn types_of_cxx_wait_as_those_of_its_library_do() {
    runs_linked_statically("tests/std.cpp");
}

fn runs_linked_statically(source: &str) {
    let prefix = installed();
    let program = prefix.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let library = prefix.path().join("lib/libcontend.a");
    let include = prefix.path().join("include");
    succeeds(compiler(&source).arg("-I").arg(include).arg(library).args(["-lm", "-ldl", "-o"]).arg(&program));
    succeeds(&mut Command::new(&program));
}

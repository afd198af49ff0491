//! The `contend` command.

fn main() -> std::process::ExitCode {
    contend::main()
}

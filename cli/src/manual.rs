//! `contend completions` and `contend man`: what a package of the command installs beside it.

use anyhow::Context as _;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the completions of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend completions bash > /etc/bash_completion.d/contend
  contend completions zsh > ~/.zfunc/_contend")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write the manual pages, one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend man /usr/local/share/man/man1
  contend man /tmp/man && man /tmp/man/contend-profile.1")]
pub(crate) struct ManArgs {
    /// The folder to write them into; made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs `contend completions`.
pub(crate) fn completions<C: CommandFactory>(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    clap_complete::generate(args.shell, &mut C::command(), "contend", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}

/// Runs `contend man`.
pub(crate) fn man<C: CommandFactory>(args: &ManArgs) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot make the folder {}", args.folder.display()))?;
    clap_mangen::generate_to(C::command(), &args.folder)
        .with_context(|| format!("cannot write manual pages into {}", args.folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

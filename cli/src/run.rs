//! `contend run`: a program with other locks.

use crate::PRELOAD;
use anyhow::Context as _;
use launch::places::{Places, ensure_few};
use launch::supervise::{Held, Supervised, end_as, leave_streams_to_program};
use launch::unreached::Lookout;
use launch::{Launch, Only, Swapped, Swaps, parse_site};
use profile::tally::SharedTally;
use pthread::{environment, site::LIMIT};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run an unmodified program with other locks.
///
/// Every mutex, reader-writer lock and spin lock of the pthread functions that the named lock can replace is that lock; the
/// others stay the C library's, and so do robust, priority-inheriting, priority-protected and process-shared ones. Programs that it
/// starts are run in the same way. Signals sent to the command go to the program, and the command ends as the program does; but with 3
/// if that succeeded and a lock of --only was not swapped. A swap that changed nothing is said at the end, and so are processes
/// that it did not reach.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend run --lock mcs -- ./server --threads 64
  contend run --lock mutex=ticket,rwlock=rw -- CMD
  contend run --lock rwlock=rw:writers -- CMD      # readers wait for writers that wait
  contend run --only 'cache_lock=mcs' -- CMD       # one static lock, or the locks that a function makes or takes
  contend run --lock ticket --pure -- CMD          # really spin, as on a machine with a core for each thread")]
pub(crate) struct Args {
    /// A lock of `contend locks` for every kind of object that it can replace, or one for each kind, as KIND=LOCK. After the name of a
    /// reader-writer lock, `:writers` makes readers wait for writers that wait, unless they read already; without it
    /// that is so for the objects whose attribute asks for it. A program in which a reader waits for a reader may hang with it
    #[arg(long, value_name = "LOCK,…", value_delimiter = ',', value_parser = lock)]
    lock: Vec<String>,

    /// A lock for one site, as `contend profile` prints its name: a static lock's symbol, or the function that makes or
    /// takes the lock; with +OFFSET or @STACK where a profile prints one. All others stay the C library's, or what --lock says
    #[arg(long, value_name = "SITE=LOCK,…", value_parser = sites)]
    only: Vec<Sites>,

    /// Where the names of --only come from: a lock that nothing initialises is known by all calls that the profile saw take it
    /// [default: the latest profile of the program in the current folder, if there is one]
    #[arg(long, value_name = "FILE", requires = "only")]
    profile: Option<PathBuf>,

    /// Let waits that spin do so for ever, instead of yielding and then sleeping after a while. With more threads than
    /// cores a program may not end
    #[arg(long)]
    pure: bool,

    /// Have the holders of swapped locks ask the kernel not to take their core away for a few microseconds, which needs Linux 7.0 and glibc
    /// 2.41. Elsewhere a line on standard error says so, and the program runs without
    #[arg(long)]
    time_slice: bool,

    /// Say at the end how many locks were swapped, how many stayed the C library's, and why
    #[arg(short, long)]
    verbose: bool,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The exit code where the program succeeded and a lock of `--only` was not swapped.
const NOT_SWAPPED: u8 = 3;

/// Sites with the lock of each.
#[derive(Debug, Clone)]
struct Sites(Vec<Only>);

/// Reads a list of sites. A comma that follows no lock belongs to a site's name, as in `Cache<int, int>::get`.
fn sites(text: &str) -> Result<Sites, String> {
    let is_lock = |name: &str| {
        let of_a_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | ':');
        !name.is_empty() && name.chars().all(of_a_name)
    };
    let mut sites = Vec::new();
    let mut start = 0;
    for (comma, _) in text.match_indices(',') {
        let site = &text[start..comma];
        if site.rsplit_once('=').is_some_and(|(_, name)| is_lock(name)) {
            sites.push(parse_site(site)?);
            start = comma + 1;
        }
    }
    sites.push(parse_site(&text[start..])?);
    Ok(Sites(sites))
}

/// The sites of all lists, as long as the preload library has space for them.
fn all_sites(lists: Vec<Sites>) -> anyhow::Result<Vec<Only>> {
    let sites: Vec<_> = lists.into_iter().flat_map(|Sites(sites)| sites).collect();
    session::ensure_usage!(
        sites.len() <= LIMIT,
        "--only takes up to {LIMIT} sites, and is given {}",
        sites.len()
    );
    Ok(sites)
}

fn lock(text: &str) -> Result<String, String> {
    Swaps::parse(text).map(|_| text.to_owned())
}

/// A site is swapped by one lock.
fn ensure_one_lock_each(only: &[Only]) -> anyhow::Result<()> {
    let other = |(at, one): (usize, &Only)| {
        only[..at].iter().find(|o| o.site == one.site && o.lock != one.lock).cloned()
    };
    let twice = only.iter().enumerate().find_map(|(at, one)| Some((other((at, one))?, one)));
    session::ensure_usage!(
        twice.is_none(),
        "--only: two locks for {}: write one of them",
        twice.map_or_else(String::new, |(first, second)| format!(
            "`{}`, {} and {}",
            report::text::printable(&second.site),
            first.lock,
            second.lock
        ))
    );
    Ok(())
}

/// The locks of the profile in which the sites of `--only` are looked for.
fn places_of(
    named: Option<&Path>,
    program: &OsStr,
    arguments: &[OsString],
) -> anyhow::Result<Option<Places>> {
    let Some(path) = named else { return Ok(Places::in_current_folder(program)) };
    let places = Places::read(path)?;
    places.ensure_of(program, arguments)?;
    Ok(Some(places))
}

/// Runs `contend run`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (program, arguments) = args.command.split_first().context("no program was given after `--`")?;
    session::ensure_usage!(
        !args.lock.is_empty() || !args.only.is_empty(),
        "say which locks the program runs with: `--lock LOCK` for all of them, `--only SITE=LOCK` for one; `contend locks` lists what \
         there is"
    );
    let mut only = all_sites(args.only)?;
    ensure_one_lock_each(&only)?;
    let named = args.profile.as_deref();
    let mut places = if only.is_empty() { None } else { places_of(named, program, arguments)? };
    // A profile that the user has not named is taken where it helps.
    match places.as_ref().map(|places| places.find(&mut only)) {
        Some(Err(_)) if named.is_none() => places = None,
        Some(found) => found?,
        None => {}
    }
    if let Some(places) = &places {
        places.ensure_fits(&only)?;
    }
    ensure_few(&only)?;
    let chosen = if args.lock.is_empty() {
        Swaps::default()
    } else {
        Swaps::parse(&args.lock.join(",")).map_err(anyhow::Error::msg)?
    };
    let swaps = Swaps { only, pure: args.pure, time_slice: args.time_slice, ..chosen };
    let tally = SharedTally::new(args.verbose).context("cannot make memory to count in")?;
    let mut launch = Launch::new(PRELOAD, program, arguments).swaps(swaps.clone());
    if !swaps.is_empty() || args.verbose {
        launch = launch.counted(&tally);
    }
    if args.verbose {
        launch = launch.env(environment::VERBOSE, "1");
    }
    let mut program = Supervised::start(&mut launch.command()?, &Held::begin())?;
    let lookout = if swaps.is_empty() { None } else { Lookout::over(program.id(), 1) };
    leave_streams_to_program();
    let status = program.wait()?;
    let unreached = lookout.and_then(Lookout::finish);
    if !swaps.is_empty() || args.verbose {
        let swapped = Swapped::read(&tally);
        tell(&swapped, &swaps, places.as_ref(), unreached.as_deref(), args.verbose);
        if status.success() && swapped.missed(&swaps) {
            return Ok(ExitCode::from(NOT_SWAPPED));
        }
    }
    Ok(end_as(status))
}

/// Says on standard error what became of the program's locks, if that may surprise, or if it was asked for.
fn tell(swapped: &Swapped, swaps: &Swaps, places: Option<&Places>, unreached: Option<&str>, verbose: bool) {
    let mut lines = swapped.warnings(swaps, places, unreached.is_none());
    if let Some(unreached) = unreached {
        lines.push(format!("not reached, so that glibc's locks were used: {unreached}"));
    }
    if verbose {
        let plural = if swapped.processes == 1 { "" } else { "s" };
        lines.push(format!("{} process image{plural}", swapped.processes));
        lines.extend(swapped.lines(swaps));
    }
    for line in lines {
        // Standard error may have no reader; the program's end is passed on all the same.
        let _ = writeln!(std::io::stderr(), "contend: {}", ::report::text::printable(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_a_list_whose_names_may_have_commas() {
        let read = |text| {
            let Sites(sites) = sites(text).unwrap();
            sites.into_iter().map(|only| format!("{} {}", only.site, only.lock)).collect::<Vec<_>>()
        };
        assert_eq!(read("cache=mcs"), ["cache mcs"]);
        assert_eq!(read("cache=mcs,worker@00beef=rw:writers"), ["cache mcs", "worker@00beef rw:writers"]);
        assert_eq!(
            read("Cache<int, int>::get=mcs,Cache<a, b>::operator==ticket"),
            ["Cache<int, int>::get mcs", "Cache<a, b>::operator= ticket"]
        );
        for wrong in ["", "cache", "cache=mcs,", "cache=mcs,other", "cache=nonsense", "=mcs"] {
            assert!(sites(wrong).is_err(), "{wrong}");
        }
    }
    #[test]
    fn a_site_has_one_lock() {
        let all = |text| all_sites(vec![sites(text).unwrap()]).unwrap();
        assert!(ensure_one_lock_each(&all("m=mcs,n=mcs,m=mcs")).is_ok());
        let error = ensure_one_lock_each(&all("m=mcs,n=mcs,m=ticket")).unwrap_err().to_string();
        assert!(error.contains("two locks for `m`, mcs and ticket"), "{error}");
    }

    #[test]
    fn sites_are_counted_over_all_lists() {
        let list = |count: usize| sites(&vec!["cache=mcs"; count].join(",")).unwrap();
        assert_eq!(all_sites(vec![list(LIMIT)]).unwrap().len(), LIMIT);
        for too_many in [vec![list(LIMIT + 1)], vec![list(LIMIT - 1), list(2)]] {
            let error = all_sites(too_many).unwrap_err();
            assert!(error.is::<session::usage::UsageError>(), "{error}");
        }
    }
}

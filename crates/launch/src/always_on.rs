//! Recording without an end, as of a server in use: the rate of timed pairs follows what the program has time for, and what happened
//! in each interval is a profile of its own, of which the oldest make room for the newest.

use super::record::{nanoseconds, run_values};
use super::tasks::{Sight, Tasks};
use profile::format::{MAGIC, PAGE};
use profile::session::{Counted, Look, PackedLook, Recording};
use session::in_use;
use session::noise::{Watch, cpu_of};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The part of the program's time on cores that recording is to take at most.
const MOST: f64 = 0.01;
/// What pairs may take of it. The launcher's own looks take less than the rest.
const BUDGET: f64 = 0.8 * MOST;
/// What timing pairs may take of it, where counting them takes it all.
const LEFT_FOR_TIMES: f64 = 0.1;
/// One pair in so many is timed at most, and one in so many at the start, when nothing is known of the program.
const MOST_OFTEN: u32 = 2;
const AT_FIRST: u32 = 64;
/// One pair in so many is timed at least.
const MOST_SELDOM: u32 = 1 << 16;
/// Bytes of an allocation that is given to the system when it is freed.
const LARGE: libc::c_int = 1 << 20;
/// Between two looks at what recording costs: at first, and later.
const LOOKS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// How a program is recorded that runs on.
#[derive(Debug, Clone, Copy)]
pub struct AlwaysOn {
    /// What one of the profiles of intervals tells of.
    pub interval: Duration,
    /// Bytes that the profiles of intervals have together.
    pub space: u64,
    /// Whether the rate of timed pairs follows what recording costs.
    pub finds_rate: bool,
}

impl AlwaysOn {
    /// One pair in so many is timed at the start, where the rate is found.
    pub const AT_FIRST: u32 = AT_FIRST;

    /// The program's threads and processes are looked at so many times less often than in a profile that ends.
    pub(crate) const LESS_OFTEN: u32 = 10;
}

/// Looks at a recording that goes on, and keeps what it saw.
pub(crate) struct Keeper<'r> {
    recording: &'r Recording,
    plan: AlwaysOn,
    begun: Begun,
    rate: Rate,
    kept: Kept,
    /// Time on cores in the intervals that are over, ns.
    told_ns: u64,
    /// The launcher's earlier children's.
    cpu_before: Duration,
    /// Why an interval could not be kept, the first one.
    trouble: Option<String>,
}

/// The interval that goes on.
struct Begun {
    look: PackedLook,
    tasks: Sight,
    at: Instant,
    time: SystemTime,
    noise: Watch,
}

/// What a [`Keeper`] needs, found before the program starts, which an error here would end.
pub(crate) struct Prepared {
    plan: AlwaysOn,
    look: Look,
    kept: Kept,
    cpu_before: Duration,
}

impl Prepared {
    /// # Errors
    /// The recording cannot be read, or its folder cannot.
    pub(crate) fn of(recording: &Recording, plan: AlwaysOn) -> io::Result<Self> {
        let (look, kept) = (recording.look()?, Kept::of(recording.path(), plan.space)?);
        Ok(Self { plan, look, kept, cpu_before: cpu_of(libc::RUSAGE_CHILDREN) })
    }
}

impl<'r> Keeper<'r> {
    /// Begins the first interval: the program has started.
    pub(crate) fn new(recording: &'r Recording, prepared: Prepared) -> Self {
        let Prepared { plan, look, kept, cpu_before } = prepared;
        // SAFETY: has no preconditions. What allocations of a look's length leave goes to the system at once: the C library would keep it
        // from the second one on.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
        let (begun, rate) = (Begun::now(&look, &Sight::new()), Rate::new());
        Self { recording, plan, begun, rate, kept, told_ns: 0, cpu_before, trouble: None }
    }

    /// Does what is due after a look at the program's threads; returns when to look again at the latest.
    pub(crate) fn tend(&mut self, tasks: &mut Tasks, pause: Duration) -> Duration {
        if self.rate.is_due()
            && let Ok(look) = self.recording.look()
        {
            let period = self.rate.look(look.counted(), tasks);
            if self.plan.finds_rate {
                self.recording.sample_one_in(period);
            }
        }
        if self.begun.at.elapsed() >= self.plan.interval {
            self.end_interval(tasks, None);
            let seen_ns = ran_ns(tasks);
            tasks.forget_gone();
            self.begun.tasks = tasks.sight().clone();
            self.rate.ran_ns -= seen_ns - ran_ns(tasks);
        }
        let left = self.plan.interval.saturating_sub(self.begun.at.elapsed()).min(self.rate.left());
        (pause * AlwaysOn::LESS_OFTEN).min(left.max(pause))
    }

    /// Keeps the interval that goes on and begins the next one. How long the program ran in it is known at its end alone; until then,
    /// how long its threads were seen to.
    fn end_interval(&mut self, tasks: &Tasks, cpu_ns: Option<u64>) {
        let look = match self.recording.look() {
            Ok(look) => look,
            Err(error) => return self.complain(&error),
        };
        // The next one begins where this one ends.
        let next = Begun::now(&look, tasks.sight());
        let begun = std::mem::replace(&mut self.begun, next);
        let done = tasks.since(&begun.tasks);
        let elapsed = self.begun.at - begun.at;
        let seen_ns = done.iter().map(|task| task.running_ns).sum();
        let mut run = run_values(elapsed, seen_ns, begun.noise.stop().stolen_share.unwrap_or(0.0));
        if let Some(left_ns) = cpu_ns {
            // Of processes that came and went between two looks, nothing was told before the end.
            run.cpu_ns = left_ns.min(run.elapsed_ns.saturating_mul(run.cores));
        }
        self.told_ns += run.cpu_ns;
        let before: Vec<_> = begun.tasks.values().copied().collect();
        let earlier = begun.look.unpacked();
        if let Err(error) = self.kept.keep(&look.since(&earlier, &run, &done, &before), begun.time) {
            self.complain(&error);
        }
    }

    fn complain(&mut self, error: &io::Error) {
        self.trouble.get_or_insert_with(|| {
            format!("an interval is missing: {}: {error}", self.kept.folder.display())
        });
    }

    /// The program has ended. Returns what the user should know.
    pub(crate) fn finish(mut self, tasks: &Tasks) -> Vec<String> {
        let cpu = cpu_of(libc::RUSAGE_CHILDREN).saturating_sub(self.cpu_before);
        let cpu_ns = nanoseconds(cpu);
        self.end_interval(tasks, Some(cpu_ns.saturating_sub(self.told_ns)));
        let counted = self.begun.look.unpacked().counted();
        let rate = self.rate.period;
        let _ = self.rate.look(counted, tasks);
        (self.rate.period, self.rate.of_ns) = (rate, cpu_ns as f64);
        if self.plan.finds_rate {
            // The whole profile tells of all the rates that there were.
            self.recording.sample_one_in(counted.period());
        }
        let mut remarks = self.rate.remarks(self.plan.finds_rate);
        if self.kept.written > 0 {
            let gone = match self.kept.written.saturating_sub(self.kept.files.len()) {
                0 => String::new(),
                gone => format!(", of which the oldest {gone} made room for the others"),
            };
            remarks.push(format!(
                "profiles of intervals: {}, {}-*.contend{gone}",
                self.kept.written,
                self.kept.folder.join(&self.kept.stem).display()
            ));
        }
        remarks.extend(self.trouble);
        remarks
    }
}

impl Begun {
    /// Begins one at this look, which has just been taken.
    fn now(look: &Look, tasks: &Sight) -> Self {
        let (at, time, noise) = (Instant::now(), SystemTime::now(), Watch::start());
        Self { look: look.packed(), tasks: tasks.clone(), at, time, noise }
    }
}

/// How long the threads that were seen ran so far.
fn ran_ns(tasks: &Tasks) -> f64 {
    tasks.sight().values().map(|task| task.running_ns as f64).sum()
}

/// How often pairs are timed, and what recording costs.
struct Rate {
    counted: Counted,
    /// How long the threads that are seen still had run then.
    ran_ns: f64,
    pause: Duration,
    looked: Instant,
    period: u32,
    /// All so far: of counting, of timing, of making records, and time on cores; ns.
    counting_ns: f64,
    timing_ns: f64,
    records_ns: f64,
    of_ns: f64,
}

impl Rate {
    fn new() -> Self {
        Self {
            counted: Counted::default(),
            ran_ns: 0.0,
            pause: LOOKS[0],
            looked: Instant::now(),
            period: AT_FIRST,
            counting_ns: 0.0,
            timing_ns: 0.0,
            records_ns: 0.0,
            of_ns: 0.0,
        }
    }

    fn left(&self) -> Duration {
        self.pause.saturating_sub(self.looked.elapsed())
    }

    fn is_due(&self) -> bool {
        self.left().is_zero()
    }

    /// Takes in what was counted up to now; returns of how many pairs one is to be timed.
    fn look(&mut self, counted: Counted, tasks: &Tasks) -> u32 {
        let now_ns = ran_ns(tasks);
        let ran_ns = now_ns - self.ran_ns;
        let acquisitions = counted.acquisitions.saturating_sub(self.counted.acquisitions) as f64;
        let timed = counted.timed.saturating_sub(self.counted.timed) as f64;
        let more_ns = (counted.timed_ns - counted.untimed_ns).max(0.0);
        if ran_ns > 0.0 {
            self.period = period(acquisitions, ran_ns, counted.untimed_ns, more_ns);
        }
        self.counting_ns += acquisitions * counted.untimed_ns;
        self.timing_ns += timed * more_ns;
        self.records_ns = counted.records_ns;
        self.of_ns += ran_ns;
        (self.counted, self.ran_ns, self.looked) = (counted, now_ns, Instant::now());
        self.pause = (self.pause * 2).min(LOOKS[1]);
        self.period
    }

    fn remarks(&self, found: bool) -> Vec<String> {
        if self.of_ns <= 0.0 {
            return Vec::new();
        }
        let percent = |ns: f64| 100.0 * ns / self.of_ns;
        let counting = percent(self.counting_ns);
        let all = percent(self.counting_ns + self.timing_ns + self.records_ns);
        let mut remarks = Vec::new();
        if found {
            remarks.push(format!("at the end one pair in {} was timed", self.period));
        }
        remarks.push(format!(
            "recording took {all:.2} % of the program's time on cores{}",
            if counting > 100.0 * MOST {
                format!(", more than {:.0} %, because counting alone took {counting:.2} %", 100.0 * MOST)
            } else {
                String::new()
            }
        ));
        remarks
    }
}

/// Of how many pairs one may be timed, so that recording stays within its budget: each costs `counting_ns`, and `timing_ns` more where
/// it is timed.
fn period(pairs: f64, ran_ns: f64, counting_ns: f64, timing_ns: f64) -> u32 {
    let budget_ns = BUDGET * ran_ns;
    let left_ns = (budget_ns - pairs * counting_ns).max(LEFT_FOR_TIMES * budget_ns);
    (pairs * timing_ns / left_ns).ceil().clamp(f64::from(MOST_OFTEN), f64::from(MOST_SELDOM)) as u32
}

/// Profiles of intervals, the oldest first.
struct Kept {
    folder: PathBuf,
    /// What their names begin with.
    stem: PathBuf,
    files: VecDeque<(PathBuf, u64)>,
    bytes: u64,
    space: u64,
    written: usize,
}

impl Kept {
    /// Those that are there already, of earlier recordings to this file, are the oldest. What an earlier one was writing when it was
    /// killed is removed.
    fn of(recording: &Path, space: u64) -> io::Result<Self> {
        let folder = recording.parent().unwrap_or(Path::new("/")).to_owned();
        let stem = PathBuf::from(recording.file_stem().unwrap_or_default());
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&folder)?.flatten() {
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file
                && is_unfinished(&entry.file_name(), &stem)
                && let Some(_marked) = in_use::left_behind(&entry.path())
            {
                let _ = std::fs::remove_file(entry.path()); // else by the next recording
            } else if is_file && is_of_interval(&entry.file_name(), &stem) && is_profile(&entry.path()) {
                files.push((entry.path(), entry.metadata().map_or(0, |data| on_disk(&data))));
            }
        }
        files.sort_unstable();
        let bytes = files.iter().map(|(_, bytes)| bytes).sum();
        Ok(Self { folder, stem, files: files.into(), bytes, space, written: 0 })
    }

    /// A file for a profile that is not finished: one of a name that [`is_unfinished`] knows.
    fn fresh(&self) -> io::Result<tempfile::NamedTempFile> {
        let mut prefix = OsString::from(".");
        prefix.push(&self.stem);
        prefix.push("-");
        tempfile::Builder::new().prefix(&prefix).suffix(UNFINISHED).tempfile_in(&self.folder)
    }

    /// The name of the profile of an interval that began then. Where there is one of that second, of an earlier recording or of a clock
    /// that was set back, it is that of the next second without one.
    fn free_name(&self, began: SystemTime) -> PathBuf {
        let at = |later| {
            let mut name = self.stem.clone().into_os_string();
            name.push(format!("-{}.contend", stamp(began + Duration::from_secs(later))));
            self.folder.join(name)
        };
        let is_free = |path: &PathBuf| std::fs::symlink_metadata(path).is_err();
        (0..).map(at).find(is_free).expect("there is always another second")
    }

    /// Writes the profile of an interval that began then, and removes as many of the oldest as have no room beside it.
    fn keep(&mut self, profile: &[u8], began: SystemTime) -> io::Result<()> {
        let path = self.free_name(began);
        let file = self.fresh()?;
        in_use::mark(file.as_file());
        write_sparsely(file.as_file(), profile)?;
        let length = on_disk(&file.as_file().metadata()?);
        file.persist(&path).map_err(|error| error.error)?;
        self.written += 1;
        self.bytes += length;
        self.files.push_back((path, length));
        while self.bytes > self.space && self.files.len() > 1 {
            let Some((oldest, length)) = self.files.pop_front() else { break };
            self.bytes -= length;
            match std::fs::remove_file(oldest) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Leaves out what is zeros, where the file system allows.
fn write_sparsely(file: &File, bytes: &[u8]) -> io::Result<()> {
    file.set_len(bytes.len() as u64)?;
    for (i, page) in (0..).zip(bytes.chunks(PAGE as usize)) {
        if page.iter().any(|&byte| byte != 0) {
            file.write_all_at(page, i * PAGE)?;
        }
    }
    Ok(())
}

/// Bytes that a file takes on the disk; its length where the file system does not tell yet.
fn on_disk(data: &Metadata) -> u64 {
    match data.blocks() {
        0 => data.len(),
        blocks => blocks * 512,
    }
}

/// A time as it is in names: `20261127T164000Z`.
fn stamp(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string().replace(['-', ':'], "")
}

fn is_of_interval(name: &OsStr, stem: &Path) -> bool {
    let rest = name.as_bytes().strip_prefix(stem.as_os_str().as_bytes());
    let stamp = rest.and_then(|rest| rest.strip_prefix(b"-")?.strip_suffix(b".contend"));
    stamp.is_some_and(|stamp| {
        let form = b"ddddddddTddddddZ";
        let fits =
            |(&byte, &form): (&u8, &u8)| if form == b'd' { byte.is_ascii_digit() } else { byte == form };
        stamp.len() == form.len() && stamp.iter().zip(form).all(fits)
    })
}

/// What the name of a profile ends with that is not finished.
const UNFINISHED: &str = ".unfinished";

/// Whether it is the name of an unfinished profile of this stem.
fn is_unfinished(name: &OsStr, stem: &Path) -> bool {
    let rest = name.as_bytes().strip_prefix(b".");
    let rest = rest.and_then(|rest| rest.strip_prefix(stem.as_os_str().as_bytes())?.strip_prefix(b"-"));
    let random = rest.and_then(|rest| rest.strip_suffix(UNFINISHED.as_bytes()));
    random.is_some_and(|random| !random.is_empty() && random.iter().all(u8::is_ascii_alphanumeric))
}

fn is_profile(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    profile::read::files::open(path)
        .is_some_and(|mut file| file.read_exact(&mut begin).is_ok() && begin == MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_stays_within_a_part_of_the_programs_time() {
        // A million pairs in a second on cores: counting costs 5 ms, and 3 ms are left for those that are timed.
        let one_in = period(1e6, 1e9, 5.0, 20.0);
        assert_eq!(one_in, 7);
        let cost = 1e6 * 5.0 + 1e6 / f64::from(one_in) * 20.0;
        assert!(cost <= BUDGET * 1e9);
        assert_eq!(period(10.0, 1e9, 5.0, 20.0), MOST_OFTEN);
        // Counting alone is past the budget: a tenth of it is left for times.
        assert_eq!(period(1e7, 1e9, 5.0, 20.0), 250);
        assert_eq!(period(1e12, 1e9, 5.0, 20.0), MOST_SELDOM);
    }

    #[test]
    fn what_a_killed_recording_was_writing_is_removed_by_the_next_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let recording = folder.path().join("p.contend");
        let kept = Kept::of(&recording, 1 << 20).expect("the folder is there");
        let make_old = |file: &File| {
            let long_ago = SystemTime::now() - Duration::from_secs(3_600);
            file.set_modified(long_ago).expect("its time can be set");
        };
        // Who is killed does not come to remove it.
        let (killed, _) = kept.fresh().expect("space on the disk").keep().expect("it stays");
        make_old(&killed);
        drop(killed);
        let used = kept.fresh().expect("space on the disk");
        make_old(used.as_file());
        in_use::mark(used.as_file());
        for name in [".tmpAbCdEf", ".p-2-AbCdEf.unfinished", ".p-.unfinished", "p-AbCdEf.unfinished"] {
            make_old(&File::create(folder.path().join(name)).expect("space on the disk"));
        }
        Kept::of(&recording, 1 << 20).expect("the folder is there");
        let names = std::fs::read_dir(folder.path()).expect("the folder").flatten();
        let left = names.map(|entry| entry.path()).collect::<Vec<_>>();
        assert!(left.len() == 5 && left.iter().any(|path| path == used.path()), "{left:?}");
    }

    #[test]
    fn an_interval_replaces_none_of_the_same_second() {
        let folder = tempfile::tempdir().expect("a folder");
        let recording = folder.path().join("p.contend");
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000);
        let page = MAGIC.repeat(PAGE as usize / MAGIC.len());
        for others in 0..3 {
            // A service that ends soon after its start is started anew.
            let mut kept = Kept::of(&recording, 1 << 20).expect("the folder is there");
            assert_eq!(kept.files.len(), others);
            kept.keep(&page, began).expect("it is kept");
        }
        let last = folder.path().join("p-20260921T141322Z.contend");
        assert!(last.exists() && std::fs::read_dir(folder.path()).expect("the folder").count() == 3);
    }

    #[test]
    fn the_oldest_intervals_make_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = || {
            let all = std::fs::read_dir(folder.path()).expect("the folder").flatten();
            let mut names: Vec<_> = all.map(|entry| entry.file_name().into_string().expect("text")).collect();
            names.sort_unstable();
            names
        };
        let page = MAGIC.repeat(PAGE as usize / MAGIC.len());
        for name in
            ["p-20260101T000000Z.contend", "q-20260101T000000Z.contend", "p-2-20260101T000000Z.contend"]
        {
            std::fs::write(folder.path().join(name), &page).expect("it is written");
        }
        std::fs::write(folder.path().join("p-20260102T000000Z.contend"), "a letter").expect("it is written");
        let mut kept = Kept::of(&folder.path().join("p.contend"), 3 << 12).expect("the folder is there");
        assert_eq!(kept.files.len(), 1);
        for seconds in [1_790_000_000, 1_790_000_600, 1_790_001_200] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            kept.keep(&page, time).expect("it is kept");
        }
        let left = [
            "p-2-20260101T000000Z.contend", "p-20260102T000000Z.contend", "p-20260921T141320Z.contend",
            "p-20260921T142320Z.contend", "p-20260921T143320Z.contend", "q-20260101T000000Z.contend",
        ];
        assert_eq!(names(), left, "of a page each, three have room in three");
        assert_eq!(kept.written, 3);
    }
}

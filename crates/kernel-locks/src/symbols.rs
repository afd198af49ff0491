//! Names of the kernel's functions and variables, from `/proc/kallsyms`.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

/// No function or variable is longer: what lies farther behind a symbol is something else.
const LONGEST: u64 = 1 << 20;

/// The kernel's symbols, and those of its modules.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    /// By address.
    all: Vec<Entry>,
    /// The names, one behind the other.
    names: String,
    /// Whether all variables are there: kernels without CONFIG_KALLSYMS_ALL list functions and hardly anything else.
    lists_variables: bool,
    /// The code of the locks themselves, and of what sleeps.
    lock_code: Vec<Range<u64>>,
}

#[derive(Debug, Clone)]
struct Entry {
    address: u64,
    /// In `names`.
    name: Range<u32>,
    is_code: bool,
}

/// Functions that only take locks, or tell of it, outside of the sections for those: the beginnings of their names.
const LOCK_FUNCTIONS: [&str; 14] = [
    "__traceiter_contention", "trace_contention", "perf_trace_contention", "_raw_", "do_raw_", "queued_",
    "native_queued_", "__pv_queued_", "osq_", "raw_spin_rq_lock", "lockref_", "rt_mutex", "ww_mutex",
    "percpu_down",
];

/// Functions of the scheduler that lie among those that take locks, and take some for themselves.
const SCHEDULER: [&str; 5] = ["__schedule", "schedule", "preempt_schedule", "yield", "wait_for_"];

/// Beginnings of the names of functions that do nothing but release locks, besides those that lie among the functions for locks.
const UNLOCK_FUNCTIONS: [&str; 15] = [
    "__traceiter_contended", "trace_contended", "trace_call__contended", "perf_trace_contended",
    "__raw_callee_save_", "pv_queued_", "mutex_unlock", "__mutex_unlock", "up_read", "up_write", "__up_",
    "rwsem_wake", "percpu_up", "__percpu_up", "rwbase_",
];

impl Symbols {
    /// Those of the running kernel.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn of_this_kernel() -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read_to_string("/proc/kallsyms")?))
    }

    /// Reads lines of `address type name`, with the module in brackets behind it. A process without the right to know
    /// addresses finds zeros in their place, which name nothing.
    pub fn parse(text: &str) -> Self {
        let mut symbols = Self::default();
        let mut marks: [Option<u64>; 4] = [None; 4];
        const MARKS: [&str; 4] =
            ["__sched_text_start", "__sched_text_end", "__lock_text_start", "__lock_text_end"];
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Ok(address @ 1..) = u64::from_str_radix(address, 16) else { continue };
            if let Some(at) = MARKS.iter().position(|mark| *mark == name) {
                marks[at] = Some(address);
                continue;
            }
            let is_code = matches!(kind, "t" | "T" | "w" | "W");
            symbols.lists_variables |= matches!(kind, "b" | "d");
            if name.starts_with("__pfx_") {
                continue; // the padding before a function
            }
            let start = symbols.names.len() as u32;
            symbols.names.push_str(name);
            if let Some(module) = words.next() {
                symbols.names.push(' ');
                symbols.names.push_str(module);
            }
            symbols.all.push(Entry { address, name: start..symbols.names.len() as u32, is_code });
        }
        // Of several names for one place the first one stays first.
        symbols.all.sort_by_key(|entry| entry.address);
        for ends in marks.chunks_exact(2) {
            if let [Some(start), Some(end)] = *ends {
                symbols.lock_code.push(start..end);
            }
        }
        symbols
    }

    /// Whether there are none, as where `kernel.kptr_restrict` hides the addresses.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The last symbol that does not lie behind an address, and the first one of its place.
    fn before(&self, address: u64) -> Option<&Entry> {
        let last = self.all.partition_point(|entry| entry.address <= address).checked_sub(1)?;
        let place = self.all[last].address;
        let first =
            self.all[..last].iter().rposition(|entry| entry.address != place).map_or(0, |other| other + 1);
        self.all[first..=last].iter().find(|entry| entry.is_code).or(self.all.get(first))
    }

    fn name(&self, entry: &Entry) -> &str {
        &self.names[entry.name.start as usize..entry.name.end as usize]
    }

    /// The function around an address of code: where it begins, and its name, with the module in brackets behind it.
    pub fn function(&self, address: u64) -> Option<(u64, &str)> {
        let entry =
            self.before(address).filter(|entry| entry.is_code && address - entry.address < LONGEST)?;
        Some((entry.address, self.name(entry)))
    }

    /// The variable that an object lies in, with `+0x` and the offset where it does not begin there. None for objects on the
    /// heap, and where the kernel does not list its variables, but for one that begins at a symbol.
    pub fn variable(&self, address: u64) -> Option<String> {
        let entry = self.before(address).filter(|entry| !entry.is_code)?;
        let name = self.name(entry);
        match address - entry.address {
            0 => Some(name.to_owned()),
            offset if self.lists_variables && offset < LONGEST => Some(format!("{name}+{offset:#x}")),
            _ => None,
        }
    }

    /// The function of each address of a stack, which are return addresses: one that lies at the end of a call lies behind it.
    fn functions_of(&self, stack: &[u64]) -> impl DoubleEndedIterator<Item = Option<(u64, &str)>> {
        stack.iter().map(|&address| self.function(address.wrapping_sub(1)))
    }

    /// The functions of a stack, innermost first, but for those that only tell of the wait: where each begins, and its name. An
    /// address without a name stands for itself.
    pub fn functions(&self, stack: &[u64]) -> Vec<(u64, Cow<'_, str>)> {
        let named = self.functions_of(stack).zip(stack).map(|(function, &address)| match function {
            Some((start, name)) => (start, Cow::from(name)),
            None => (address, format!("{address:#x}").into()),
        });
        named.skip_while(|(_, name)| name.starts_with("__traceiter")).collect()
    }

    /// The first function of a stack, innermost first, that does more than take locks; the outermost one if none does.
    pub fn call_site(&self, stack: &[u64]) -> Option<(u64, &str)> {
        self.first_beyond(stack, |start, name| self.takes_locks(start, name))
    }

    /// The first function of a stack, innermost first, that does more than release locks; the outermost one if none does.
    pub fn release_site(&self, stack: &[u64]) -> Option<(u64, &str)> {
        let releases =
            |name: &str| name == "up" || UNLOCK_FUNCTIONS.iter().any(|begin| name.starts_with(begin));
        self.first_beyond(stack, |start, name| self.takes_locks(start, name) || releases(name))
    }

    /// The first function that does something else; the outermost one if none does.
    fn first_beyond(&self, stack: &[u64], does: impl Fn(u64, &str) -> bool) -> Option<(u64, &str)> {
        let found = self.functions_of(stack).flatten().find(|&(start, name)| !does(start, name));
        found.or_else(|| self.functions_of(stack).flatten().next_back())
    }

    fn takes_locks(&self, start: u64, name: &str) -> bool {
        let begins = |names: &[&str]| names.iter().any(|beginning| name.starts_with(beginning));
        let in_lock_code = self.lock_code.iter().any(|code| code.contains(&start));
        in_lock_code && !begins(&SCHEDULER) || begins(&LOCK_FUNCTIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "\
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 T __pfx_vm_mmap_pgoff
ffffffff81000110 T vm_mmap_pgoff
ffffffff81000200 t do_one
ffffffff81000300 T __traceiter_contention_begin
ffffffff81001000 T __sched_text_start
ffffffff81001000 t __schedule
ffffffff81001100 T down_write_killable
ffffffff81001200 T __sched_text_end
ffffffff81002000 T __lock_text_start
ffffffff81002000 T _raw_spin_lock
ffffffff81002100 T __lock_text_end
ffffffff81002200 T last_function
ffffffff82000000 D tasklist_lock
ffffffff82000040 d table
ffffffffa0000000 t ext4_evict_inode\t[ext4]
ffffffffa0008000 b ext4_grpinfo_slab_create_mutex\t[ext4]
";

    #[test]
    fn functions_of_the_kernel_and_of_modules_have_names() {
        let symbols = Symbols::parse(ALL);
        let name = |address| symbols.function(address).map(|(_, name)| name);
        assert_eq!(name(0xffff_ffff_8100_0155), Some("vm_mmap_pgoff"));
        assert_eq!(symbols.function(0xffff_ffff_8100_0155).unwrap().0, 0xffff_ffff_8100_0110);
        assert_eq!(name(0xffff_ffff_8100_0250), Some("do_one"));
        assert_eq!(name(0xffff_ffff_a000_0010), Some("ext4_evict_inode [ext4]"));
        assert_eq!(name(0xffff_ffff_8100_1010), Some("__schedule"), "not the mark at the same place");
        assert_eq!(name(0xffff_ffff_8100_0105), Some("_text"), "the padding has no name");
        assert_eq!(name(0xffff_ffff_b000_0000), None, "too far behind the last function");
        assert_eq!(name(0x1000), None);
        assert_eq!(name(0xffff_ffff_8200_0000), None, "no code");
    }

    #[test]
    fn locks_in_variables_have_their_names_and_others_none() {
        let symbols = Symbols::parse(ALL);
        let name = |address| symbols.variable(address);
        assert_eq!(name(0xffff_ffff_8200_0000).as_deref(), Some("tasklist_lock"));
        assert_eq!(name(0xffff_ffff_8200_0080).as_deref(), Some("table+0x40"));
        assert_eq!(name(0xffff_ffff_a000_8000).as_deref(), Some("ext4_grpinfo_slab_create_mutex [ext4]"));
        assert_eq!(name(0xffff_8880_1234_5678), None, "on the heap");
        assert_eq!(name(0xffff_ffff_8300_0000), None, "too far behind the last variable");
        assert_eq!(name(0xffff_ffff_8100_0110), None, "code");
        // A kernel that lists few variables: the next one may be an unlisted one.
        let few = Symbols::parse(&ALL.replace(" d table", " D table").replace(" b ", " B "));
        assert_eq!(few.variable(0xffff_ffff_8200_0000).as_deref(), Some("tasklist_lock"));
        assert_eq!(few.variable(0xffff_ffff_8200_0010), None);
    }

    #[test]
    fn the_release_site_is_the_first_that_does_more_than_release_locks() {
        let all = "ffffffff81000000 T _text\nffffffff81000100 T __traceiter_contended_release
ffffffff81000200 T up_write\nffffffff81000300 t rwsem_wake\nffffffff81000400 T vm_munmap\nffffffff81000500 T update_load\n";
        let symbols = Symbols::parse(all);
        let address = |of: u64| 0xffff_ffff_8100_0010 + (of << 8);
        let site = |stack: &[u64]| symbols.release_site(stack).map(|(_, name)| name.to_owned());
        assert_eq!(site(&[1, 3, 2, 4].map(address)).as_deref(), Some("vm_munmap"));
        assert_eq!(site(&[1, 5, 4].map(address)).as_deref(), Some("update_load"));
        assert_eq!(site(&[1, 2].map(address)).as_deref(), Some("up_write"), "nothing else is known");
        assert_eq!(
            symbols.call_site(&[3, 4].map(address)).unwrap().1,
            "rwsem_wake",
            "it waits for a lock of its own"
        );
    }

    #[test]
    fn the_call_site_is_the_first_that_does_more_than_take_locks() {
        let symbols = Symbols::parse(ALL);
        let site = |stack: &[u64]| symbols.call_site(stack).map(|(_, name)| name.to_owned());
        let [trace, down, raw, mmap, one, schedule] = [
            0xffff_ffff_8100_0310_u64, 0xffff_ffff_8100_1110, 0xffff_ffff_8100_2010, 0xffff_ffff_8100_0150,
            0xffff_ffff_8100_0210, 0xffff_ffff_8100_1010,
        ];
        assert_eq!(site(&[trace, down, mmap, one]).as_deref(), Some("vm_mmap_pgoff"));
        assert_eq!(
            site(&[trace, raw, schedule, down, mmap]).as_deref(),
            Some("__schedule"),
            "it has a lock itself"
        );
        assert_eq!(site(&[7, raw, one]).as_deref(), Some("do_one"), "an address without a name says nothing");
        assert_eq!(site(&[trace, down]).as_deref(), Some("down_write_killable"), "nothing else is known");
        assert_eq!(site(&[]), None);
        let functions = symbols.functions(&[trace, 7, raw, one]);
        let names: Vec<_> = functions.iter().map(|(_, name)| &**name).collect();
        assert_eq!(names, ["0x7", "_raw_spin_lock", "do_one"], "without the tracepoint");
        assert_eq!((functions[0].0, functions[2].0), (7, 0xffff_ffff_8100_0200), "where they begin");
        // A call at the very end of a function returns behind it.
        assert_eq!(symbols.functions(&[0xffff_ffff_8100_0200])[0].1, "vm_mmap_pgoff");
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let hidden: String = ALL.lines().map(|line| format!("{}{}\n", "0".repeat(16), &line[16..])).collect();
        let symbols = Symbols::parse(&hidden);
        assert!(symbols.is_empty() && symbols.function(0xffff_ffff_8100_0155).is_none());
        assert!(Symbols::parse("garbage\nffff\nxyz t name\n\n").is_empty());
    }
}

//! The text of the locks, for those who judge single accesses: an access is known by its place in a file, which tells
//! here in which function it stands.

/// Where this file was when the locks were compiled; the others stand beside it.
pub const PLACE: &str = file!();

/// The name and the text of every file that locks, and what threads wait on besides, are written in.
pub const FILES: &[(&str, &str)] = &[
    ("adaptive.rs", include_str!("adaptive.rs")),
    ("anderson.rs", include_str!("anderson.rs")),
    ("backoff.rs", include_str!("backoff.rs")),
    ("barrier.rs", include_str!("barrier.rs")),
    ("blocking.rs", include_str!("blocking.rs")),
    ("clh.rs", include_str!("clh.rs")),
    ("clh_timed.rs", include_str!("clh_timed.rs")),
    ("condvar.rs", include_str!("condvar.rs")),
    ("counter.rs", include_str!("counter.rs")),
    ("elided.rs", include_str!("elided.rs")),
    ("elision.rs", include_str!("elision.rs")),
    ("futex.rs", include_str!("futex.rs")),
    ("glibc_adaptive.rs", include_str!("glibc_adaptive.rs")),
    ("glibc_mutex.rs", include_str!("glibc_mutex.rs")),
    ("glibc_rwlock.rs", include_str!("glibc_rwlock.rs")),
    ("glibc_spin.rs", include_str!("glibc_spin.rs")),
    ("hclh.rs", include_str!("hclh.rs")),
    ("hmcs.rs", include_str!("hmcs.rs")),
    ("k42.rs", include_str!("k42.rs")),
    ("kernel_mutex.rs", include_str!("kernel_mutex.rs")),
    ("lockref.rs", include_str!("lockref.rs")),
    ("mcs.rs", include_str!("mcs.rs")),
    ("mcs_queue.rs", include_str!("mcs_queue.rs")),
    ("mcs_tp.rs", include_str!("mcs_tp.rs")),
    ("once.rs", include_str!("once.rs")),
    ("osq.rs", include_str!("osq.rs")),
    ("own_line.rs", include_str!("own_line.rs")),
    ("qspin.rs", include_str!("qspin.rs")),
    ("read_mostly.rs", include_str!("read_mostly.rs")),
    ("ring.rs", include_str!("ring.rs")),
    ("rt.rs", include_str!("rt.rs")),
    ("rw.rs", include_str!("rw.rs")),
    ("rw_naive.rs", include_str!("rw_naive.rs")),
    ("rw_queued.rs", include_str!("rw_queued.rs")),
    ("rwsem.rs", include_str!("rwsem.rs")),
    ("semaphore.rs", include_str!("semaphore.rs")),
    ("seq_lock.rs", include_str!("seq_lock.rs")),
    ("spinners.rs", include_str!("spinners.rs")),
    ("tas.rs", include_str!("tas.rs")),
    ("tas_backoff.rs", include_str!("tas_backoff.rs")),
    ("ticket.rs", include_str!("ticket.rs")),
    ("ticket4.rs", include_str!("ticket4.rs")),
    ("ticket_proportional.rs", include_str!("ticket_proportional.rs")),
    ("ticket_selftuning.rs", include_str!("ticket_selftuning.rs")),
    ("tp_futex.rs", include_str!("tp_futex.rs")),
    ("ttas.rs", include_str!("ttas.rs")),
    ("ttas_backoff.rs", include_str!("ttas_backoff.rs")),
    ("twa.rs", include_str!("twa.rs")),
    ("upgradable.rs", include_str!("upgradable.rs")),
    ("wait_table.rs", include_str!("wait_table.rs")),
    ("ww.rs", include_str!("ww.rs")),
];

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;

    #[test]
    #[cfg_attr(miri, ignore = "Miri reads no files")]
    fn no_file_that_a_lock_may_be_written_in_is_missing() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        for entry in std::fs::read_dir(directory).expect("the sources").flatten() {
            let name = entry.file_name().into_string().expect("a plain name");
            let around = [
                "lib.rs", "api.rs", "catalogue.rs", "deadlock.rs", "deadlock_off.rs", "prelude.rs",
                "source.rs", "spinning.rs", "ww_mutex.rs",
            ];
            let known = FILES.iter().any(|(file, _)| *file == name);
            assert!(known || around.contains(&name.as_str()) || !name.ends_with(".rs"), "{name}");
        }
    }
}

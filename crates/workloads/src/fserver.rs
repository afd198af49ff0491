//! Users of a file server: one lock after the other, as AIM7's `fserver` takes them in old Linux kernels. The lock of the list of open
//! files is the one that is put to the test; the others are what they were, and go on making traffic.

use locks::{KernelMutex, RawLock, Ticket};
use machine::Ordering::Relaxed;
use machine::{Deadline, Event, Integer, Machine, Placed, Run, Timeout, Word};

use crate::list::{add, delete, empty, ends_empty};
use crate::random::Random;
use crate::section::{Tally, critical};
use crate::{Load, SharedLine};

/// Of so many operations one makes or removes a name in the directory that all users share.
const CHANGES_NAMES: u64 = 8;

/// What a section does besides touching lines, cycles.
const WORK: u64 = 50;
const DIRECTORY_WORK: u64 = 1_000;

/// Opens and closes a file for ever. An open looks the mount up under a ticket lock and takes a reference to it, may change the
/// directory under a sleeping mutex, and adds the file to the list; a close deletes it there. Then the user sleeps, if the load says so.
pub(crate) fn run<M: Machine, L: RawLock<M>>(load: &Load<'_>) -> Run {
    let files = Placed::<_, M>::new(L::NEW, load.home);
    let mounts = Placed::<_, M>::new(Ticket::<M>::NEW, load.home);
    let directory = Placed::<_, M>::new(KernelMutex::<M>::NEW, load.home);
    let references = Placed::<_, M>::new(M::U64::ZERO, load.home);
    let names: Vec<_> = (0..2).map(|_| Placed::<_, M>::new(SharedLine::<M>::NEW, load.home)).collect();
    let list = empty::<M>(load.threads);
    let think = load.think_cycles.unwrap_or(50_000);
    let work = load.section_cycles.unwrap_or(WORK);
    let [of_files, of_mounts, of_directory] = [(); 3].map(|()| Tally::default());
    let run = M::run(&load.plan(), &|thread| {
        let mut random = Random::of_thread(load.seed, thread);
        let mine = thread + 1;
        // No thread wakes its sleepers: they sleep to their deadlines.
        let alarm = M::U32::ZERO;
        let sleep = |ns| {
            if ns > 0 {
                M::sleep_while(&alarm, 0, Timeout::at(Deadline::after_ns::<M>(ns)));
            }
        };
        sleep(random.below(load.sleep_ns + 1));
        M::delay(random.below(think + 1));
        while M::running() {
            critical::<M, _>(&*mounts, &of_mounts, || {
                references.fetch_add(1, Relaxed);
                M::delay(WORK);
            });
            if random.below(CHANGES_NAMES) == 0 {
                critical::<M, _>(&*directory, &of_directory, || {
                    names.iter().for_each(|name| name.touch());
                    M::delay(DIRECTORY_WORK);
                });
            }
            for change in [add::<M>, delete::<M>] {
                let work = random.time(work, load.section_spread);
                critical::<M, _>(&*files, &of_files, || {
                    change(&list, mine);
                    M::delay(work);
                });
                M::delay(random.time(think / 2, load.think_spread));
            }
            M::note(Event::Operation);
            sleep(random.time(load.sleep_ns, load.think_spread));
        }
    });
    [&of_files, &of_mounts, &of_directory].into_iter().for_each(Tally::add_up);
    ends_empty::<M>(&list);
    run
}

//! Clients of what is taken where no lock scales: the sequence lock, the counter and the value that is mostly read.
//!
//! Each says at the end whether what it finds is right, and gives what is wrong in words.

use locks::{Counter, ReadMostly, Rw, SeqLock, Tas};
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Integer, Machine, Placed, PlainCell, Plan, Word};

use super::waiting::{cell, is, placed};

/// Its writers' lock is the simplest that there is: what is checked is the sequence.
type Pair<M> = SeqLock<[u64; 2], 2, Tas<M>, M>;

fn whole([first, second]: [u64; 2]) -> u64 {
    assert_eq!(first, second, "half of one write and half of another");
    first
}

/// One writes twice, and the other reads: whole values, no older one after a newer one, with what their writer did before.
///
/// # Errors
/// What is wrong.
///
/// # Panics
/// When a reader sees half of a write, or an older one.
pub fn reads_are_whole<M: Machine>() -> Result<(), String> {
    let (pair, before) = (placed::<_, M>(Pair::<M>::new()), cell::<M>());
    M::run(&Plan::threads(2), &|thread| {
        if thread == 0 {
            before.set(7);
            pair.write([1; 2]);
            pair.write([2; 2]);
            return;
        }
        let first = whole(pair.read());
        assert!(first == 0 || before.get() == 7, "the value was seen, and not what came before it");
        assert!(first <= whole(pair.read()), "the reader went back to an older value");
    });
    is(2, whole(pair.read()) as u32)
}

/// Both add to what they find.
///
/// # Errors
/// What is wrong.
pub fn updates_add_up<M: Machine>() -> Result<(), String> {
    let pair = placed::<_, M>(Pair::<M>::new());
    M::run(&Plan::threads(2), &|_| pair.update(|[first, second]| [first + 1, second + 1]));
    is(2, whole(pair.read()) as u32)
}

/// One writes, and the other tries to read: whole values, or none. After the write none fails.
///
/// # Errors
/// What is wrong.
///
/// # Panics
/// When a reader sees half of a write.
pub fn tries_are_whole<M: Machine>() -> Result<(), String> {
    let (pair, before) = (placed::<_, M>(Pair::<M>::new()), cell::<M>());
    M::run(&Plan::threads(2), &|thread| {
        if thread == 0 {
            before.set(7);
            pair.write([1; 2]);
        } else if let Some(found) = pair.try_read() {
            assert!(
                whole(found) == 0 || before.get() == 7,
                "the value was seen, and not what came before it"
            );
        }
    });
    is(1, pair.try_read().map(whole).ok_or("no thread writes, and a try failed")? as u32)
}

/// Three count on two shards, so that two of them share one; one takes away what it has added.
///
/// # Errors
/// What is wrong.
pub fn counts_add_up<M: Machine>() -> Result<(), String> {
    let counter = placed::<_, M>(Counter::<2, M>::new());
    M::run(&Plan::threads(3), &|thread| {
        counter.add(2);
        if thread == 2 {
            counter.subtract(2);
        }
    });
    is(4, counter.sum() as u32)
}

/// One counts, and the other asks: no sum is smaller than one before, than what had been added before it, or larger than all.
///
/// # Errors
/// What is wrong.
///
/// # Panics
/// When a sum is.
pub fn sums_grow<M: Machine>() -> Result<(), String> {
    let (counter, added) = (placed::<_, M>(Counter::<2, M>::new()), placed::<M::U32, M>(Word::ZERO));
    M::run(&Plan::threads(2), &|thread| {
        if thread == 0 {
            for _ in 0..2 {
                counter.add(1);
                added.fetch_add(1, Release);
            }
            return;
        }
        let least = u64::from(added.load(Acquire));
        let first = counter.sum();
        assert!((least..=2).contains(&first), "the sum is {first}, and {least} were added before");
        assert!((first..=2).contains(&counter.sum()), "the sum was {first} before");
    });
    is(2, counter.sum() as u32)
}

/// Two cells that are written together.
type Cells<M> = (<M as Machine>::Cell<u32>, <M as Machine>::Cell<u32>);

/// What guards them, in as many shards. They are outside of it, so that they are read at the end without it: the caller of a client is no
/// thread of it, and may not wait.
type Guarded<'c, M, const SHARDS: usize> = ReadMostly<&'c Cells<M>, SHARDS, Rw<M>, M>;

fn cells<M: Machine>() -> Placed<Cells<M>, M> {
    placed((PlainCell::ZERO, PlainCell::ZERO))
}

fn guarded<M: Machine, const SHARDS: usize>(cells: &Cells<M>) -> Placed<Guarded<'_, M, SHARDS>, M> {
    placed(ReadMostly::new(cells))
}

/// One more in both cells.
fn write<M: Machine, const SHARDS: usize>(value: &Guarded<'_, M, SHARDS>) {
    value.write(|(first, second)| {
        first.set(first.get() + 1);
        second.set(second.get() + 1);
    });
}

fn both<M: Machine>((first, second): &Cells<M>) -> u32 {
    let found = first.get();
    assert_eq!(found, second.get(), "half of a write");
    found
}

fn read<M: Machine, const SHARDS: usize>(value: &Guarded<'_, M, SHARDS>) -> u32 {
    value.read(|cells| both::<M>(cells))
}

/// One writes while two read on shards of their own.
///
/// # Errors
/// What is wrong.
pub fn readers_beside_a_writer<M: Machine>() -> Result<(), String> {
    let cells = cells::<M>();
    let value = guarded::<M, 2>(&cells);
    M::run(&Plan::threads(3), &|thread| {
        if thread == 0 {
            write(&value);
        } else {
            read(&value);
        }
    });
    is(1, both::<M>(&cells))
}

/// Two write, each of whom has another shard.
///
/// # Errors
/// What is wrong.
pub fn writers_meet<M: Machine>() -> Result<(), String> {
    let cells = cells::<M>();
    let value = guarded::<M, 2>(&cells);
    M::run(&Plan::threads(2), &|_| write(&value));
    is(2, both::<M>(&cells))
}

/// Two are inside as readers at the same time, on two shards or on one.
///
/// # Errors
/// What is wrong.
pub fn readers_meet<M: Machine, const SHARDS: usize>() -> Result<(), String> {
    let cells = cells::<M>();
    let (value, inside) = (guarded::<M, SHARDS>(&cells), placed::<M::U32, M>(Word::ZERO));
    M::run(&Plan::threads(2), &|_| {
        value.read(|_| {
            inside.fetch_add(1, Relaxed);
            M::spin_until(&*inside, Relaxed, |inside| inside == 2);
        });
    });
    is(0, both::<M>(&cells))
}

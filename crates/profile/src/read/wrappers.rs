//! Who takes a lock through a wrapper that was not inlined, by the stacks that were walked.
//!
//! The function that holds a lock is on the stack when the lock is taken and when it is released. The innermost one that is on both is
//! taken for the holder; what is further in wraps:
//!
//! ```text
//! acquisition  my_lock    slow  main
//! release      my_unlock  slow  main       slow holds the lock
//! ```
//!
//! A function whose last call is that of the release has left the stack by then. Both stacks go on at the return address of the call
//! that entered the function:
//!
//! ```text
//! acquisition  my_lock  get  serve+0x20
//! release      my_unlock     serve+0x20    get holds the lock
//! ```
//!
//! Two stacks need not be of one hold, and then have less in common. So of all pairs of stacks the innermost point counts.

use super::container::{Section, StackRecord};
use super::symbols::{Function, Symbols};

/// A function on a stack: the frame, and which of the functions that are inlined there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    frame: usize,
    inlined: usize,
}

/// A function that two stacks have in common, of an acquisition and of a release.
#[derive(Clone, Copy, Debug)]
struct Common {
    /// Where it is on the stack of the acquisition.
    point: Point,
    /// Where it is on that of the release; `None` where it has left that.
    on_release: Option<Point>,
    /// The frame of the release where the functions begin that are further out.
    outside: usize,
}

/// Stacks of a kind that are compared for one lock call. Of further ones, which only a few programs have, nothing is learned.
const COMPARED: usize = 32;

/// What is known of how a lock call is wrapped.
pub(super) struct Wrapping<'p> {
    section: &'p Section,
    /// The return address of the lock call.
    caller: u64,
    /// Stacks that took the lock by this call.
    taken: &'p [&'p [u64]],
    /// The innermost function that is no wrapper, on the stacks of acquisitions; `None` where only names tell.
    depth: Option<Point>,
    /// The same on those of releases, where it is on them.
    depth_of_release: Option<Point>,
}

/// A function that uses a lock, and the calls from it outwards.
pub(super) struct User {
    pub(super) function: Function,
    pub(super) frames: Vec<u64>,
}

impl<'p> Wrapping<'p> {
    /// Of the lock call that returns to `caller`, with the stacks that took the lock by it and those that were walked.
    pub(super) fn of(
        section: &'p Section,
        caller: u64,
        taken: &'p [&'p [u64]],
        walked: &[&StackRecord],
        symbols: &mut Symbols<'_>,
    ) -> Self {
        let mut innermost: Option<Common> = None;
        let released = walked.iter().filter(|record| record.is_of_release());
        for released in released.take(COMPARED) {
            for taken in taken.iter().take(COMPARED) {
                let common = common(section, taken, &released.frames, symbols);
                let order = |common: &Common| (common.point, common.on_release.is_none());
                innermost = innermost.into_iter().chain(common).min_by_key(order);
            }
        }
        let depth = innermost.map(|common| common.point);
        let depth_of_release = innermost.and_then(|common| common.on_release);
        // Where no release tells, a function that is no wrapper by its name is none.
        let by_name = || {
            let inlined = symbols.functions(section, caller).iter().position(|function| !function.wrapper)?;
            Some(Point { frame: 0, inlined })
        };
        Self { section, caller, taken, depth: depth.or_else(by_name), depth_of_release }
    }

    /// The function that takes the lock on this stack of an acquisition.
    pub(super) fn taker(&self, frames: &[u64], symbols: &mut Symbols<'_>) -> Option<User> {
        let start = Point { frame: 0, inlined: 0 };
        let depth = self.depth.filter(|depth| depth.frame < frames.len()).unwrap_or(start);
        self.user(frames, depth, symbols).or_else(|| {
            let function =
                symbols.functions(self.section, *frames.get(depth.frame)?).get(depth.inlined)?.clone();
            Some(User { function, frames: frames[depth.frame..].to_vec() })
        })
    }

    /// The function that held the lock which this stack releases; `None` if nothing tells.
    pub(super) fn holder(&self, released: &[u64], symbols: &mut Symbols<'_>) -> Option<User> {
        let Some(depth) = self.depth else {
            return self
                .user(released, Point { frame: 0, inlined: 0 }, symbols)
                .filter(|user| !user.function.nameless);
        };
        // A call by a pointer enters several functions, so that one which has left the stack counts only if none is on both.
        let mut left = None;
        for taken in self.taken.iter().take(COMPARED) {
            let common = common(self.section, taken, released, symbols);
            let Some(common) = common.filter(|common| common.point == depth) else { continue };
            let found = (taken[depth.frame], &released[common.outside..]);
            if common.on_release.is_some() {
                return self.around(found.0, depth.inlined, found.1, symbols);
            }
            left = left.or(Some(found));
        }
        if let Some((address, outside)) = left {
            return self.around(address, depth.inlined, outside, symbols);
        }
        match self.depth_of_release {
            // It has left the stack.
            _ if depth.frame == 0 => self.around(self.caller, depth.inlined, released, symbols),
            Some(depth) => self.user(released, depth, symbols),
            None => None,
        }
    }

    /// The function at the call that returns to `address`, or one that is further out on the stack.
    fn around(&self, address: u64, inlined: usize, rest: &[u64], symbols: &mut Symbols<'_>) -> Option<User> {
        let frames: Vec<u64> = [address].into_iter().chain(rest.iter().copied()).collect();
        self.user(&frames, Point { frame: 0, inlined }, symbols)
    }

    /// The first function from this point outwards that is no wrapper by its name.
    fn user(&self, frames: &[u64], from: Point, symbols: &mut Symbols<'_>) -> Option<User> {
        let mut inlined = from.inlined;
        for (frame, &address) in frames.iter().enumerate().skip(from.frame) {
            let functions = symbols.functions(self.section, address);
            if let Some(function) = functions.iter().skip(inlined).find(|function| !function.wrapper) {
                return Some(User { function: function.clone(), frames: frames[frame..].to_vec() });
            }
            inlined = 0;
        }
        None
    }
}

/// The innermost function of a stack that took a lock which is on a stack that released it, too, or has left that.
fn common(section: &Section, taken: &[u64], released: &[u64], symbols: &mut Symbols<'_>) -> Option<Common> {
    let entered = taken.iter().skip(1).enumerate().find_map(|(frame, address)| {
        let outside = released.iter().position(|other| other == address)?;
        Some(Common { point: Point { frame, inlined: 0 }, on_release: None, outside })
    });
    for (frame, &address) in taken.iter().enumerate() {
        for (inlined, function) in symbols.functions(section, address).iter().enumerate() {
            if function.nameless {
                // What is further out may be on both stacks without being the innermost.
                return entered;
            }
            if let Some(found) = find(section, function, released, symbols) {
                let point = Point { frame, inlined };
                return Some(Common { point, on_release: Some(found), outside: found.frame + 1 });
            }
        }
        if entered.is_some_and(|entered| entered.point.frame == frame) {
            return entered;
        }
    }
    None
}

/// Where this function is innermost on a stack.
fn find(section: &Section, function: &Function, frames: &[u64], symbols: &mut Symbols<'_>) -> Option<Point> {
    let same = |other: &Function| other.name == function.name && other.file == function.file;
    frames.iter().enumerate().find_map(|(frame, &address)| {
        let inlined = symbols.functions(section, address).iter().position(same)?;
        Some(Point { frame, inlined })
    })
}

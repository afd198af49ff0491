//! The shared object that replaces the pthread lock functions.
//!
//! It is loaded into an unmodified program by `LD_PRELOAD` and defines the names of `exports`. Each object (mutex,
//! reader-writer lock, spin lock) is decided about once, when it is first used: it is glibc's, and every call for it goes on
//! to glibc, or it is ours, and a lock of the catalogue lives in its bytes.
//!
//! | file        | what is there                                                                        |
//! |-------------|--------------------------------------------------------------------------------------|
//! | `exports`   | the names, and how they reach the functions behind them                              |
//! | `handles`   | `dlsym` and `dlopen`: lock functions that are not got by name; `dlclose`             |
//! | `mutex`, `rwlock`, `spin`, `cond`, `c11` | a kind of object each: what lies where in its bytes, what its functions answer |
//! | `cancellation` | what makes a wait a point of cancellation                                         |
//! | `futexes`   | the C library's `syscall`: waits of locks that are no pthread's                      |
//! | `tag`       | whose an object is                                                                   |
//! | `choice`    | what the configuration says of each kind of object                                   |
//! | `algorithm` | the locks of the catalogue behind function pointers, and what emulation adds to them |
//! | `state`     | entering and leaving a lock, across forks                                            |
//! | `generation` | how often the process was forked off, and how a child notices that it is one        |
//! | `time_slice` | holders of locks that would like to keep their core                                  |
//! | `arena`     | side table for lock state that does not fit into the pthread object                  |
//! | `thread`    | what is kept for each thread                                                         |
//! | `site`, `symbols` | locks and call sites that the configuration names                              |
//! | `unwind`    | the return addresses on the stack                                                    |
//! | `signals_blocked` | sections that neither a signal handler nor a cancellation may interrupt          |
//! | `config`, `load` | the environment; what happens at load, fork and exit                            |
//! | `files`     | memory and small files without the program's allocator                               |
//! | `tally`     | counters that the launcher reads at the end                                          |
//! | `real`      | glibc's own functions                                                                |
//! | `recorder`  | what a profile records                                                               |
//!
//! On the path of a lock nothing is allocated, looked up or printed, and errno stays what it is. Nothing that would have to be
//! dropped lives in a frame that a cancellation may unwind.

mod algorithm;
mod arena;
mod c11;
mod cancellation;
mod choice;
mod cond;
mod config;
mod exports;
mod files;
mod futexes;
mod generation;
mod handles;
mod load;
mod misuse;
mod mutex;
mod real;
mod recorder;
mod rwlock;
mod signals_blocked;
mod site;
mod spin;
mod state;
mod symbols;
mod tag;
mod tally;
mod thread;
mod time;
mod time_slice;
mod unwind;

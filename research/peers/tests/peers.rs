//! Every peer that was built excludes, and those that were not say why.

use contend_peers::{PEERS, Peer, Visitor, visit};
use machine::{Home, Native, Plan};
use workloads::exclusion::Exclusion;
use workloads::mix::{self, Mix};

struct Mixed {
    threads: usize,
    reads_percent: u32,
}

impl Visitor for Mixed {
    type Output = bool;

    fn visit<P: Exclusion>(self, peer: &'static Peer) -> bool {
        let mix = Mix {
            lines: 1,
            section_cycles: 0,
            think_cycles: 100,
            reads_percent: self.reads_percent,
            home: Home::FirstTouch,
        };
        let plan = Plan::threads(self.threads).lasting(3_000_000);
        let outcome = mix::run::<Native, P, ()>(&mix, &plan, 1);
        let outcome = outcome.unwrap_or_else(|wrong| panic!("{}: {wrong}", peer.name));
        assert!(outcome.total() > 0, "{}", peer.name);
        P::SHARES
    }
}

#[test]
fn peers_exclude_and_share_as_they_say() {
    for peer in PEERS {
        // Locks that spin get no more threads than cores: the next in order may be the one that does not run.
        let most = if peer.blocks { 8 } else { 2 };
        for (threads, reads_percent) in [(2, 0), (2, 50), (most, 20)] {
            match visit(peer.name, Mixed { threads, reads_percent }) {
                Some(shares) => {
                    assert_eq!((shares, peer.missing), (peer.shared, None), "{}", peer.name);
                }
                None => assert!(peer.missing.is_some(), "{}", peer.name),
            }
        }
    }
}

/// The package of each library, the name under which its peers go, and a header of it.
#[cfg(feature = "libraries")]
const INSTALLED: [(&str, &str, &str); 4] = [
    ("libck-dev", "Concurrency Kit", "/usr/include/ck_spinlock.h"),
    ("libtbb-dev", "oneTBB", "/usr/include/oneapi/tbb/mutex.h"),
    ("libabsl-dev", "Abseil", "/usr/include/absl/synchronization/mutex.h"),
    ("libnsync-dev", "nsync", "/usr/include/nsync.h"),
];

#[cfg(feature = "libraries")]
#[test]
fn what_is_installed_was_built() {
    for (package, library, header) in INSTALLED {
        let peers: Vec<_> = PEERS.iter().filter(|peer| peer.library == library).collect();
        assert!(!peers.is_empty(), "{library} has no peers");
        if std::path::Path::new(header).exists() {
            let missing = peers.iter().find_map(|peer| peer.missing);
            assert_eq!(missing, None, "{package} is installed");
        }
    }
}

#[test]
fn names_are_distinct_and_algorithms_known() {
    for (index, peer) in PEERS.iter().enumerate() {
        assert!(PEERS[..index].iter().all(|other| other.name != peer.name), "{}", peer.name);
        assert!(locks::catalogue::find(peer.name).is_none(), "{} is a lock of ours", peer.name);
        let known = peer.same_as.is_none_or(|own| locks::catalogue::find(own).is_some());
        assert!(known, "{} is compared with a lock that we do not have", peer.name);
    }
}

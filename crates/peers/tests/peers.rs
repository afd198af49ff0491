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
        let plan = Plan { threads: self.threads, cores: &[], duration_ns: Some(3_000_000) };
        let outcome = mix::run::<Native, P, ()>(&mix, &plan, 1);
        let outcome = outcome.unwrap_or_else(|wrong| panic!("{}: {wrong}", peer.name));
        assert!(outcome.total() > 0, "{}", peer.name);
        P::SHARES
    }
}

#[test]
fn peers_exclude_and_share_as_they_say() {
    for peer in PEERS {
        for (threads, reads_percent) in [(2, 0), (2, 50)] {
            match visit(peer.name, Mixed { threads, reads_percent }) {
                Some(shares) => {
                    assert_eq!((shares, peer.missing), (peer.shared, None), "{}", peer.name);
                }
                None => assert!(peer.missing.is_some(), "{}", peer.name),
            }
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

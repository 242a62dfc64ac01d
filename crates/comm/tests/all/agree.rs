//! Agreement of ranks: true only where it is true on all of them.

use std::time::Duration;

use comm::internals::agree;
use terms::Space;

use crate::worlds::{self, Wrapping};

#[test]
fn ranks_agree_on_what_is_true_on_all_of_them() {
    worlds::run("reference", 3, &Wrapping::Plain.options(3), Duration::from_secs(20), |member| {
        let rank = member.rank();
        let word = member.comm.alloc(8, Space::Host).unwrap().whole();
        for (own, all) in [(true, true), (rank != 1, false), (rank == 1, false), (false, false), (true, true)] {
            assert_eq!(agree(&mut *member.comm, &word, own).unwrap(), all, "rank {rank}: {own}");
        }
    });
}

//! The threads of a rank.

use engine::Threads;

/// A set of cores has room for 1,024, and machines have more.
#[test]
fn a_core_beyond_those_of_a_set_ends_no_process() {
    let threads = Threads::new(2, &[5000]).expect("threads");
    assert_eq!(threads.install(|| threads.count()), 2);
}

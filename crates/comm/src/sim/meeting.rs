//! How threads of one process that hold different bootstraps come to share one exchange: the first of a group leaves
//! the others' ends in a table of the process, and tells them by the bootstrap under which key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard};

use terms::Rank;

use crate::{Abort, Bootstrap, Error, Result, ThreadBootstrap, threads};

type Ends = Vec<Option<ThreadBootstrap>>;

/// Ends that wait to be taken, and the abort that they share.
static TABLE: LazyLock<Mutex<HashMap<u64, (Abort, Ends)>>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(0);

/// One rank's end of the exchange among `members` (ranks of the bootstrap; the first becomes rank 0) and the abort of
/// all of them: `abort` where it is given, else a new one. Collective over all ranks of the bootstrap: those that join
/// nothing give no members.
pub(super) fn join(
    bootstrap: &mut dyn Bootstrap,
    members: Option<&[u32]>,
    abort: Option<&Abort>,
) -> Result<Option<(ThreadBootstrap, Abort)>> {
    let place = bootstrap.place();
    let rank = members.and_then(|members| members.iter().position(|member| *member == place.rank));
    let mut key = 0;
    if let (Some(0), Some(members)) = (rank, members) {
        key = NEXT.fetch_add(1, Ordering::Relaxed);
        let abort = abort.cloned().unwrap_or_default();
        let ends = threads(members.len() as u32, &abort).into_iter().map(Some).collect();
        table().insert(key, (abort, ends));
    }
    // The process and the key: a key means nothing in another process.
    let process = u64::from(std::process::id());
    let message: Vec<u8> = [process, key].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let gathered = bootstrap.all_gather(&message)?;
    let (Some(rank), Some(members)) = (rank, members) else { return Ok(None) };
    let word =
        |bytes: &[u8], at: usize| bytes.get(at..at + 8).map(|word| u64::from_ne_bytes(word.try_into().expect("8")));
    let leader = &gathered[members[0] as usize];
    if word(leader, 0) != Some(process) {
        let what = format!("join {}, which runs in another process: its ranks are threads", Rank(members[0]));
        return Err(Error::Unsupported { backend: "sim", what });
    }
    let key = word(leader, 8).unwrap_or(0);
    take(key, rank).map(Some).ok_or_else(|| Error::Mismatch(format!("no place was left for {}", Rank(rank as u32))))
}

fn table() -> MutexGuard<'static, HashMap<u64, (Abort, Ends)>> {
    TABLE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The last to take its end clears the entry.
fn take(key: u64, rank: usize) -> Option<(ThreadBootstrap, Abort)> {
    let mut table = table();
    let (abort, ends) = table.get_mut(&key)?;
    let end = ends.get_mut(rank)?.take()?;
    let abort = abort.clone();
    if ends.iter().all(Option::is_none) {
        table.remove(&key);
    }
    Some((end, abort))
}

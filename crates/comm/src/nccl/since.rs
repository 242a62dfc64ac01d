//! What came after NCCL 2.18, the oldest version that is used: it has ncclCommSplit. Versions are those of NCCL's releases.

use device::since::Since;

use super::symbols::Symbols;
use crate::{Error, Result};

const fn since(what: &'static str, version: [u32; 2], otherwise: &'static str) -> Since {
    Since { library: "NCCL", what, version, otherwise }
}

/// Memory that peers reach without a copy.
pub(super) const MEMORY: Since = since("ncclMemAlloc, ncclMemFree", [2, 19], "skipped; `buffers: private` runs");
/// Registration on each rank.
pub(super) const LOCAL: Since =
    since("ncclCommRegister, ncclCommDeregister", [2, 19], "skipped; `registration: none` runs");
/// Registration on all ranks alike.
pub(super) const WINDOW: Since =
    since("ncclCommWindowRegister, ncclCommWindowDeregister", [2, 27], "skipped; `registration: none` or `local` runs");
const WHOLE: Since =
    since("ncclAlltoAll, ncclGather, ncclScatter", [2, 28], "sends and receives, as those functions are made of");

/// All that came later.
pub static NCCL_SINCE: [Since; 4] = [MEMORY, LOCAL, WINDOW, WHOLE];

/// A function of the library, or why a case is skipped: with the version that has it and the one that was found.
pub(super) fn needed<F>(function: Option<F>, what: &Since, symbols: &Symbols) -> Result<F> {
    let lacks = || match symbols.version() {
        Ok(found) => Error::Unsupported {
            backend: super::symbols::NAME,
            what: format!("register buffers: {} ({})", what.lacks(&found), what.otherwise),
        },
        Err(error) => error,
    };
    function.ok_or_else(lacks)
}

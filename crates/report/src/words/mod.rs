//! What a report says of a run: facts that follow from its case lines, sentences about them, and tables.

pub mod caveats;
pub(crate) mod damage;
pub(crate) mod drift;
pub(crate) mod expected;
pub(crate) mod explained;
pub(crate) mod facts;
pub(crate) mod findings;
pub(crate) mod imported;
pub(crate) mod interleaved;
pub(crate) mod intervals;
pub(crate) mod labels;
pub(crate) mod layout;
pub(crate) mod links;
pub(crate) mod names;
pub(crate) mod origin;
pub(crate) mod peers;
pub(crate) mod placement;
pub(crate) mod predicted;
pub(crate) mod price;
pub(crate) mod refused_limits;
pub(crate) mod reproducible;
pub(crate) mod results;
pub(crate) mod sentences;
pub(crate) mod states;
pub(crate) mod traffic;
pub(crate) mod verdict;

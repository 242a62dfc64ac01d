//! What benchmarks share: the traits of a benchmark and of a case that it has read, what a rank gives them, the fields that all of them take, gates, and what follows from
//! the runtime. Knows no benchmark, and no table of them (`benchmarks`).

mod benchmark;
pub mod bits;
pub mod fields;
mod firsts;
mod gate;
mod host;
mod modelled;
mod parsed;
pub mod peers;
pub mod reproducible;
pub mod runtime;

pub use benchmark::{Benchmark, Joining, Prepared, RankContext, Relations, Seat, Study, Work, failure};
pub use fields::{Common, Execution, Sampling, World};
pub use firsts::Firsts;
pub use gate::Gate;
pub use host::{Host, Launched, Spread};
pub use modelled::Modelled;
pub use parsed::{Measured, ParsedCase, TrialCost};
pub use runtime::{
    backend_of, cores_wanted, has_model, is_in_process, is_on_gpus, is_pytorch, is_simulated, options_of, pace_of,
};

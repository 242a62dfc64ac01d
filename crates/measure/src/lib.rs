//! Sampling: how a case becomes numbers that can be defended. The loop lives in the coordinator; ranks only obey.
//!
//! `world` is the contract between the coordinator and its ranks, `timing` the rank's timed loops, `case` a case over its
//! trials, `visit` one of them, `result` what the coordinator makes of them; `canary` and `straggler` caveat them, `sensors` tell of the machine; `clock` compares the
//! clocks of hosts. Never starts a process (`launch`), never knows what an operation is (`benchmarks`).

mod barrier;
mod canary;
mod case;
mod clock;
mod device_sensors;
pub mod device_times;
mod labels;
mod link_counts;
pub mod machine;
mod machine_states;
mod result;
mod samples;
mod sensors;
mod settings;
mod steps;
mod straggler;
mod timing;
mod topology;
mod trial;
mod visit;
mod world;

pub use barrier::{Early, Exits};
pub use canary::{Canary, CoreTime, HostLevels, SystemCounters};
pub use case::{CaseRun, Progress, Round, Sampling, StopReason, align};
pub use clock::{ClockCaveat, ClockFit, ClockReadings, Clocks, HostClock, LARGEST_DRIFT, RoundTrip, apart_ns};
pub use device_sensors::{DeviceLook, DeviceSensors};
pub use labels::Labels;
pub use machine_states::{MachineStates, StatesAsked};
pub use result::{BEYOND_LIMIT, Circumstances, case_line, conclude, learn_from_runs, limit_share};
pub use samples::Samples;
pub use sensors::Sensors;
pub use settings::{MAX_SAMPLES, Settings};
pub use straggler::{Straggler, straggler};
pub use timing::{AgreedStart, Launches, Taken, Timed, take};
pub use trial::{LimitTime, Trial};
pub use world::{
    APART, Command, Failure, Observations, Probe, RankSide, Ready, Reply, SampleRequest, Starter, StepTimes, Verdict,
    VerdictKind, World, WorldSpec, WrongReport,
};

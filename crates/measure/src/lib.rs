//! Sampling: how a case becomes numbers that can be defended. The loop lives in the coordinator; ranks only obey.
//!
//! `world` is the contract between the coordinator and its ranks. Never starts a process (`launch`), never knows what
//! an operation is (`suite`).

mod world;

pub use world::{
    Command, Failure, Observed, Probe, RankSide, Ready, Reply, SampleRequest, Samples, Starter, Verdict, VerdictKind,
    World, WorldSpec, WrongReport,
};

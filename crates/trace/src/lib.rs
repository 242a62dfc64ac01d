//! Clock, span rings, operation points: the one hook for spans, entered/left, and injected faults.
//!
//! Knows when things happened; never what they mean for the measurement.

pub mod chrome;
pub mod nvtx;
pub mod timeline;

mod clock;
mod descheduled;
mod inject;
mod point;
mod ring;
mod steps;

pub use clock::Clock;
pub use inject::{Injection, InjectionKind, SlowBy, USAGE as INJECTION_USAGE};
pub use point::{Hook, OperationState, OwnSlot, StatusPage, StatusSlot};
pub use ring::{Ring, Span};
pub use steps::{ExchangeNote, Mark, RankSteps, StepRecorder, timeline as timeline_of_steps};

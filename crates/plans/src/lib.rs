//! Plans: those that the program brings along, those that other tools' configurations become, and what a plan would do on a
//! machine or under a launcher before anything is started. Prints nothing, starts no rank.

#![forbid(unsafe_code)]

pub mod backends;
pub mod calibration;
pub mod dry_run;
pub mod equal_runs;
pub mod estimate;
pub mod fleet;
pub mod foreign;
pub mod gates;
pub mod hardware;
pub mod job;
pub mod known_answers;
pub mod measured_steps;
pub mod next;
pub mod only;
pub mod outlook;
pub mod placement;
pub mod presets;
pub mod program;
pub mod quick;
pub mod ranks;
mod read;
pub mod readiness;
pub mod sealed;
pub mod states;
pub mod trust;

pub use read::{Loaded, Surroundings, load, load_kept, made_of, of_command_line};

//! The job of another program: traced while it runs, explained by its traces, and looked at from outside while it hangs. What is
//! found is kept in a record as that of a case is. Prints nothing, and knows no argument of the command line.

#![forbid(unsafe_code)]

mod calls;
mod disturbance;
mod ends;
pub mod explain;
mod files;
mod hang_watch;
mod hangs;
mod kept;
pub mod live;
mod ras_words;
mod spill;
mod traced;

pub use explain::Wanted;
pub use kept::{ABOUT, is_of_job};
pub use traced::{Asked, Traced, run};

/// Where traces are, in a record and in the folder of a job.
pub const TRACES: &str = "trace";

/// What a record keeps of the command that made it.
pub struct Origin {
    /// The words of its command line.
    pub command_line: Vec<String>,
    /// The environment, of which a record keeps some variables.
    pub environment: Vec<(String, String)>,
}

/// Refuses to write into a record that is there already.
fn taken(folder: &std::path::Path) -> terms::Error {
    terms::Error::new(format!("{} is a record already", folder.display()))
        .hint("name a folder of its own, or leave --output-dir out")
}

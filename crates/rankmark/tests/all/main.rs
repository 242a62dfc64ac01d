//! The program from outside: arguments, exit codes, streams, records on disk, signals. Every start of it has a hard
//! limit, and every test ends by looking for processes that outlived the one that they belong to.

#![expect(clippy::disallowed_methods, reason = "variables choose what is tested")]

mod archives;
mod comparing;
mod completions;
mod dashboards;
mod directories;
mod dry_run;
mod dumps;
mod endings;
mod expected;
mod exports;
mod external;
#[path = "../../../../tests/fakes.rs"]
mod fakes;
mod faults;
mod fleets;
mod foreign;
mod gates;
mod gpus;
mod groups;
mod habits;
mod hardware;
mod help;
mod history;
mod hosts;
mod huge;
mod imports;
mod interference;
mod interleaved;
mod interrupts;
mod jobs;
mod killed;
mod kills;
mod kubernetes;
mod labels;
mod launched;
mod lines;
mod manners;
mod manual;
mod mounted;
mod mpi;
mod namespaces;
mod nccl_tests_json;
mod next_lines;
mod node_checks;
mod nvtx;
mod packing;
mod place;
mod plans;
mod presets;
mod primitive_gpus;
mod processes;
mod profile;
mod profile_ends;
mod progress;
mod promises;
mod pytorch;
mod readiness;
mod reproducible;
mod resuming;
mod sandbox;
mod schemas;
mod simulated;
mod sizes;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod slurm;
mod snapshots;
mod staged;
mod startup;
mod states;
mod toy;
mod toy_backend;
mod training;
mod trust;
mod tutorials;
mod typed;
mod validate;
#[path = "../../../record/tests/all/validator.rs"]
mod validator;
mod verdicts;
mod version;
mod watch;
mod wrong_words;

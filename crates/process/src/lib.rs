//! Processes of this host: how they are started, bound to cores, watched, heard, signalled and reaped. Knows nothing of
//! ranks, worlds, or what processes say to each other.
//!
//! System calls go through `rustix`, which checks what it is given. `libc` and `unsafe` stay where it has no counterpart:
//! signal handlers, sets of more than 1,024 cores, a poll set that is reused, the allocator, and what runs between fork and exec.

pub mod child;
pub mod interrupt;
pub mod stack;

mod activity;
mod adopt;
mod alarm;
mod ancestors;
mod attached;
mod courier;
mod descriptor;
mod lines;
mod memory;
mod others;
mod output;
mod pidfd;
mod placement;
mod poll;
mod program;
mod signal;
mod start;

pub use activity::Activity;
pub use adopt::Adoption;
pub use alarm::Alarm;
pub use ancestors::{Ancestor, ancestors, began, descendants, parent, parent_of, processor_time_below};
pub use attached::attached;
pub use courier::Courier;
pub use descriptor::{
    inherited_memory, inherited_socket, keep_on_exec, output_pipe, path_of, sealed_memory, sealed_memory_at,
};
pub use lines::Lines;
pub use memory::release_memory;
pub use others::{all_processes, command_line, control_groups, variables};
pub use output::Output;
pub use pidfd::{Exit, Process};
pub use placement::{CoreMask, allowed_cores, core_of, cores_of, host_name, pid_namespace};
pub use poll::{Interest, PollSet};
pub use program::{first_program, hand_over, is_program, version_of};
pub use signal::{keep_children, signal_name};
pub use start::{ITSELF, Tie, own_name, spawn};

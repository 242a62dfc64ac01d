//! What needs a process of its own.

mod allocations;

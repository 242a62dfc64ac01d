//! Loops multiply and add, and their rates are those of a processor.

mod peak;

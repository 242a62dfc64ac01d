//! The report from outside: invented runs in, files out.

mod data;

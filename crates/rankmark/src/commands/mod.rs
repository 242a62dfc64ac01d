//! One module a command.

pub(crate) mod comm;
pub(crate) mod completions;
pub(crate) mod gen_config;
pub(crate) mod gen_job;
pub(crate) mod list;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod train;
pub(crate) mod trust;
pub(crate) mod validate;

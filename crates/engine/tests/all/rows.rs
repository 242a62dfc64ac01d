//! Tests of [`engine::op::Rows`]: gradients by finite differences, types against f64, versions and threads against each
//! other, and what is special about single operations.

pub(crate) mod cases;
pub(crate) mod dropout;
mod lab;
pub(crate) mod loss;
mod norms;
pub(crate) mod on_device;
pub(crate) mod properties;
pub(crate) mod single;

pub(crate) use lab::{Lab, noise, rounded};

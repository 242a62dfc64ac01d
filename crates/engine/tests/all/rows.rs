//! Tests of [`engine::op::Rows`]: gradients by finite differences, types against f64, versions and threads against each
//! other, and what is special about single operations.

mod cases;
mod dropout;
mod lab;
mod loss;
mod properties;
mod single;

pub(crate) use lab::{Lab, noise};

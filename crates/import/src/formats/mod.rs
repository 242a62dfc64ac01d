//! One module a file format, and the table of them.

use crate::Format;

mod imb;
mod nccl;
mod nccl_tests;
mod osu;

/// Every format, in the order in which files are tried: the most particular first.
pub static FORMATS: &[&dyn Format] = &[&nccl_tests::NcclTests, &osu::Osu, &imb::Imb];

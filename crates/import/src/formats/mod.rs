//! One module a file format, and the table of them.

use crate::Format;

mod all_reduce_bench;
mod allreduce_study;
mod csv;
mod ddlb_csv;
mod imb;
mod nccl;
mod nccl_tests;
mod nccl_tests_json;
mod osu;

/// Every format, in the order in which files are tried: the most particular first.
pub static FORMATS: &[&dyn Format] = &[
    &nccl_tests_json::NcclTestsJson,
    &nccl_tests_json::RcclTestsJson,
    &ddlb_csv::DdlbCsv,
    &allreduce_study::AllreduceStudy,
    &all_reduce_bench::AllReduceBench,
    &nccl_tests::NcclTests,
    &osu::Osu,
    &imb::Imb,
];

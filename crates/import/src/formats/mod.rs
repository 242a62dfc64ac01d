//! One module a file format, and the table of them.

use crate::Format;

mod all_reduce_bench;
mod allreduce_study;
mod candle;
mod command;
mod csv;
mod ddlb;
mod ddlb_csv;
mod deepspeed;
mod hf_trainer;
mod imb;
mod megatron;
mod nccl;
mod nccl_bandwidth;
mod nccl_lines;
mod nccl_row;
mod nccl_tests;
mod nccl_tests_json;
mod nemo;
mod osu;
mod row_like;
mod runs;
mod torchscale;
mod torchtitan;
mod trainer_run;
mod trainer_state;
pub(crate) mod training_log;
mod training_runs;
mod training_steps;
mod training_text;
mod versions;

/// Every format, in the order in which files are tried: the most particular first.
pub static FORMATS: &[&dyn Format] = &[
    &ddlb::Ddlb,
    &torchscale::Torchscale,
    &candle::Candle,
    &nccl_tests_json::NcclTestsJson,
    &nccl_tests_json::RcclTestsJson,
    &ddlb_csv::DdlbCsv,
    &allreduce_study::AllreduceStudy,
    &all_reduce_bench::AllReduceBench,
    &nccl_tests::NcclTests,
    &osu::Osu,
    &imb::Imb,
    &torchtitan::Torchtitan,
    &megatron::Megatron,
    &nemo::Nemo,
    &deepspeed::DeepSpeed,
    &hf_trainer::HfTrainer,
    &trainer_state::TrainerState,
];

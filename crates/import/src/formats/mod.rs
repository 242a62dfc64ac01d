//! One module a file format, and the table of them.

use crate::Format;

mod all_reduce_bench;
mod allreduce_study;
mod bars;
mod candle;
mod cloudai;
mod command;
mod csv;
mod ddlb;
mod ddlb_csv;
mod deepspeed;
mod deepspeed_comms;
mod deepspeed_tables;
mod ds_bench;
mod gpu_copies;
mod hf_trainer;
mod imb;
mod imb_head;
mod imb_table;
mod megatron;
mod nccl;
mod nccl_bandwidth;
mod nccl_collector;
mod nccl_debug;
pub(crate) mod nccl_inspector_prom;
mod nccl_lines;
mod nccl_row;
mod nccl_tests;
mod nccl_tests_json;
mod nemo;
mod nvbandwidth;
mod nvbandwidth_json;
mod nvbandwidth_lines;
mod nvbandwidth_tests;
mod osu;
mod osu_rows;
mod osu_table;
mod osu_title;
mod p2p_bandwidth;
mod perftest;
mod perftest_rows;
pub(crate) mod rdma;
mod row_like;
mod runs;
mod sizes;
mod torchscale;
mod torchtitan;
mod tqdm;
mod trainer_batches;
mod trainer_run;
mod trainer_state;
pub(crate) mod training_log;
mod training_runs;
mod training_steps;
mod training_text;
mod transferbench;
mod versions;

/// Every format, in the order in which files are tried: the most particular first.
pub static FORMATS: &[&dyn Format] = &[
    &ddlb::Ddlb,
    &torchscale::Torchscale,
    &candle::Candle,
    &cloudai::CloudAi,
    &nccl_tests_json::NcclTestsJson,
    &nccl_tests_json::RcclTestsJson,
    &nvbandwidth_json::NvbandwidthJson,
    &ddlb_csv::DdlbCsv,
    &allreduce_study::AllreduceStudy,
    &all_reduce_bench::AllReduceBench,
    &deepspeed_comms::DeepspeedComms,
    &ds_bench::DsBench,
    &nccl_inspector_prom::NcclInspectorProm,
    &nccl_tests::NcclTests,
    &nvbandwidth::Nvbandwidth,
    &p2p_bandwidth::P2pBandwidth,
    &transferbench::TransferBench,
    &perftest::Perftest,
    &osu::Osu,
    &imb::Imb,
    &torchtitan::Torchtitan,
    &megatron::Megatron,
    &nemo::Nemo,
    &deepspeed::DeepSpeed,
    &hf_trainer::HfTrainer,
    &trainer_state::TrainerState,
    &tqdm::Tqdm,
];

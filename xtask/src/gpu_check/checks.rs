//! The checks of native ranks, and what a check is. A new one is a line. Those of PyTorch ranks are in `pytorch`.

mod pytorch;

use serde_json::Value;

use super::stages::Stage;

/// A command and what it must answer.
pub(super) struct Check {
    /// Name of the check, and of its file and record.
    pub(super) name: &'static str,
    /// Words of the command. `rankmark`, `python`, `torchrun` and `--record` are replaced.
    pub(super) command: &'static str,
    pub(super) code: i32,
    pub(super) expected: Expected,
    pub(super) stage: Stage,
    /// About how long it takes on an H200.
    pub(super) seconds: u64,
}

impl Check {
    /// Moves the check to an earlier stage, or gives it another time.
    const fn at(self, stage: Stage, seconds: u64) -> Self {
        Self { stage, seconds, ..self }
    }
}

/// What is expected besides the exit code.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    /// At least so many cases on the GPU, all of them right.
    Right(usize),
    /// At least so many cases on the GPU, all of them right. Cases of these libraries are skipped where they are not installed.
    RightWithout(usize, &'static [&'static str]),
    /// A wrong element is found.
    Wrong,
    Says(&'static [&'static str]),
    /// A case on the GPU whose products, in this precision, computed other operations at once.
    Joined(&'static str),
    /// A profile that passes this.
    Profile(fn(&Value) -> Result<String, String>),
}

/// One of the last stage, which takes 15 s.
pub(in crate::gpu_check) const fn check(
    name: &'static str,
    code: i32,
    expected: Expected,
    command: &'static str,
) -> Check {
    Check { name, command, code, expected, stage: Stage::Rest, seconds: 15 }
}

/// All, in their order.
pub(super) fn all() -> impl Iterator<Item = &'static Check> {
    CHECKS.iter().chain(pytorch::CHECKS)
}

const CHECKS: &[Check] = &[
    check(
        "driver",
        0,
        Expected::Right(1),
        "rankmark comm broadcast --device cuda --backend shm --ranks 1 --bytes 8 --quick --json --record",
    )
    .at(Stage::Driver, 6),
    check(
        "text_check",
        0,
        Expected::Right(1),
        "rankmark comm all_reduce --device cuda --backend shm --ranks 1 --bytes 64KiB --quick --json --record",
    )
    .at(Stage::Kernels, 6),
    check(
        "text_loops",
        0,
        Expected::Right(1),
        "rankmark hardware triad --device cuda --ranks 1 --bytes 1MiB --quick --json --record",
    )
    .at(Stage::Kernels, 8),
    check(
        "text_rows",
        0,
        Expected::Right(1),
        "rankmark primitive tp_columnwise --device cuda --backend shm --ranks 1 -m 256 -n 64 -k 64 --dtype f32 --implementation compute_only:size=unsharded --max-seconds 0.1s --quick --json --record",
    )
    .at(Stage::Kernels, 6),
    check(
        "text_train_norm_attention_plain",
        0,
        Expected::Right(1),
        "rankmark train --device cuda --backend shm --ranks 1 --model gpt2-mini --layers 1 --width 128 --heads 2 --vocabulary 96 --sequence 40 --batch 2 --precision f32 --attention own --warmup 0 --steps 2 --trials 1 --spacing 0s --limits false --json --record",
    )
    .at(Stage::Kernels, 8),
    check(
        "text_attention",
        0,
        Expected::Right(1),
        "rankmark train --device cuda --backend shm --ranks 1 --model gpt2-mini --layers 1 --width 128 --heads 2 --vocabulary 96 --sequence 40 --batch 2 --precision bf16 --attention own --warmup 0 --steps 2 --trials 1 --spacing 0s --limits false --json --record",
    )
    .at(Stage::Kernels, 8),
    check(
        "text_spatial",
        0,
        Expected::Right(1),
        "rankmark train --device cuda --backend shm --ranks 1 --model resnet18 --image 33 --classes 7 --width 8 --batch 2 --precision f32 --warmup 0 --steps 2 --trials 1 --spacing 0s --limits false --json --record",
    )
    .at(Stage::Kernels, 10),
    check(
        "products_of_each_type",
        0,
        Expected::Right(6),
        "rankmark primitive tp_columnwise --device cuda --backend shm --ranks 1 -m 256 -n 64 -k 64 --dtype f32,f64,bf16,f16,f8e4m3,i8 --implementation compute_only:size=unsharded --max-seconds 0.1s --quick --json --record",
    )
    .at(Stage::Products, 12),
    check(
        "products_of_each_epilogue",
        0,
        Expected::Joined("bf16"),
        "rankmark train --device cuda --backend shm --ranks 1 --model gpt2-mini --layers 2 --width 128 --heads 2 --vocabulary 96 --sequence 64 --batch 4 --precision bf16 --attention own --warmup 0 --steps 2 --trials 1 --spacing 0s --limits false --json --record",
    )
    .at(Stage::Products, 10),
    check(
        "nccl_call",
        0,
        Expected::Right(1),
        "rankmark comm all_reduce --backend nccl --ranks 1 --bytes 64KiB --quick --json --record",
    )
    .at(Stage::Nccl, 8),
    check(
        "gpt2_mini_step",
        0,
        Expected::Right(1),
        "rankmark train --device cuda --ranks 1 --model gpt2-mini --precision bf16 --limits false --quick --json --record",
    )
    .at(Stage::Step, 12),
    check(
        "validate",
        0,
        Expected::Says(&["GPU 0"]),
        "rankmark validate --verbose",
    )
    .at(Stage::Driver, 8),
    check(
        "native_operations",
        0,
        Expected::Right(31),
        "rankmark comm all_reduce,all_gather,reduce_scatter,broadcast,reduce,all_to_all,all_to_allv,gather,scatter,send_recv,barrier --backend nccl --ranks 1 --bytes 8,64KiB,16MiB --quick --json --record",
    ),
    check(
        "native_through_the_host",
        0,
        Expected::Right(34),
        "rankmark comm all_reduce,all_gather,reduce_scatter,broadcast,reduce,all_to_all,all_to_allv,gather,scatter,send_recv,ping_pong,barrier --device cuda --backend shm --ranks 2 --env NCCL_MULTI_RANK_GPU_ENABLE=1 --bytes 8,64KiB,16MiB --quick --json --record",
    ),
    check(
        "native_types",
        0,
        Expected::Right(80),
        "rankmark comm all_reduce --backend nccl --ranks 1 --dtype f32,f64,f16,bf16,i8,i32,i64,u8,u32,u64 --in-place true,false --buffers registered,private --mode streaming,isolated --bytes 1MiB --quick --json --record",
    ),
    check(
        "native_large",
        0,
        Expected::Right(2),
        "rankmark comm all_reduce,all_gather --backend nccl --ranks 1 --bytes 16GiB --quick --json --record",
    ),
    check(
        "native_beside_pytorch",
        0,
        Expected::Right(6),
        "rankmark comm all_reduce --device cuda --runtime native,pytorch --in-place true --buffers private --ranks 1 --bytes 8,1MiB,256MiB --quick --json --record",
    ),
    check(
        "native_default_ranks",
        0,
        Expected::Right(1),
        "rankmark comm all_reduce --backend nccl --device cuda --bytes 1MiB --quick --json --record",
    ),
    check(
        "native_torchrun",
        0,
        Expected::Right(1),
        "torchrun --standalone --nproc-per-node 1 --no-python rankmark comm all_reduce --device cuda --bytes 1MiB --quick --json --record",
    ),
    check(
        "native_shared_refused",
        2,
        Expected::Says(&["give ranks 0 and 1 one GPU"]),
        "rankmark comm all_reduce --backend nccl --ranks 2 --quick --record",
    ),
    check(
        "native_too_large",
        2,
        Expected::Says(&["not enough memory for a buffer on"]),
        "rankmark comm all_reduce --backend nccl --ranks 1 --bytes 300GiB --quick --record",
    ),
    check(
        "native_wrong",
        1,
        Expected::Wrong,
        "rankmark comm all_reduce --backend nccl --ranks 1 --bytes 1MiB --inject wrong:rank=0,element=5,at=0,every=1 --quick --json --record",
    ),
    check(
        "native_killed",
        1,
        Expected::Says(&["rank 0"]),
        "rankmark comm all_reduce --backend nccl --ranks 1 --bytes 1MiB --inject kill:rank=0,at=17 --quick --record",
    ),
    check(
        "native_graphs",
        0,
        Expected::Right(12),
        "rankmark comm all_reduce,all_gather --backend nccl --ranks 1 --bytes 8,64KiB,16MiB --graph 20 --in-place true,false --quick --json --record",
    ),
    check(
        "native_groups",
        0,
        Expected::Right(3),
        "rankmark comm all_reduce --backend nccl --ranks 1 --bytes 8,64KiB,16MiB --aggregate 4 --quick --json --record",
    ),
    check(
        "native_registrations",
        0,
        Expected::Right(2),
        "rankmark comm all_reduce --backend nccl --ranks 1 --bytes 1MiB,16MiB --registration local --offset-bytes 64 --quick --json --record",
    ),
    check(
        "native_hardware",
        0,
        Expected::Right(17),
        "rankmark hardware copy,scale,add,triad,device_copy,host_to_device,device_to_host,host_both_ways,host_latency --device cuda --ranks 1 --quick --json --record",
    ),
    check(
        "native_products",
        0,
        Expected::Right(12),
        "rankmark hardware gemm --device cuda --ranks 1 --dtype f32,bf16,f16,f64,f8e4m3,i8 --size 4096,8192 --quick --json --record",
    )
    .at(Stage::Products, 25),
    check(
        "native_products_tf_tuned",
        0,
        Expected::Right(2),
        "rankmark hardware gemm --device cuda --ranks 1 --matmul auto,tf32 --tuned --size 4096 --quick --json --record",
    ),
    check(
        "native_registers",
        0,
        Expected::Right(2),
        "rankmark hardware fma --device cuda --ranks 1 --dtype f32,f64 --quick --json --record",
    ),
    check(
        "native_product_shapes",
        0,
        Expected::Right(80),
        "rankmark primitive tp_columnwise --device cuda --ranks 1 -m 1,33,257,1000 -n 8,40,129,1024,2047 -k 72 --dtype f32,f64,bf16,f16 --implementation compute_only:size=unsharded --data random --max-seconds 0.1s --quick --json --record",
    ),
    check(
        "native_primitives",
        0,
        Expected::Right(66),
        "rankmark primitive tp_columnwise,tp_rowwise,dp_all_reduce,ep_all_to_all --device cuda --ranks 1 -m 8192 -n 1024 -k 1024 --dtype bf16,f32 --max-seconds 0.3s --quick --json --record",
    ),
    check(
        "native_attention",
        0,
        Expected::Right(8),
        "rankmark primitive cp_ring --device cuda --ranks 1 -m 2048 -n 8 -k 64 --max-seconds 0.3s --quick --json --record",
    ),
    check(
        "native_experts",
        0,
        Expected::Right(7),
        "rankmark primitive ep_all_to_all --device cuda --ranks 1 -m 4096 -n 1024 -k 1024 --experts 16 --top-k 4 --tokens zipf --dtype bf16 --max-seconds 0.3s --quick --json --record",
    ),
    check(
        "native_primitives_shared",
        0,
        Expected::Right(33),
        "rankmark primitive tp_columnwise,tp_rowwise,dp_all_reduce,ep_all_to_all --device cuda --backend shm --ranks 2 --env NCCL_MULTI_RANK_GPU_ENABLE=1 -m 4096 -n 1024 -k 1024 --max-seconds 0.3s --quick --json --record",
    ),
    check(
        "native_seed_beside_pytorch",
        0,
        Expected::RightWithout(14, &["transformer_engine", "jax", "async_tp"]),
        "rankmark primitive tp_columnwise --device cuda --runtime native,pytorch --ranks 1 -m 65536 -n 1024 -k 1024 --implementation compute_only,communication_only,sequential,pipelined --max-seconds 1s --quick --json --record --python python",
    ),
    check(
        "native_training",
        0,
        Expected::Right(6),
        "rankmark train --device cuda --ranks 1 --model gpt2-mini,llama-tiny,bert-base --precision f32,bf16 --quick --json --record",
    ),
    check(
        "native_training_shared",
        0,
        Expected::Right(4),
        "rankmark train --device cuda --backend shm --ranks 2 --env NCCL_MULTI_RANK_GPU_ENABLE=1 --sharded 0,2 --precision f32,bf16 --quick --json --record",
    ),
    check(
        "native_training_memory",
        0,
        Expected::Right(2),
        "rankmark memory --device cuda --model gpt2 --sequence 1024 --batch 4,16 --precision bf16 --json --record",
    ),
    check(
        "attention_norm_train_race",
        0,
        Expected::Says(&["RACECHECK SUMMARY: 0 hazards displayed"]),
        "compute-sanitizer --tool racecheck --target-processes all rankmark train --device cuda --backend shm --ranks 1 --model gpt2-mini --layers 1 --sequence 200 --batch 2 --attention own --precision bf16,f32 --warmup 0 --steps 1 --trials 1 --spacing 0s --limits false --record",
    )
    .at(Stage::Barriers, 25),
    check(
        "spatial_race",
        0,
        Expected::Says(&["RACECHECK SUMMARY: 0 hazards displayed"]),
        "compute-sanitizer --tool racecheck --target-processes all rankmark train --device cuda --backend shm --ranks 1 --model resnet18 --image 33 --width 16 --batch 2 --precision bf16,f32 --warmup 0 --steps 1 --trials 1 --spacing 0s --limits false --record",
    )
    .at(Stage::Barriers, 25),
    check(
        "attention_norm_train_sync",
        0,
        Expected::Says(&["ERROR SUMMARY: 0 errors"]),
        "compute-sanitizer --tool synccheck --target-processes all rankmark train --device cuda --backend shm --ranks 1 --model gpt2-mini --layers 1 --sequence 200 --batch 2 --attention own --precision bf16,f32 --warmup 0 --steps 1 --trials 1 --spacing 0s --limits false --record",
    )
    .at(Stage::Barriers, 25),
    check(
        "spatial_sync",
        0,
        Expected::Says(&["ERROR SUMMARY: 0 errors"]),
        "compute-sanitizer --tool synccheck --target-processes all rankmark train --device cuda --backend shm --ranks 1 --model resnet18 --image 33 --width 16 --batch 2 --precision bf16,f32 --warmup 0 --steps 1 --trials 1 --spacing 0s --limits false --record",
    )
    .at(Stage::Barriers, 25),
    check(
        "attention_norm_train_memory",
        0,
        Expected::Says(&["ERROR SUMMARY: 0 errors"]),
        "compute-sanitizer --tool memcheck --report-api-errors no --target-processes all rankmark train --device cuda --backend shm --ranks 1 --model gpt2-mini --layers 1 --sequence 200 --batch 2 --attention own --precision bf16,f32 --warmup 0 --steps 1 --trials 1 --spacing 0s --limits false --record",
    )
    .at(Stage::Barriers, 25),
    check(
        "spatial_memory",
        0,
        Expected::Says(&["ERROR SUMMARY: 0 errors"]),
        "compute-sanitizer --tool memcheck --report-api-errors no --target-processes all rankmark train --device cuda --backend shm --ranks 1 --model resnet18 --image 33 --width 16 --batch 2 --precision bf16,f32 --warmup 0 --steps 1 --trials 1 --spacing 0s --limits false --record",
    )
    .at(Stage::Barriers, 25),
    // Heads of 128 features.
    check(
        "attention_wide_race",
        0,
        Expected::Says(&["RACECHECK SUMMARY: 0 hazards displayed"]),
        "compute-sanitizer --tool racecheck --target-processes all rankmark train --device cuda --backend shm --ranks 1 --model gpt2-mini --layers 1 --heads 2 --sequence 100 --batch 2 --attention own --precision f16 --warmup 0 --steps 1 --trials 1 --spacing 0s --limits false --record",
    ),
    // Heads of 128 features.
    check(
        "attention_wide_sync",
        0,
        Expected::Says(&["ERROR SUMMARY: 0 errors"]),
        "compute-sanitizer --tool synccheck --target-processes all rankmark train --device cuda --backend shm --ranks 1 --model gpt2-mini --layers 1 --heads 2 --sequence 100 --batch 2 --attention own --precision f16 --warmup 0 --steps 1 --trials 1 --spacing 0s --limits false --record",
    ),
    // Heads of 128 features.
    check(
        "attention_wide_memory",
        0,
        Expected::Says(&["ERROR SUMMARY: 0 errors"]),
        "compute-sanitizer --tool memcheck --report-api-errors no --target-processes all rankmark train --device cuda --backend shm --ranks 1 --model gpt2-mini --layers 1 --heads 2 --sequence 100 --batch 2 --attention own --precision f16 --warmup 0 --steps 1 --trials 1 --spacing 0s --limits false --record",
    ),
    check(
        "attention_same_bits",
        0,
        Expected::Right(2),
        "rankmark train --device cuda --backend shm --ranks 1 --model gpt2-mini --layers 2 --sequence 200 --precision bf16,f16 --attention own --reproducible --warmup 0 --steps 2 --trials 2 --spacing 0s --limits false --json --record",
    ),
    check(
        "native_products_sanitizer",
        0,
        Expected::Says(&["ERROR SUMMARY: 0 errors"]),
        "compute-sanitizer --target-processes all --report-api-errors no rankmark primitive tp_columnwise,ep_all_to_all --device cuda --ranks 1 -m 256 -n 64 -k 64 --max-seconds 0.05s --quick --record",
    ),
    check(
        "native_products_race",
        0,
        Expected::Says(&["RACECHECK SUMMARY: 0 hazards displayed"]),
        "compute-sanitizer --tool racecheck --target-processes all rankmark primitive tp_columnwise,ep_all_to_all --device cuda --ranks 1 -m 256 -n 64 -k 64 --implementation sequential,pipelined --max-seconds 0.05s --quick --record",
    ),
    check(
        "native_hardware_beside_pytorch",
        0,
        Expected::Right(6),
        "rankmark hardware triad,host_to_device,device_to_host --device cuda --runtime native,pytorch --ranks 1 --bytes 384MiB --quick --json --record",
    ),
    check(
        "native_sanitizer",
        0,
        Expected::Says(&["ERROR SUMMARY: 0 errors"]),
        "compute-sanitizer --target-processes all --report-api-errors no rankmark comm all_gather,all_reduce --backend nccl --ranks 1 --bytes 65KiB --dtype f32,u8,f64,f16 --quick --record",
    ),
];

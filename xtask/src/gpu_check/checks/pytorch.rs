//! Checks of PyTorch ranks, and of profiles of PyTorch's jobs.

use super::{Check, Expected, check};
use crate::gpu_check::profiles::{busy, idle, input, slow, steps};

/// NCCL_MULTI_RANK_GPU_ENABLE permits two ranks on one GPU. gloo moves their data through the host. Such ranks are not equally
/// fast, because the GPU runs one after the other.
pub(super) const CHECKS: &[Check] = &[
    check(
        "validate_pytorch",
        0,
        Expected::Says(&["pytorch/nccl  is available"]),
        "rankmark validate --verbose --python python",
    ),
    check(
        "comm_operations",
        0,
        Expected::Right(19),
        "rankmark comm all_reduce,all_gather,reduce_scatter,broadcast,reduce,all_to_all,all_to_allv,gather,scatter,barrier --device cuda --ranks 1 --bytes 64KiB,4MiB --quick --json --record --python python",
    ),
    check(
        "comm_types",
        0,
        Expected::Right(8),
        "rankmark comm all_reduce --device cuda --ranks 1 --dtype f32,f64,f16,bf16,i8,i32,i64,u8 --bytes 4MiB --quick --json --record --python python",
    ),
    check(
        "comm_large",
        0,
        Expected::Right(2),
        "rankmark comm all_reduce,all_gather --device cuda --ranks 1 --bytes 4GiB --quick --json --record --python python",
    ),
    check(
        "comm_calls",
        0,
        Expected::Right(3),
        "rankmark comm all_reduce --device cuda --ranks 1 --call blocking,async,coalesced --bytes 1MiB --quick --json --record --python python",
    ),
    check(
        "comm_gloo_shared",
        0,
        Expected::Right(13),
        "rankmark comm all_reduce,all_gather,reduce_scatter,broadcast,reduce,all_to_all,barrier --device cuda --backend gloo --ranks 2 --bytes 64KiB,4MiB --env NCCL_MULTI_RANK_GPU_ENABLE=1 --quick --json --record --python python",
    ),
    check(
        "comm_shared_refused",
        2,
        Expected::Says(&["GPU"]),
        "rankmark comm all_reduce --device cuda --ranks 2 --quick --record --python python",
    ),
    check(
        "comm_shared_refused_torchrun",
        1,
        Expected::Says(&["GPU"]),
        "env CUDA_VISIBLE_DEVICES=0 torchrun --standalone --nproc-per-node 2 --no-python rankmark comm all_reduce --device cuda --runtime pytorch --quick --record",
    ),
    check(
        "comm_torchrun",
        0,
        Expected::Right(1),
        "torchrun --standalone --nproc-per-node 1 --no-python rankmark comm all_reduce --device cuda --runtime pytorch --ranks 1 --bytes 1MiB --quick --json --record",
    ),
    check(
        "comm_default_ranks",
        0,
        Expected::Right(1),
        "rankmark comm all_reduce --device cuda --bytes 1MiB --quick --json --record --python python",
    ),
    check(
        "comm_too_large",
        2,
        Expected::Says(&["memory"]),
        "rankmark comm all_reduce --device cuda --ranks 1 --bytes 300GiB --quick --record --python python",
    ),
    check(
        "comm_wrong",
        1,
        Expected::Wrong,
        "rankmark comm all_reduce --device cuda --ranks 1 --bytes 1MiB --inject wrong:rank=0,element=5,at=0,every=1 --quick --json --record --python python",
    ),
    check(
        "comm_killed",
        1,
        Expected::Says(&["rank 0"]),
        "rankmark comm all_reduce --device cuda --ranks 1 --bytes 1MiB --inject kill:rank=0,at=17 --quick --record --python python",
    ),
    check(
        "hardware",
        0,
        Expected::Right(5),
        "rankmark hardware triad,copy,gemm,host_to_device,device_to_host --device cuda --quick --json --record --python python",
    ),
    check(
        "primitives",
        0,
        Expected::RightWithout(10, &["transformer_engine", "jax"]),
        "rankmark primitive tp_columnwise,tp_rowwise,dp_all_reduce --device cuda --ranks 1 -m 8192 -n 1024 -k 1024 --dtype bf16 --quick --json --record --python python",
    ),
    check(
        "train_types",
        0,
        Expected::Right(3),
        "rankmark train --model gpt2-mini --device cuda --precision f64,f32,bf16 --quick --json --record --python python",
    ),
    check(
        "train_models",
        0,
        Expected::Right(4),
        "rankmark train --model gpt2,llama-tiny,bert-base,resnet18 --device cuda --precision bf16 --quick --json --record --python python",
    ),
    check(
        "train_sharded_shared",
        0,
        Expected::Right(3),
        "rankmark train --model gpt2-mini --device cuda --backend gloo --ranks 2 --sharded 0,2,3 --env NCCL_MULTI_RANK_GPU_ENABLE=1 --quick --json --record --python python",
    ),
    check(
        "profile_busy",
        0,
        Expected::Profile(busy),
        "rankmark profile --json --record -- torchrun --standalone --nproc-per-node 1 xtask/jobs/gpu.py --width 4096",
    ),
    check(
        "profile_input",
        0,
        Expected::Profile(input),
        "rankmark profile --json --record -- torchrun --standalone --nproc-per-node 1 xtask/jobs/gpu.py --input-ms 20",
    ),
    check(
        "profile_launch",
        0,
        Expected::Profile(idle),
        "rankmark profile --json --record -- torchrun --standalone --nproc-per-node 1 xtask/jobs/gpu.py --launch-ms 20",
    ),
    check(
        "profile_slow_rank",
        0,
        Expected::Profile(slow),
        "rankmark profile --json --record -- torchrun --standalone --nproc-per-node 2 xtask/jobs/gpu.py --width 512 --slow-rank 1 --slow-ms 20",
    ),
    check(
        "profile_two_ranks",
        0,
        Expected::Profile(steps),
        "rankmark profile --json --record -- torchrun --standalone --nproc-per-node 2 xtask/jobs/gpu.py --width 512",
    ),
    check(
        "profile_python",
        0,
        Expected::Profile(steps),
        "rankmark profile --json --record -- python xtask/jobs/gpu.py",
    ),
    check(
        "profile_trainer",
        0,
        Expected::Profile(steps),
        "rankmark profile --json --record -- python xtask/jobs/trainer.py",
    ),
    check(
        "profile_out_of_memory",
        1,
        Expected::Says(&["OutOfMemoryError"]),
        "rankmark profile --record -- torchrun --standalone --nproc-per-node 1 xtask/jobs/gpu.py --fail-at 60",
    ),
    check(
        "python_tests",
        0,
        Expected::Says(&["OK", "Ran "]),
        "env PYTHONPATH=python:python/tests python -m unittest discover -s python/tests",
    ),
];

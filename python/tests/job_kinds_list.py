"""Names of the jobs in job_kinds.py, for processes that have not imported torch."""

# Those that take other ways through PyTorch than the rest, and start fast.
SMALL = ["ddp", "in_backward", "functions", "join", "helpers", "failing"]
ALL = [
    *SMALL,
    "hooks_of_ddp",
    "fsdp1",
    "fsdp2",
    "hsdp",
    "tensor_parallel",
    "pipeline",
    "compiled",
    "compiled_step",
    "compiled_whole",
    "zero",
    "optimizers",
    "accumulated",
    "local_sgd",
    "by_hand",
    "own_profiler",
    "evaluation",
    "checkpoints",
    "forked_workers",
    "spawned_workers",
]
TIMED = ["ddp", "in_backward", "pipeline", "local_sgd", "accumulated"]

"""A rank of Rankmark in the user's own Python: obeys the coordinator, moves data by torch.distributed.

Travels inside the binary (`crates/launch/src/pytorch.rs`) and mirrors `crates/control`, `crates/launch/src/rank` and
`crates/benchmarks/src/rank.rs`; what both speak is told in docs/explanation/pytorch-ranks.md. Only `group` and `collective` know torch.
"""

"""A rank of Rankmark in the user's own Python: obeys the coordinator, moves data by torch.distributed.

Travels inside the binary (`crates/launch/src/pytorch.rs`) and mirrors `crates/control`, `crates/launch/src/rank` and
`crates/benchmarks/src/rank.rs`; docs/explanation/pytorch-ranks.md has the protocol. Only `group` and `collective` know
torch.
"""

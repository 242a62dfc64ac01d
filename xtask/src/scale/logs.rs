//! Files of other tools, of any length: traces of PyTorch's profiler, and tables of nccl-tests and OSU's benchmarks.

use std::io::{self, Write};

/// In what the calls of a trace differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Distinct {
    /// Each is of a communicator of its own.
    Groups,
    /// Each has a size of its own.
    Sizes,
}

/// Writes a trace of a rank of two, with so many calls in so many steps; 0: it marks none. A call has 300 bytes.
pub(super) fn trace(
    to: &mut dyn Write,
    (calls, steps): (usize, usize),
    distinct: Distinct,
    rank: u32,
) -> io::Result<()> {
    let head = format!(r#""distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":2}}"#);
    writeln!(to, r#"{{"schemaVersion":1,{head},"baseTimeNanoseconds":1790857026000000000,"traceEvents":["#)?;
    let in_step = calls.div_ceil(steps.max(1)).max(1);
    let mut between = "";
    for call in 0..calls {
        let at = call as f64 * 20.0;
        if steps > 0 && call % in_step == 0 {
            let (number, time) = (call / in_step + 3, in_step as f64 * 20.0);
            let mark = r#""ph":"X","cat":"user_annotation","name":"ProfilerStep#"#;
            writeln!(to, r#"{between}{{{mark}{number}","pid":1,"tid":1,"ts":{at:.3},"dur":{time:.3}}}"#)?;
            between = ",";
        }
        let (group, elements) = match distinct {
            Distinct::Groups => (call, 262_144),
            Distinct::Sizes => (0, call + 1),
        };
        let kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
        let times = format!(r#""ts":{:.3},"dur":{:.3}"#, at + 1.0, 10.0 + f64::from(rank));
        let arguments = format!(
            r#""Collective name":"allreduce","In msg nelems":{elements},"Out msg nelems":{elements},"Group size":2,"dtype":"Float","Process Group Name":"{group}""#
        );
        let event = r#""ph":"X","cat":"kernel""#;
        writeln!(to, r#"{between}{{{event},"name":"{kernel}","pid":0,"tid":7,{times},"args":{{{arguments}}}}}"#)?;
        between = ",";
    }
    writeln!(to, "]}}")
}

/// Writes a log of `all_reduce_perf` with so many rows.
pub(super) fn nccl_tests(to: &mut dyn Write, rows: usize) -> io::Result<()> {
    writeln!(
        to,
        "# nThread 1 nGpus 2 minBytes 8 maxBytes {} step: 8(bytes) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0",
        8 * rows
    )?;
    writeln!(to, "#\n# Using devices")?;
    for rank in 0..2 {
        writeln!(
            to,
            "#  Rank  {rank} Group  0 Pid   1111 on     node-a device  {rank} [0x0{rank}] NVIDIA H100 80GB HBM3"
        )?;
    }
    writeln!(
        to,
        "#\n#                                                              out-of-place                       in-place"
    )?;
    writeln!(
        to,
        concat!(
            "#       size         count      type   red",
            "op    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
        )
    )?;
    writeln!(
        to,
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"
    )?;
    for row in 0..rows {
        let (bytes, time) = (8 * (row + 1), 15.0 + (row % 7) as f64);
        let rate = bytes as f64 / time * 1e-3;
        let side = format!("{time:8.2} {rate:7.2} {rate:7.2}      0");
        writeln!(to, "{bytes:12} {:13}     float     sum      -1 {side} {side}", bytes / 4)?;
    }
    writeln!(to, "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n#")
}

/// Writes a log of `osu_allreduce` with so many rows.
pub(super) fn osu(to: &mut dyn Write, rows: usize) -> io::Result<()> {
    writeln!(to, "$ mpirun -np 4 osu_allreduce -m 4:{}\n", 4 * rows)?;
    writeln!(to, "# OSU MPI Allreduce Latency Test v7.5\n# Datatype: MPI_INT.\n# Size       Avg Latency(us)")?;
    (0..rows).try_for_each(|row| writeln!(to, "{:<8} {:20.2}", 4 * (row + 1), 2.0 + row as f64 * 0.01))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_json_with_its_calls_and_steps() {
        for (distinct, steps) in [(Distinct::Groups, 3), (Distinct::Sizes, 0)] {
            let mut text = Vec::new();
            trace(&mut text, (10, steps), distinct, 1).unwrap();
            let events = serde_json::from_slice::<serde_json::Value>(&text).unwrap()["traceEvents"].clone();
            let events = events.as_array().unwrap();
            let of = |category: &str| events.iter().filter(|event| event["cat"] == category).count();
            assert_eq!((of("kernel"), of("user_annotation")), (10, steps));
        }
    }
}

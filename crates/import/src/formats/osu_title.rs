//! What the lines above a table of the OSU Micro-Benchmarks say: the program, its command line, where the buffers were.

use terms::Collective;

use super::command;
use super::nccl::plain;
use crate::collective;

/// `# OSU MPI-CUDA Allreduce Latency Test v7.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Title<'l> {
    /// `MPI-CUDA`.
    pub(super) library: &'l str,
    /// `Allreduce Latency`.
    pub(super) test: &'l str,
    pub(super) version: &'l str,
}

/// What a line says if it is the title of a table.
pub(super) fn title(text: &str) -> Option<Title<'_>> {
    let rest = text.trim_start_matches(['#', ' ', '\t']).strip_prefix("OSU ")?;
    let (library, rest) = rest.split_once(' ')?;
    let (test, version) = rest.split_once(" Test")?;
    Some(Title { library, test, version: version.trim().trim_start_matches('v') })
}

/// What a program measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// The time of a collective or of a ping-pong.
    Call {
        op: Collective,
        /// Whether each rank has a block of the same size, and what cannot be divided is left out.
        is_block: bool,
        /// Whether a call only begins the operation, and another one waits for it.
        is_non_blocking: bool,
    },
    /// The rate of messages one way.
    OneWay,
    /// The rate of messages both ways, of both together.
    BothWays,
}

impl Test {
    /// What a title names; None where it has no counterpart here.
    pub(super) fn named(test: &str) -> Option<Self> {
        match test {
            "Latency" => return Some(Self::call(Collective::PingPong)),
            "Bandwidth" => return Some(Self::OneWay),
            "Bi-Directional Bandwidth" | "Bidirectional Bandwidth" => return Some(Self::BothWays),
            "All-to-All Personalized Exchange Latency" => return Some(Self::call(Collective::AllToAll)),
            _ => {}
        }
        let name = test.strip_suffix(" Latency")?;
        let bare = name.strip_prefix("Non-blocking ").or_else(|| name.strip_prefix("Non-Blocking "));
        let op = collective::op(bare.unwrap_or(name)).filter(|op| *op != Collective::AllToAllV)?;
        Some(Self::Call { op, is_block: name.ends_with("_block"), is_non_blocking: bare.is_some() })
    }

    fn call(op: Collective) -> Self {
        Self::Call { op, is_block: false, is_non_blocking: false }
    }

    /// Whether two ranks exchange messages.
    pub(super) fn is_of_two(self) -> bool {
        !matches!(self, Self::Call { op, .. } if op != Collective::PingPong)
    }
}

/// Where the buffers of the two ranks were: `H`, `D`, `M`, `MD` or `MH` of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Buffers {
    send: String,
    receive: String,
}

impl Buffers {
    fn new(send: &str, receive: &str) -> Option<Self> {
        let are_known = [send, receive].iter().all(|word| matches!(*word, "H" | "D" | "M" | "MD" | "MH"));
        are_known.then(|| Self { send: send.to_owned(), receive: receive.to_owned() })
    }

    /// `Send Buffer on HOST (H) and Receive Buffer on DEVICE (D)`.
    pub(super) fn of_line(bare: &str) -> Option<Self> {
        let (send, receive) = bare.strip_prefix("Send Buffer on ")?.split_once(" and Receive Buffer on ")?;
        let word = |text: &str| Some(text.split_once('(')?.1.split_once(')')?.0.to_owned());
        Self::new(&word(send)?, &word(receive)?)
    }

    /// The last two arguments of a program: `-d cuda H D`.
    fn of_options(options: &str) -> Option<Self> {
        let words: Vec<&str> = options.split_ascii_whitespace().collect();
        let [.., send, receive] = words[..] else { return None };
        Self::new(send, receive)
    }

    /// Whether both are in memory of the host.
    pub(super) fn are_of_host(&self) -> bool {
        self.send == "H" && self.receive == "H"
    }

    /// What to say of a time, unless both are in memory of the host or both in that of a GPU.
    pub(super) fn differ(&self) -> Option<String> {
        let is_plain = self.send == self.receive && matches!(self.send.as_str(), "H" | "D");
        (!is_plain).then(|| format!("send buffer {}, receive buffer {}", place(&self.send), place(&self.receive)))
    }

    /// The buffers as on the command line: `H D`.
    pub(super) fn words(&self) -> String {
        format!("{} {}", self.send, self.receive)
    }
}

fn place(word: &str) -> &'static str {
    match word {
        "H" => "on the host",
        "D" => "on a GPU",
        "MH" => "in managed memory, on the host",
        "MD" => "in managed memory, on a GPU",
        _ => "in managed memory",
    }
}

/// What a command line says.
pub(super) struct Launched {
    pub(super) ranks: Option<u32>,
    /// What decides how calls are timed.
    pub(super) method: String,
    /// The whole command line, without the shell's part.
    pub(super) text: String,
    pub(super) buffers: Option<Buffers>,
    /// Messages that are under way at once, where it says so.
    pub(super) window: Option<u32>,
    /// Whether it asks for a check of what arrives.
    pub(super) checks: bool,
}

/// Options that tell what is measured, or that do not change how calls run.
const NO_METHOD: &[&str] = &[
    "-m",
    "--message-size",
    "-M",
    "--mem-limit",
    "-c",
    "--validation",
    "-f",
    "--full",
    "-T",
    "--type",
    "-z",
    "--tail-lat",
    "-h",
];

/// What a command line says: `mpirun -np 4 ... osu_allreduce -d cuda`. Names of folders are like names of programs:
/// the last name counts.
pub(super) fn launched(text: &str) -> Option<Launched> {
    if text.contains(" : ") {
        return None;
    }
    let (before, program) = text.split_at(text.rfind("osu_")?);
    let whole = program.split_once(' ').map_or("", |(_, options)| options);
    let options = command::plain(whole);
    Some(Launched {
        ranks: command::processes(before),
        method: command::method(before, whole, NO_METHOD),
        text: command::plain(text),
        buffers: Buffers::of_options(&options),
        window: window(&options),
        checks: options.split_ascii_whitespace().any(|word| matches!(word, "-c" | "--validation")),
    })
}

/// The value of `-W` or `--window-size`.
fn window(options: &str) -> Option<u32> {
    let mut words = options.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let value = match word.split_once('=') {
            Some(("--window-size" | "-W", value)) => Some(value),
            _ if matches!(word, "-W" | "--window-size") => words.next(),
            _ => continue,
        };
        return value?.parse().ok();
    }
    None
}

/// Where the buffers of a program are by its title alone; None where that is neither a processor nor a GPU. NCCL and
/// RCCL move memory of GPUs alone.
pub(super) fn device(backend: &str, library: &str) -> Option<&'static str> {
    let accelerator = library.split_once('-').map_or("", |(_, accelerator)| accelerator);
    match accelerator {
        "" if backend == "nccl" => Some("cuda"),
        "" => Some("cpu"),
        // Level Zero, and SYCL, which is above it: GPUs of Intel, by PyTorch's word.
        "ZE" | "SYCL" => Some("xpu"),
        "CXL" => None,
        _ => Some("cuda"),
    }
}

/// `MPI-CUDA` as the backend that moves the data; None where none here is like it.
pub(super) fn backend(library: &str) -> Option<&'static str> {
    match library.split('-').next().unwrap_or(library) {
        "MPI" => Some("mpi"),
        "NCCL" | "RCCL" => Some("nccl"),
        _ => None,
    }
}

/// The title for a message.
pub(super) fn shown(title: Title<'_>) -> String {
    format!("{} {}", plain(title.library), plain(title.test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_tell_buffers_and_windows() {
        let of = |text: &str| launched(text).map(|it| (it.ranks, it.buffers.map(|both| both.words()), it.window));
        let line = "$ mpirun -np 2 ./osu_bw -d cuda -W 128 H D | tee x";
        assert_eq!(of(line), Some((Some(2), Some("H D".to_owned()), Some(128))));
        assert_eq!(of("osu_bibw --window-size=32"), Some((None, None, Some(32))));
        assert_eq!(of("mpirun -n 2 osu_latency -m 1:1 -d cuda MD MH > x").unwrap().1.as_deref(), Some("MD MH"));
        assert_eq!(of("mpirun -n 1 osu_x : -n 1 osu_y"), None);
    }

    #[test]
    fn lines_of_buffers_are_read() {
        let words = |line: &str| Buffers::of_line(line).map(|both| both.words());
        let line = "Send Buffer on MANAGED (MD) and Receive Buffer on HOST (H)";
        assert_eq!(words(line).as_deref(), Some("MD H"));
        assert_eq!(words("Send Buffer on HOST (H) and Receive Buffer on DEV"), None);
        assert_eq!(Buffers::new("D", "D").unwrap().differ(), None);
    }

    #[test]
    fn titles_name_what_is_measured() {
        let call = |op, is_block, is_non_blocking| Some(Test::Call { op, is_block, is_non_blocking });
        for (test, measured) in [
            ("Bandwidth", Some(Test::OneWay)),
            ("Bi-Directional Bandwidth", Some(Test::BothWays)),
            ("Multiple Bandwidth / Message Rate", None),
            ("Non-Blocking Broadcast Latency", call(Collective::Broadcast, false, true)),
            ("Non-blocking All-to-All Latency", call(Collective::AllToAll, false, true)),
            ("Non-blocking All-to-Allv Personalized Exchange Latency", None),
            ("Non-blocking Neighborhood Allgather Latency", None),
            ("Non-blocking Reduce_scatter_block Latency", call(Collective::ReduceScatter, true, true)),
            ("Allreduce Persistent Latency", None),
            ("Multi-threaded Latency", None),
        ] {
            assert_eq!(Test::named(test), measured, "{test}");
        }
    }
}

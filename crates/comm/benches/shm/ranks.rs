//! Rank processes: this binary started again, pinned, and joined by a bootstrap over one Unix socket each.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Command, Stdio};

use comm::{Bootstrap, Error, RankPlacement, Result};

/// What this process is.
pub(crate) enum Role {
    /// The one that the user started.
    Start { sections: Vec<String> },
    /// One that it started.
    Rank { bootstrap: Local, sections: Vec<String> },
}

/// A rank's bootstrap: sends to the starter, which sends everybody's back.
pub(crate) struct Local {
    rank: u32,
    size: u32,
    stream: UnixStream,
}

fn system(what: &str) -> impl Fn(std::io::Error) -> Error {
    let what = what.to_owned();
    move |source| Error::System { what: what.clone(), source }
}

fn write(mut stream: &UnixStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(&(bytes.len() as u32).to_le_bytes())?;
    stream.write_all(bytes)
}

fn read(mut stream: &UnixStream) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Local {
    pub(crate) fn size(&self) -> u32 {
        self.size
    }
}

impl Bootstrap for Local {
    fn place(&self) -> RankPlacement {
        RankPlacement::alone(self.rank, self.size, "localhost".to_owned())
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        write(&self.stream, bytes).map_err(system("tell the starter"))?;
        (0..self.size).map(|_| read(&self.stream).map_err(system("hear from the starter"))).collect()
    }
}

/// Cores that this process may use: asked for the first time before it is pinned to one.
pub(crate) fn cores() -> u32 {
    static CORES: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32))
}

fn address(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(name).expect("a short name")
}

/// Reads the arguments: `rank R of N at NAME SECTIONS`, or just sections.
pub(crate) fn role(arguments: &[String]) -> Role {
    let [first, rank, _, size, _, name, sections @ ..] = arguments else {
        return Role::Start { sections: arguments.to_vec() };
    };
    if first != "rank" {
        return Role::Start { sections: arguments.to_vec() };
    }
    let (rank, size): (u32, u32) = (rank.parse().expect("rank"), size.parse().expect("size"));
    pin(rank % cores());
    let stream = UnixStream::connect_addr(&address(name)).expect("connect");
    write(&stream, &rank.to_le_bytes()).expect("hello");
    Role::Rank { bootstrap: Local { rank, size, stream }, sections: sections.to_vec() }
}

/// Pins this process to the nth core that it may use.
fn pin(nth: u32) {
    // SAFETY: a set of plain bits, filled and read by the two calls.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&allowed), &raw mut allowed);
        let core = (0..libc::CPU_SETSIZE as usize).filter(|core| libc::CPU_ISSET(*core, &allowed)).nth(nth as usize);
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core.expect("as many cores as counted"), &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
    }
}

/// Starts the ranks, serves their bootstrap, waits for them.
pub(crate) fn start(size: u32, sections: &[String]) {
    let name = format!("rankmark-bench-{}-{size}", std::process::id());
    let listener = UnixListener::bind_addr(&address(&name)).expect("listen");
    let binary = std::env::current_exe().expect("own path");
    let (size_text, rank_text) = (size.to_string(), |rank: u32| rank.to_string());
    let mut children: Vec<_> = (0..size)
        .map(|rank| {
            let mut command = Command::new(&binary);
            command.args(["rank", &rank_text(rank), "of", &size_text, "at", &name]).args(sections);
            command.stdin(Stdio::null()).spawn().expect("spawn")
        })
        .collect();
    let mut streams: Vec<Option<UnixStream>> = (0..size).map(|_| None).collect();
    for _ in 0..size {
        let (stream, _) = listener.accept().expect("accept");
        let hello = read(&stream).expect("hello");
        let rank = u32::from_le_bytes(hello.try_into().expect("four bytes"));
        streams[rank as usize] = Some(stream);
    }
    let streams: Vec<UnixStream> = streams.into_iter().flatten().collect();
    // Rounds of the bootstrap, until ranks end.
    while let Ok(all) = streams.iter().map(read).collect::<std::io::Result<Vec<_>>>() {
        for stream in &streams {
            all.iter().for_each(|bytes| write(stream, bytes).expect("answer"));
        }
    }
    for child in &mut children {
        assert!(child.wait().expect("wait").success(), "a rank failed");
    }
}

//! Ranks that are processes: the same suite, through a bootstrap that goes over a socket to the test.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use comm::{Bootstrap, Error, Options, RankPlacement, Result};

use crate::conformance::Runner;
use crate::worlds::{self, Wrapping};

const RANKS: u32 = 3;
/// Tells a child whom to call, which rank it is, and what to run; absent in an ordinary run of the tests.
const ROLE: &str = "COMM_TEST_ROLE";
const LIMIT: Duration = Duration::from_secs(40);

#[test]
fn ranks_may_be_processes() {
    for backend in worlds::ready() {
        if !comm::backend(backend).expect("in the table").about().in_process {
            run(backend);
        }
    }
}

/// Started by [`ranks_may_be_processes`], once a rank; by itself there is no world to be a rank of.
#[test]
#[ignore = "a rank of ranks_may_be_processes"]
fn a_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let [address, rank, backend] = role.split(' ').collect::<Vec<_>>()[..] else { panic!("{role}") };
    let mut bootstrap = Relay::connect(address, rank.parse().expect("a rank"), RANKS).expect("the test listens");
    let options = Options { oversubscribed: true, ..Wrapping::Plain.options(RANKS) };
    let (mut comm, _abort) = comm::open(backend, &mut bootstrap, &options).expect("opens");
    let mut runner = Runner::new(&mut *comm);
    for batch in 0..40 {
        runner.batch(&mut *comm, 0xabc + batch, &format!("{backend} in processes, batch {batch}"));
    }
    let mut group = comm.split(Some(comm.shape().rank % 2), 0).expect("a split").expect("a group");
    let parity = u64::from(comm.shape().rank % 2);
    for batch in 0..10 {
        runner.batch(
            &mut *group,
            0xdef + (batch << 1 | parity),
            &format!("{backend} in processes, group, batch {batch}"),
        );
    }
}

fn run(backend: &str) {
    let address = format!("comm-test-{}-{backend}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&address).unwrap()).unwrap();
    let mut children: Vec<Child> = (0..RANKS).map(|rank| spawn(&format!("{address} {rank} {backend}"))).collect();
    let relay = std::thread::spawn(move || relay(&listener, RANKS));
    let deadline = Instant::now() + LIMIT;
    let mut left: Vec<usize> = (0..children.len()).collect();
    let mut failed = false;
    while !left.is_empty() && !failed {
        left.retain(|index| match children[*index].try_wait().expect("a child") {
            Some(status) => {
                failed |= !status.success();
                false
            }
            None => true,
        });
        failed |= Instant::now() > deadline;
        std::thread::sleep(Duration::from_millis(5));
    }
    for index in &left {
        // Of those that still run when one has failed.
        let _ = children[*index].kill();
        let _ = children[*index].wait();
    }
    assert!(!failed, "{backend}: a rank failed, or was not done after {LIMIT:?}; its output is above");
    relay.join().expect("the relay");
}

fn spawn(role: &str) -> Child {
    let program = std::env::current_exe().expect("this test");
    let mut command = Command::new(program);
    command.args(["--exact", "processes::a_rank", "--ignored", "--nocapture"]).env(ROLE, role);
    command.stdout(Stdio::null()).spawn().expect("a rank")
}

/// Serves rounds of `all_gather` until the ranks hang up.
pub(crate) fn relay(listener: &UnixListener, ranks: u32) {
    let mut links: Vec<Option<UnixStream>> = (0..ranks).map(|_| None).collect();
    while links.iter().any(Option::is_none) {
        let (mut stream, _) = listener.accept().expect("a rank");
        let mut rank = [0];
        stream.read_exact(&mut rank).expect("its number");
        links[usize::from(rank[0])] = Some(stream);
    }
    let mut links: Vec<UnixStream> = links.into_iter().flatten().collect();
    loop {
        let Ok(all) = links.iter_mut().map(receive).collect::<std::io::Result<Vec<_>>>() else { return };
        for link in &mut links {
            if all.iter().try_for_each(|bytes| send(link, bytes)).is_err() {
                return;
            }
        }
    }
}

pub(crate) struct Relay {
    rank: u32,
    ranks: u32,
    link: UnixStream,
}

impl Relay {
    pub(crate) fn connect(address: &str, rank: u8, ranks: u32) -> std::io::Result<Self> {
        let mut link = UnixStream::connect_addr(&SocketAddr::from_abstract_name(address)?)?;
        link.write_all(&[rank])?;
        Ok(Self { rank: u32::from(rank), ranks, link })
    }
}

impl Bootstrap for Relay {
    fn place(&self) -> RankPlacement {
        RankPlacement::alone(self.rank, self.ranks, "here".to_owned())
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let sent = send(&mut self.link, bytes);
        let all = sent.and_then(|()| (0..self.ranks).map(|_| receive(&mut self.link)).collect());
        all.map_err(|source| Error::System { what: "talk to the test".to_owned(), source })
    }
}

fn send(link: &mut UnixStream, bytes: &[u8]) -> std::io::Result<()> {
    link.write_all(&(bytes.len() as u64).to_ne_bytes())?;
    link.write_all(bytes)
}

fn receive(link: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 8];
    link.read_exact(&mut length)?;
    let mut bytes = vec![0; u64::from_ne_bytes(length) as usize];
    link.read_exact(&mut bytes)?;
    Ok(bytes)
}

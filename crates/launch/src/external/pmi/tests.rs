//! Launchers with a script: what they say, in the words of each, and what else may come.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::thread::{JoinHandle, sleep, spawn};

use super::*;

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(20);

/// The answers of a launcher, as it writes them.
#[derive(Clone, Copy)]
struct Dialect {
    init: &'static str,
    maxes: &'static str,
    name: &'static str,
    put: &'static str,
    out: &'static str,
    found: &'static str,
    missing: &'static str,
    left: &'static str,
}

/// MPICH 4.0.2 and Intel MPI 2021.18, but for numbers.
const MPICH_4: Dialect = Dialect {
    init: "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    maxes: "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
    name: "cmd=my_kvsname kvsname=kvs_1_0",
    put: "cmd=put_result rc=0 msg=success",
    out: "cmd=barrier_out",
    found: "cmd=get_result rc=0 msg=success value=",
    missing: "cmd=get_result rc=-1 msg=key_not_found value=unknown",
    left: "cmd=finalize_ack",
};

const MPICH_5: Dialect = Dialect {
    init: "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2",
    maxes: "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024",
    name: "cmd=my_kvsname rc=0 kvsname=kvs_1_0",
    put: "cmd=put_result rc=0",
    out: "cmd=barrier_out tag=0",
    found: "cmd=get_result rc=0 value=",
    missing: "cmd=get_result rc=1",
    left: "cmd=finalize_ack rc=0",
};

/// The plugin pmi2 of Slurm 22.05.
const SLURM: Dialect = Dialect {
    init: "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
    name: "cmd=my_kvsname rc=0 kvsname=3.0",
    out: "cmd=barrier_out rc=0",
    ..MPICH_5
};

/// Many parts.
const SMALL: Dialect = Dialect { maxes: "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=32", ..MPICH_4 };

/// What the processes of a launcher share.
struct Job {
    dialect: Dialect,
    keys: Mutex<HashMap<String, String>>,
    barrier: Barrier,
}

impl Job {
    fn new(dialect: Dialect, size: usize) -> Arc<Self> {
        Arc::new(Self { dialect, keys: Mutex::default(), barrier: Barrier::new(size) })
    }

    /// Serves one process, until it leaves. Gives its requests.
    fn serve(self: Arc<Self>, stream: UnixStream) -> JoinHandle<Vec<String>> {
        spawn(move || {
            let (mut requests, mut own) = (Vec::new(), HashMap::new());
            let mut to = stream.try_clone().unwrap();
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { break };
                assert!(line.len() < 1024, "Slurm reads no more: {line}");
                let word = |name| field(&line, name).unwrap_or_default().to_owned();
                let answer = match word("cmd").as_str() {
                    "init" => self.dialect.init.to_owned(),
                    "get_maxes" => self.dialect.maxes.to_owned(),
                    "get_my_kvsname" => self.dialect.name.to_owned(),
                    "put" => {
                        assert_eq!(Some(word("kvsname").as_str()), field(self.dialect.name, "kvsname"));
                        own.insert(word("key"), word("value"));
                        self.dialect.put.to_owned()
                    }
                    "barrier_in" => {
                        // Only now others can get it.
                        self.keys.lock().unwrap().extend(own.drain());
                        self.barrier.wait();
                        self.dialect.out.to_owned()
                    }
                    "get" => match self.keys.lock().unwrap().get(&word("key")) {
                        Some(value) => format!("{}{value}", self.dialect.found),
                        None => self.dialect.missing.to_owned(),
                    },
                    "finalize" => self.dialect.left.to_owned(),
                    other => panic!("a request for {other}"),
                };
                to.write_all(format!("{answer}\n").as_bytes()).unwrap();
                let is_left = answer == self.dialect.left;
                requests.push(line);
                if is_left {
                    to.shutdown(std::net::Shutdown::Both).unwrap();
                    break;
                }
            }
            requests
        })
    }
}

/// A process's end of its socket, and the launcher's.
fn process() -> (KeyValueSpace, UnixStream, UnixStream) {
    let (own, launchers) = UnixStream::pair().unwrap();
    (KeyValueSpace::at(own.as_raw_fd()), own, launchers)
}

#[test]
fn what_rank_0_puts_all_others_get_in_the_words_of_each_launcher() {
    let value: Vec<u8> = (0..=255).chain(0..=255).collect();
    for (dialect, parts) in [(MPICH_4, 2), (MPICH_5, 2), (SLURM, 2), (SMALL, 43)] {
        let job = Job::new(dialect, 2);
        let [(first, own, one), (second, other, two)] = [process(), process()];
        let servers = [job.clone().serve(one), job.clone().serve(two)];
        // It may come long before the others.
        first.tell(&value, LONG).unwrap();
        first.tell(&value, LONG).unwrap();
        assert_eq!(first.wait(SHORT), Ok(false));
        while second.learn(SHORT, LONG).is_err_and(|why| why == Unknown::Yet) {}
        assert_eq!(second.learn(SHORT, LONG), Ok(value.clone()));
        assert_eq!(first.wait(LONG), Ok(true));
        // As after a world that MPI did not join.
        [&first, &second].iter().for_each(|space| space.leave(false));
        drop((first, second, own, other));
        let [of_first, of_second] = servers.map(|server| server.join().unwrap());
        let counted = |requests: &[String], word: &str| {
            requests.iter().filter(|request| field(request, "cmd") == Some(word)).count()
        };
        for requests in [&of_first, &of_second] {
            let once = ["init", "barrier_in", "finalize"].map(|word| counted(requests, word));
            assert_eq!((once, requests.last().unwrap().as_str()), ([1, 1, 1], "cmd=finalize"), "{requests:?}");
        }
        assert_eq!((counted(&of_first, "put"), counted(&of_second, "get")), (parts, parts));
        assert_eq!((counted(&of_first, "get"), counted(&of_second, "put")), (0, 0));
    }
}

#[test]
fn mpi_finds_the_socket_as_the_launcher_gave_it() {
    for mpi_leaves in [true, false] {
        let job = Job::new(MPICH_4, 1);
        let (space, mut own, launchers) = process();
        let server = job.serve(launchers);
        space.tell(b"x", LONG).unwrap();
        assert_eq!(space.wait(LONG), Ok(true));
        let flags = rustix::fs::fcntl_getfl(&own).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
        assert_eq!((own.read_timeout().unwrap(), own.write_timeout().unwrap()), (None, None));
        // What an MPI library says in `MPI_Init`: the first answer is that of its own request.
        own.write_all(b"cmd=init pmi_version=1 pmi_subversion=1\n").unwrap();
        let mut answers = BufReader::new(own.try_clone().unwrap());
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), MPICH_4.init);
        if mpi_leaves {
            own.write_all(b"cmd=finalize\n").unwrap();
            answers.read_line(&mut line).unwrap();
        } else {
            // Killed, with an answer that it did not read.
            own.write_all(b"cmd=get_maxes\n").unwrap();
            sleep(SHORT);
        }
        let begun = Instant::now();
        space.leave(true);
        assert!(begun.elapsed() < LEAVING / 2, "{:?}", begun.elapsed());
        drop((space, answers, own));
        let requests = server.join().unwrap();
        assert_eq!(requests.iter().filter(|request| *request == "cmd=finalize").count(), 1, "{requests:?}");
    }
}

#[test]
fn without_a_coordinator_nobody_waits_for_one() {
    let job = Job::new(MPICH_4, 2);
    let [(first, _first, one), (second, _second, two)] = [process(), process()];
    let servers = [job.clone().serve(one), job.clone().serve(two)];
    let other = spawn(move || {
        let mut told = second.learn(SHORT, LONG);
        while told == Err(Unknown::Yet) {
            told = second.learn(SHORT, LONG);
        }
        second.leave(false);
        told
    });
    first.leave(true);
    assert_eq!(other.join().unwrap(), Err(Unknown::Unnamed));
    for server in servers {
        assert_eq!(server.join().unwrap().last().unwrap(), "cmd=finalize");
    }
    // One that never talked to its launcher has nothing to say.
    let (space, _own, mut launchers) = process();
    space.leave(false);
    launchers.set_nonblocking(true).unwrap();
    assert_eq!(launchers.read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

/// A launcher that answers each line with the next of these, and then closes or keeps silent.
fn scripted(launchers: UnixStream, answers: Vec<Vec<u8>>, closes: bool) -> JoinHandle<Option<UnixStream>> {
    spawn(move || {
        let mut to = launchers.try_clone().unwrap();
        let mut lines = BufReader::new(launchers).lines();
        for answer in answers {
            if !matches!(lines.next(), Some(Ok(_))) || to.write_all(&answer).is_err() {
                return None;
            }
        }
        let _ = lines.next();
        (!closes).then_some(to)
    })
}

/// Why a process cannot learn anything from a launcher that answers so. `limit`: of each answer.
fn why(answers: &[&str], closes: bool, limit: Duration) -> Unknown {
    let (space, own, launchers) = process();
    let answers = answers.iter().map(|answer| answer.as_bytes().to_vec()).collect();
    let server = scripted(launchers, answers, closes);
    let begun = Instant::now();
    let why = space.learn(limit, limit).unwrap_err();
    assert!(begun.elapsed() < 2 * LONG, "each wait has its end");
    if let Unknown::Broken(told) = &why {
        assert_eq!(space.broken().as_ref(), Some(told));
        assert_eq!(space.learn(LONG, LONG), Err(why.clone()), "it is not talked to again");
    }
    drop((space, own));
    server.join().unwrap();
    why
}

const INIT: &str = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
const MAXES: &str = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
const NAME: &str = "cmd=my_kvsname kvsname=kvs_1_0\n";
const OUT: &str = "cmd=barrier_out\n";

#[test]
fn a_launcher_that_breaks_off_keeps_silent_or_talks_nonsense_is_an_error() {
    let broken_within = |limit, answers: &[&str], closes: bool, words: &str| match why(answers, closes, limit) {
        Unknown::Broken(why) => {
            assert!(why.contains(words) && why.contains("over PMI_FD as PMI-1 requires"), "{words}: {why}");
            assert!(!why.contains("5ec7e7"), "what may be the secret is not shown: {why}");
        }
        other => panic!("{words}: {other:?}"),
    };
    let broken = |answers: &[&str], closes, words: &str| broken_within(LONG, answers, closes, words);
    let whole = [INIT, MAXES, NAME, OUT];
    for answers in 0..=whole.len() {
        broken(&whole[..answers], true, "it closed the connection");
    }
    // In the barrier other processes are waited for.
    for answers in [0, 1, 2, 4] {
        broken_within(SHORT, &whole[..answers], false, "nothing came within 200ms");
    }
    assert_eq!(why(&whole[..3], false, SHORT), Unknown::Yet);
    broken_within(SHORT, &["cmd=response_to_init rc"], false, "the rest of a line did not come");
    broken(&["cmd=response_to_init rc=1 pmi_version=2\n"], false, "it refused a request");
    broken(&["\u{1b}[31m\0\n"], false, "`response_to_init` was expected");
    broken(&["\n"], false, "`response_to_init` was expected");
    broken(&[&"x".repeat(LONGEST)], false, "a line of more than 8192 bytes");
    broken(&[INIT, "cmd=maxes vallen_max=8\n"], false, "its values are too short");
    broken(&[INIT, "cmd=maxes vallen_max=-1\n"], false, "its values are too short");
    broken(&[INIT, MAXES, "cmd=my_kvsname kvsname=\n"], false, "it names no key-value space");
    broken(&[INIT, MAXES, NAME, "cmd=put_result rc=0\n"], false, "`barrier_out` was expected");
    let got = |value: &str| format!("cmd=get_result rc=0 value={value}\n");
    for value in ["", "5ec7e7", "0-5ec7e7", "257-5ec7e7", "-1-5ec7e7", "1-5ec7e", "1-5ec7e7\u{fffd}", "1-+5ec7e7"] {
        broken(&[INIT, MAXES, NAME, OUT, &got(value)], false, "part 1 of the value is not what rank 0 put");
    }
    let first = got("2-5ec7e7");
    broken(&[INIT, MAXES, NAME, OUT, &first, &got("3-5ec7e7")], false, "part 2 of the value is not what rank 0 put");
    broken(&[INIT, MAXES, NAME, OUT, &first, "cmd=get_result rc=1\n"], false, "part 2 of 2 is missing");
    broken(
        &[INIT, MAXES, NAME, OUT, "cmd=put_result value=5ec7e7\n"],
        false,
        "`get_result` was expected, and `cmd=put_result` came",
    );
    assert_eq!(why(&[INIT, MAXES, NAME, OUT, "cmd=get_result rc=1\n"], false, LONG), Unknown::Unnamed);
}

#[test]
fn what_comes_byte_by_byte_is_read_and_what_follows_a_line_is_not() {
    let (space, mut own, launchers) = process();
    let server = spawn(move || {
        let mut to = launchers.try_clone().unwrap();
        let mut lines = BufReader::new(launchers).lines();
        for answer in [INIT, MAXES, NAME, OUT, "cmd=get_result rc=0 value=1-6f6b\ncmd=of_mpi\n"] {
            lines.next().unwrap().unwrap();
            // The end of a line and what follows it come at once.
            let (slow, whole) = answer.split_at(answer.find('\n').unwrap());
            for byte in slow.as_bytes() {
                to.write_all(&[*byte]).unwrap();
                sleep(Duration::from_millis(1));
            }
            to.write_all(whole.as_bytes()).unwrap();
        }
        to
    });
    while space.learn(SHORT, LONG).is_err_and(|why| why == Unknown::Yet) {}
    assert_eq!(space.learn(SHORT, LONG), Ok(b"ok".to_vec()));
    drop(server.join().unwrap());
    let mut rest = String::new();
    own.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "cmd=of_mpi\n");
}

#[test]
fn only_a_launcher_that_mpi_can_use_afterwards_is_talked_to() {
    let space = |variables: &[(&str, &str)]| {
        let all: HashMap<String, String> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        KeyValueSpace::from_variables(&|name| all.get(name).cloned())
    };
    let (own, launchers) = UnixStream::pair().unwrap();
    let number = own.as_raw_fd().to_string();
    let given = ("PMI_FD", number.as_str());
    assert_eq!(space(&[given]), Some(KeyValueSpace::at(own.as_raw_fd())));
    assert_eq!(space(&[given, ("PMI_JOBID", "3.0")]), None, "srun's plugin");
    for number in ["six", "-1", "1000000", ""] {
        assert_eq!(space(&[("PMI_FD", number)]), None, "{number}");
    }
    assert_eq!(space(&[]), None);
    drop(launchers);
    assert_eq!(space(&[given]), None, "an earlier program has left the launcher");
    // A number of something else.
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    for number in [-1, 1_000_000, file.as_raw_fd()] {
        let why = KeyValueSpace::at(number).tell(b"x", SHORT).unwrap_err();
        assert!(why.contains(&format!("descriptor {number} is not a stream socket")), "{why}");
    }
    let (space, _own, _launchers) = process();
    assert_eq!(format!("{space:?}"), format!("KeyValueSpace({})", space.number));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn no_answer_is_a_panic(answer in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80), at in 0_usize..6) {
        let (space, own, launchers) = process();
        let mut answers: Vec<Vec<u8>> = [INIT, MAXES, NAME, OUT].map(|line| line.as_bytes().to_vec()).into();
        answers.truncate(at);
        let after = if at > 4 { b"cmd=get_result rc=0 value=".to_vec() } else { Vec::new() };
        answers.push([after, answer, b"\n".to_vec()].concat());
        let server = scripted(launchers, answers, true);
        let _ = space.learn(LONG, LONG);
        space.leave(false);
        drop((space, own));
        server.join().unwrap();
    }
}

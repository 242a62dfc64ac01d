//! The key-value space of a launcher that speaks PMI-1 (Hydra: mpiexec of MPICH, Intel MPI and MVAPICH), by which processes on
//! hosts without a shared folder learn where their coordinator listens.
//!
//! Requests and answers are lines over the socket PMI_FD. The MPI library of a rank talks over the same socket later, so this
//! module reads no byte behind a line's end and changes no flag of the socket. Hydra answers a second `init`. It kills all ranks
//! of a host if one that said `init` ends without `finalize`, so [`KeyValueSpace::leave`] says it unless MPI has.
//!
//! Hydra passes values on in barriers only: rank 0 puts before the barrier, and all others get behind it.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use process::{Interest, PollSet, inherited_socket};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::Variables;

/// How long an answer may take. Of a barrier that is the time which processes have to arrive.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a process that leaves waits for the launcher.
const LEAVING: Duration = Duration::from_secs(5);
/// Until the rest of a line is looked for again.
const PAUSE: Duration = Duration::from_millis(2);
/// Longest line. Intel MPI's values have 4,096 bytes.
const LONGEST: usize = 8 << 10;
/// Digits of a value. Slurm reads at most 1,024 bytes of a request.
const PART: usize = 512;
/// Most parts of a value, which has a few hundred bytes.
const PARTS: usize = 256;

/// The launcher's key-value space. Copies share one conversation, since a process has one socket.
#[derive(Clone)]
pub(super) struct KeyValueSpace {
    number: i32,
    conversation: Arc<Mutex<Conversation>>,
}

/// Why the launcher did not say where the coordinator is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// Other processes have yet to enter the barrier.
    Yet,
    /// The process of rank 0 came without a coordinator.
    Unnamed,
    /// The conversation is broken.
    Broken(String),
}

#[derive(Default)]
struct Conversation {
    /// None until this process enters the barrier.
    talk: Option<Talk>,
    /// All processes have entered the barrier.
    is_met: bool,
    /// What rank 0 has put.
    value: Option<Vec<u8>>,
    broken: Option<String>,
}

impl fmt::Debug for KeyValueSpace {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The conversation holds the secret.
        write!(to, "KeyValueSpace({})", self.number)
    }
}

impl PartialEq for KeyValueSpace {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for KeyValueSpace {}

impl KeyValueSpace {
    /// The space of the launcher, if this process can use it and MPI afterwards. srun's plugin, which sets PMI_JOBID, answers one
    /// `init` of each process only: the MPI library of a rank would wait forever. A wrapper may have closed the socket, and the
    /// launcher closes its end when a program that the same process of it ran before leaves.
    pub(super) fn from_variables(variable: Variables<'_>) -> Option<Self> {
        let number = variable("PMI_FD").filter(|_| variable("PMI_JOBID").is_none())?.parse().ok()?;
        let socket = inherited_socket(number).ok()?;
        let is_closed = matches!(recv(&socket, &mut [0_u8][..], RecvFlags::PEEK | RecvFlags::DONTWAIT), Ok((_, 0)));
        (!is_closed).then(|| Self::at(number))
    }

    pub(super) fn at(number: i32) -> Self {
        Self { number, conversation: Arc::default() }
    }

    /// Puts a value for all other processes, and enters the barrier. Later calls do nothing. `answer`: how long the launcher may
    /// take for an answer.
    ///
    /// # Errors
    /// Why the launcher does not take it.
    pub(super) fn tell(&self, value: &[u8], answer: Duration) -> Result<(), String> {
        self.held().enter(self.number, Some(value), answer)
    }

    /// Whether all processes enter the barrier within this time.
    ///
    /// # Errors
    /// Why that will not be known.
    pub(super) fn wait(&self, limit: Duration) -> Result<bool, String> {
        self.held().wait(limit)
    }

    /// The value that rank 0 has put. Enters the barrier, and waits for so long in each call.
    ///
    /// # Errors
    /// Why there is none, or not yet.
    pub(super) fn learn(&self, look: Duration, answer: Duration) -> Result<Vec<u8>, Unknown> {
        let mut held = self.held();
        held.enter(self.number, None, answer).map_err(Unknown::Broken)?;
        if !held.wait(look).map_err(Unknown::Broken)? {
            return Err(Unknown::Yet);
        }
        if held.value.is_none() {
            let value = held.talk.as_mut().map_or(Ok(None), Talk::get);
            held.value = held.noted(value).map_err(Unknown::Broken)?;
        }
        held.value.clone().ok_or(Unknown::Unnamed)
    }

    /// Why the launcher cannot be talked to any more.
    pub(super) fn broken(&self) -> Option<String> {
        self.held().broken.clone()
    }

    /// Leaves the launcher, if this process talked to it and the MPI library of no rank has left it. `is_awaited`: that of
    /// rank 0, for which the others wait in the barrier. If it enters without a value, they end, too.
    pub(super) fn leave(&self, is_awaited: bool) {
        let mut held = self.held();
        if is_awaited && held.talk.is_none() {
            // If the others do not come, the launcher ends them.
            let _ = held.enter(self.number, None, LEAVING).and_then(|()| held.wait(LEAVING));
        }
        let is_met = held.is_met && held.broken.is_none();
        // A launcher that still owes the end of a barrier would fail to write it to a process that left.
        if let Some(talk) = held.talk.as_mut().filter(|_| is_met) {
            let _ = talk.finalize();
        }
    }

    fn held(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Conversation {
    fn enter(&mut self, number: i32, value: Option<&[u8]>, answer: Duration) -> Result<(), String> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        if self.talk.is_none() {
            let talk = inherited_socket(number).and_then(|socket| Talk::enter(socket, value, answer.min(ANSWER)));
            self.talk = Some(self.noted(talk)?);
        }
        Ok(())
    }

    fn wait(&mut self, limit: Duration) -> Result<bool, String> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        if let Some(talk) = self.talk.as_mut().filter(|_| !self.is_met) {
            let is_met = talk.barrier_ended(limit);
            self.is_met = self.noted(is_met)?;
        }
        Ok(self.is_met)
    }

    /// Notes why a conversation cannot go on: what comes next on the socket is unknown then.
    fn noted<T>(&mut self, result: io::Result<T>) -> Result<T, String> {
        result.map_err(|error| {
            let why = format!("the launcher does not answer over PMI_FD as PMI-1 requires: {error}");
            self.broken = Some(why.clone());
            why
        })
    }
}

/// What is said over the socket of this process.
struct Talk {
    socket: OwnedFd,
    /// How long an answer may take.
    limit: Duration,
    space: String,
    /// Digits that a value may have.
    part: usize,
}

impl Talk {
    /// Begins to talk, puts a value and enters the barrier.
    fn enter(socket: OwnedFd, value: Option<&[u8]>, limit: Duration) -> io::Result<Self> {
        let mut talk = Self::open(socket, limit)?;
        if let Some(value) = value {
            talk.put(value)?;
        }
        talk.say("cmd=barrier_in")?;
        Ok(talk)
    }

    fn open(socket: OwnedFd, limit: Duration) -> io::Result<Self> {
        let mut talk = Self { socket, limit, space: String::new(), part: PART };
        talk.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let maxes = talk.ask("cmd=get_maxes", "maxes")?;
        let most = field(&maxes, "vallen_max").and_then(|most| most.parse::<usize>().ok()).unwrap_or_default();
        // The number of parts and the end of the text count, too.
        talk.part = most.saturating_sub(8).min(PART);
        if talk.part == 0 {
            return Err(invalid("its values are too short", &maxes));
        }
        let answer = talk.ask("cmd=get_my_kvsname", "my_kvsname")?;
        let space = field(&answer, "kvsname").filter(|name| !name.is_empty());
        talk.space = space.ok_or_else(|| invalid("it names no key-value space", &answer))?.to_owned();
        Ok(talk)
    }

    /// Puts a value, in as many parts as it needs.
    fn put(&mut self, value: &[u8]) -> io::Result<()> {
        let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        let parts: Vec<&[u8]> = digits.as_bytes().chunks(self.part).collect();
        if parts.len() > PARTS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("a value of {} bytes", value.len())));
        }
        for (index, part) in parts.iter().enumerate() {
            let (count, part, space) = (parts.len(), String::from_utf8_lossy(part), &self.space);
            let request = format!("cmd=put kvsname={space} key=rankmark-{index} value={count}-{part}");
            self.ask(&request, "put_result")?;
        }
        Ok(())
    }

    /// The value that was put; None if none was.
    fn get(&mut self) -> io::Result<Option<Vec<u8>>> {
        let (mut digits, mut count) = (String::new(), 1);
        let mut index = 0;
        while index < count {
            self.say(&format!("cmd=get kvsname={} key=rankmark-{index}", self.space))?;
            let answer = self.line(self.limit)?;
            expect(&answer, "get_result")?;
            if !is_success(&answer) {
                let missing = || invalid(&format!("part {} of {count} is missing", index + 1), &answer);
                return if index == 0 { Ok(None) } else { Err(missing()) };
            }
            let part = field(&answer, "value").and_then(|value| value.split_once('-'));
            let part = part.and_then(|(count, part)| Some((count.parse::<usize>().ok()?, part)));
            let (said, part) = part.filter(|(said, _)| (1..=PARTS).contains(said)).ok_or_else(|| garbled(index))?;
            if index > 0 && said != count {
                return Err(garbled(index));
            }
            count = said;
            digits.push_str(part);
            index += 1;
        }
        bytes_of(&digits).map(Some).ok_or_else(|| garbled(0))
    }

    /// Whether the barrier ends within this time. A part of the line that has come stays in the socket.
    fn barrier_ended(&mut self, limit: Duration) -> io::Result<bool> {
        match self.line(limit) {
            Ok(line) => expect(&line, "barrier_out").map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Leaves, unless an MPI library has: then the launcher has closed its end. What a killed rank did not read is read here.
    fn finalize(&mut self) -> io::Result<()> {
        self.say("cmd=finalize")?;
        let deadline = Instant::now() + LEAVING;
        while !self.line(deadline.saturating_duration_since(Instant::now()))?.starts_with("cmd=finalize_ack") {}
        Ok(())
    }

    /// The answer to a request.
    fn ask(&mut self, request: &str, answer: &str) -> io::Result<String> {
        self.say(request)?;
        let line = self.line(self.limit)?;
        expect(&line, answer)?;
        if is_success(&line) { Ok(line) } else { Err(invalid("it refused a request", &line)) }
    }

    fn say(&mut self, request: &str) -> io::Result<()> {
        let line = format!("{request}\n");
        let mut rest = line.as_bytes();
        let deadline = Instant::now() + self.limit;
        while !rest.is_empty() {
            match send(&self.socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => {}
                // It takes in what it was sent before.
                Err(rustix::io::Errno::AGAIN) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next line, without its end. Nothing behind it is read: that would be the MPI library's.
    fn line(&mut self, limit: Duration) -> io::Result<String> {
        let deadline = Instant::now() + limit;
        let (mut polls, mut buffer) = (PollSet::default(), vec![0; LONGEST]);
        let mut seen = 0;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            polls.clear();
            let readable = polls.add(self.socket.as_fd(), Interest::Read);
            polls.wait(Some(left))?;
            if !polls.happened(readable) {
                // A signal ends a wait, too.
                if left.is_zero() {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing came within {limit:?}")));
                }
                continue;
            }
            let found = match recv(&self.socket, &mut buffer[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
                Ok((_, found)) => found.min(LONGEST),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                Err(error) => return Err(error.into()),
            };
            if let Some(end) = buffer[..found].iter().position(|byte| *byte == b'\n') {
                let (_, read) = recv(&self.socket, &mut buffer[..=end], RecvFlags::DONTWAIT)?;
                let line = buffer.get(..end).filter(|_| read == end + 1).unwrap_or_default();
                return Ok(terms::outside::text(&String::from_utf8_lossy(line)).into_owned());
            }
            if found == LONGEST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a line of more than {LONGEST} bytes")));
            }
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the rest of a line did not come"));
            }
            // Half a line wakes at once each time.
            if found == seen {
                std::thread::sleep(PAUSE.min(left));
            }
            seen = found;
        }
    }
}

/// The value of a field of a line. Launchers order fields differently.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn expect(line: &str, answer: &str) -> io::Result<()> {
    match field(line, "cmd") {
        Some(said) if said == answer => Ok(()),
        _ => Err(invalid(&format!("`{answer}` was expected"), line)),
    }
}

/// Whether a request succeeded. MPICH 4 says `rc` to few of them.
fn is_success(line: &str) -> bool {
    field(line, "rc").is_none_or(|code| code == "0")
}

/// What is wrong with a line: its beginning, without a value, which may be the secret.
fn invalid(why: &str, line: &str) -> io::Error {
    let shown = line.split("value=").next().unwrap_or_default();
    let shown: String = shown.chars().take(80).collect();
    io::Error::new(io::ErrorKind::InvalidData, format!("{why}, and `{}` came", shown.trim_end()))
}

fn garbled(index: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("part {} of the value is not what rank 0 put", index + 1))
}

/// The bytes that these digits are of.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| match pair {
        [high, low] => {
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            u8::try_from(digit(high)? * 16 + digit(low)?).ok()
        }
        _ => None,
    };
    digits.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests;

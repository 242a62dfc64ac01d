//! The Python package against this crate: it says what we say, byte for byte, and its own tests pass. Neither needs torch.

use std::path::PathBuf;
use std::process::{Command as Process, Output};

use control::{FromRank, Hex, MAX_FRAME, MAX_HANDSHAKE, Nonce, PROTOCOL, Role, Secret, ToRank, write};
use measure::{Command, Probe, Reply, SampleRequest};
use serde::Serialize;
use serde_json::{Value, json};
use terms::{Collective, Mode, Named};
use trace::{Hook, OwnSlot, StatusSlot};

use crate::play::{Test, case};
use crate::skip;

pub(crate) const TESTS: &[Test] = &[
    ("pytorch::the_package_speaks_as_we_do", the_package_speaks_as_we_do),
    ("pytorch::the_packages_own_tests_pass", the_packages_own_tests_pass),
];

/// Runs the Python that tests use, in the folder of the package; None, listed as skipped, where there is none.
fn python(name: &str, arguments: &[&str]) -> Option<Output> {
    let program = std::env::var_os("RANKMARK_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../python"));
    match Process::new(&program).args(["-B"]).args(arguments).current_dir(folder).output() {
        Ok(output) => Some(output),
        Err(error) => {
            skip::skip(name, &format!("{}: {error}", program.display()));
            None
        }
    }
}

/// The name under which a message travels.
fn tag(message: &impl Serialize) -> String {
    match serde_json::to_value(message).unwrap() {
        Value::String(name) => name,
        Value::Object(map) => map.keys().next().unwrap().clone(),
        other => panic!("{other}"),
    }
}

// One value of each kind. A kind that is added does not compile here until it has a value, and does not pass until the
// package knows it.

fn to_rank() -> Vec<ToRank> {
    let all = vec![
        ToRank::Welcome,
        ToRank::Refused(String::new()),
        ToRank::Command(Box::new(Command::Check)),
        ToRank::Gathered(Vec::new()),
        ToRank::Leave,
    ];
    for message in &all {
        match message {
            ToRank::Welcome | ToRank::Refused(_) | ToRank::Command(_) | ToRank::Gathered(_) | ToRank::Leave => {}
            // For the processes of an outer launcher, which start ranks and are none.
            ToRank::Serve { .. }
            | ToRank::ServeRemote(_)
            | ToRank::End(_)
            | ToRank::Clock(_)
            | ToRank::Listen(_)
            | ToRank::Reach { .. }
            | ToRank::Links(_)
            | ToRank::Alive
            | ToRank::Dismissed(_) => {}
        }
    }
    all
}

fn from_rank() -> Vec<FromRank> {
    let all = vec![
        FromRank::Started(None),
        FromRank::Reply(Box::new(Reply::Samples(Vec::new()))),
        FromRank::Gather(Hex(Vec::new())),
    ];
    for message in &all {
        match message {
            FromRank::Started(_) | FromRank::Reply(_) | FromRank::Gather(_) => {}
            // Of the same.
            FromRank::Here(_) | FromRank::Shows { .. } | FromRank::Ended { .. } | FromRank::Clock { .. } => {}
            FromRank::Listens { .. }
            | FromRank::Reached { .. }
            | FromRank::Links { .. }
            | FromRank::LauncherEnded(_) => {}
        }
    }
    all
}

fn commands() -> Vec<Command> {
    let all = vec![
        Command::Prepare { case: Box::new(case("x", json!({}))), check: true },
        Command::Sample(SampleRequest { mode: Mode::Streaming, samples: 1, calls: 1 }),
        Command::Check,
        Command::Probe(Probe::Canary),
        Command::Clocks(vec![None]),
        Command::Observe,
        Command::Finish,
    ];
    for command in &all {
        match command {
            Command::Prepare { .. } | Command::Sample(_) | Command::Check => {}
            Command::Probe(_) | Command::Clocks(_) | Command::Observe | Command::Finish => {}
        }
    }
    all
}

fn probes() -> Vec<Probe> {
    let limit = Probe::Limit { variant: 0, rounds: 1 };
    let arrivals = Probe::Arrivals { operations: 1, stagger_ns: 0 };
    let all = vec![Probe::Canary, limit, arrivals, Probe::Overhead, Probe::Begin];
    for probe in &all {
        match probe {
            Probe::Canary
            | Probe::Limit { .. }
            | Probe::Arrivals { .. }
            | Probe::Overhead
            | Probe::Begin
            | Probe::Steps { .. } => {}
        }
    }
    all
}

fn tags<T: Serialize>(messages: &[T]) -> Vec<String> {
    messages.iter().map(tag).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where the two words of a slot lie: found by changing them.
fn slot_places() -> [usize; 2] {
    let slot = std::sync::Arc::new(OwnSlot::default());
    let place = |act: &dyn Fn()| {
        let read = || {
            let slot: &StatusSlot = (*slot).as_ref();
            // SAFETY: a slot is plain atomics of its own size, which only this thread changes meanwhile.
            unsafe { std::slice::from_raw_parts(std::ptr::from_ref(slot).cast::<u64>(), 2) }.to_vec()
        };
        let before = read();
        act();
        read().iter().zip(&before).position(|(after, before)| after != before).unwrap() * 8
    };
    let hook = Hook::new(0, trace::Clock::fake(), slot.clone());
    [place(&|| hook.enter(Collective::Barrier)), place(&|| (*slot).as_ref().beat())]
}

fn the_package_speaks_as_we_do() {
    let Some(output) = python("the Python package's messages", &["tests/facts.py"]) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    let theirs: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let (secret, nonce, hello) = (Secret::from_bytes([7; 32]), Nonce([9; 32]), b"hello");
    let proof = |role| String::from_utf8(write(&secret.proof(role, hello, &nonce)).unwrap()).unwrap().replace('"', "");
    let mut session = secret.session(Role::Rank, hello, &nonce);
    let mut seal = |text: &[u8]| hex(&session.sealer.seal(text).unwrap());
    let [operation, heartbeat] = slot_places();
    let ours = json!({
        "version": PROTOCOL,
        "to_rank": tags(&to_rank()),
        "from_rank": tags(&from_rank()),
        "commands": tags(&commands()),
        "probes": tags(&probes()),
        "operations": Collective::names(),
        "slot": [size_of::<StatusSlot>(), operation, heartbeat],
        "proofs": [proof(Role::Coordinator), proof(Role::Rank)],
        "sealed": [seal(b"one"), seal(b"")],
        "limits": [MAX_FRAME, MAX_HANDSHAKE],
    });
    assert_eq!(theirs, ours, "the package and this program no longer speak alike (docs/explanation/pytorch-ranks.md)");
}

fn the_packages_own_tests_pass() {
    let arguments = ["-W", "ignore", "-m", "unittest", "discover", "-s", "tests"];
    let Some(output) = python("the Python package's own tests", &arguments) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("Ran 0 tests"), "no test was found");
}

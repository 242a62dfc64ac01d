//! Rankmark with one more backend: all there is to write for one. It moves data by shared memory, adds a delay that is its
//! own option, and starts its ranks by a launcher of its own, which is this program again.
//!
//! ```sh
//! cargo run --example toy_backend -- comm all_reduce --backend relay --relay-delay 2ms --ranks 2 --bytes 1KiB
//! ```

#![expect(clippy::disallowed_methods, reason = "its launcher reads its arguments and starts processes")]

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use comm::{
    Abort, About, Asked, Backend, Bootstrap, Call, Communicator, Launch, Options, Own, Readiness, Result, Shape,
    Ticket, Tools, Wait,
};
use device::{Queue, Region};
use serde_json::Value;
use terms::{Field, FieldError, Kind, Role, Space};

/// The line that a backend of the program itself has in `comm`'s table.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, ranks, program, argument] = &arguments[..]
        && word == START
    {
        return start(ranks, program, argument);
    }
    comm::add(&[&Relay]);
    rankmark::main()
}

/// What makes this program the launcher of its ranks.
const START: &str = "start-ranks";

/// The launcher: starts the ranks, tells each its number, and waits for them.
fn start(ranks: &str, program: &str, argument: &str) -> ExitCode {
    let count: u32 = ranks.parse().unwrap_or(0);
    let rank = |rank: u32| {
        Command::new(program).arg(argument).env("PMI_RANK", rank.to_string()).env("PMI_SIZE", ranks).spawn()
    };
    let ranks: Vec<_> = (0..count).map(rank).collect();
    let ended = ranks.into_iter().map(|rank| rank.and_then(|mut rank| rank.wait()));
    if ended.fold(true, |fine, status| fine & status.is_ok_and(|status| status.success())) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

struct Relay;

static ABOUT: About = About {
    name: "relay",
    doc: "shared memory with a delay, as an example",
    simulated: false,
    in_process: false,
    launched: true,
    one_host: true,
};

const DELAY: &str = "relay_delay";

static FIELDS: &[Field] = &[Field::new(Kind::Seconds, None, "relay: what each operation waits besides")
    .named(DELAY)
    .owner("relay")
    .role(Role::Launch)];

fn delay(own: &Own) -> f64 {
    own.get(DELAY).and_then(Value::as_f64).unwrap_or(0.0)
}

impl Backend for Relay {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn probe(&self) -> Readiness {
        Readiness::Ready { version: "toy 1.0".to_owned(), path: None }
    }

    fn fields(&self) -> &'static [Field] {
        FIELDS
    }

    fn check(&self, own: &mut Own, _environment: &[String]) -> std::result::Result<(), FieldError> {
        if delay(own) <= 1.0 {
            return Ok(());
        }
        let message = format!("`{DELAY}` is at most a second");
        Err(FieldError::new(DELAY, message).hint("`relay_delay: 2ms` is enough to see it"))
    }

    fn launch(&self, _own: &Own, asked: Asked<'_>, _tools: &dyn Tools) -> std::result::Result<Launch, String> {
        let program: PathBuf = std::env::current_exe().map_err(|error| error.to_string())?;
        let arguments = vec![START.to_owned(), asked.ranks.to_string()];
        Ok(Launch { program, arguments, environment: Vec::new(), rank_variable: "PMI_RANK" })
    }

    fn open(&self, bootstrap: &mut dyn Bootstrap, options: &Options) -> Result<(Box<dyn Communicator>, Abort)> {
        let (inner, abort) = comm::open("shm", bootstrap, &Options { own: Own::new(), ..options.clone() })?;
        Ok((Box::new(Delayed { inner, delay: Duration::from_secs_f64(delay(&options.own)) }), abort))
    }
}

struct Delayed {
    inner: Box<dyn Communicator>,
    delay: Duration,
}

impl Communicator for Delayed {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.inner.alloc(bytes, space)
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        std::thread::sleep(self.delay);
        self.inner.start(group, after)
    }

    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool> {
        self.inner.finish(ticket, how)
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let inner = self.inner.split(color, key)?;
        let delay = self.delay;
        Ok(inner.map(|inner| Box::new(Delayed { inner, delay }) as Box<dyn Communicator>))
    }

    fn path(&self, _call: &Call) -> &'static str {
        "relayed"
    }
}

//! Injected faults: `--inject KIND:key=value,...`, to prove that each detector fires.

use std::fmt;
use std::str::FromStr;

use terms::{Seconds, UnknownName};

use crate::timeline::Kind;

/// What is injected.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum InjectionKind {
    /// The rank sleeps this long before entering the operation.
    Delay(Seconds),
    /// The rank sleeps at the beginning of this phase of a training step. `at` and `every` count steps.
    Slow {
        /// Input, forward, backward, optimizer or host.
        phase: Kind,
        /// How long.
        by: SlowBy,
    },
    /// One element of the rank's output is changed after the operation.
    Wrong {
        /// Which element.
        element: u64,
    },
    /// The rank sends itself SIGKILL inside the operation.
    Kill,
    /// The rank sends itself SIGSTOP inside the operation.
    Stop,
}

/// How long a phase is delayed.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum SlowBy {
    /// A delay of this time.
    Time(Seconds),
    /// A delay of so many percent of what the rank's steps take without the delay. No delay in the first
    /// steps, while that is not known.
    Percent(f64),
}

/// Phases that can be delayed: `input` waits for data, `host` is time of the step that belongs to no phase.
const PHASES: [Kind; 5] = [Kind::Input, Kind::Forward, Kind::Backward, Kind::Optimizer, Kind::Host];

/// One `--inject`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Injection {
    /// The kind, with what it needs.
    pub kind: InjectionKind,
    /// The rank that it happens on.
    pub rank: u32,
    /// The operation (counted from 0 in each case) that it happens in; every operation from `at` on when `every`. Of a delayed
    /// phase: the step.
    pub at: u64,
    /// Whether it repeats: at every `every`-th operation from `at`. Zero: once.
    pub every: u64,
}

impl Injection {
    /// Whether it happens in operation `k` of a case.
    pub fn hits(&self, k: u64) -> bool {
        if self.every == 0 { k == self.at } else { k >= self.at && (k - self.at).is_multiple_of(self.every) }
    }
}

const KINDS: [&str; 4] = ["delay", "wrong", "kill", "stop"];

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            // In whole nanoseconds, because `Seconds` rounds for reading.
            InjectionKind::Delay(time) => {
                write!(f, "delay:rank={},time={}ns", self.rank, (time.0 * 1e9).round() as u64)?;
            }
            InjectionKind::Slow { phase, by } => {
                write!(f, "delay:rank={},phase={}", self.rank, phase.name())?;
                match by {
                    SlowBy::Time(time) => write!(f, ",time={}ns", (time.0 * 1e9).round() as u64)?,
                    SlowBy::Percent(percent) => write!(f, ",percent={percent}")?,
                }
            }
            InjectionKind::Wrong { element } => write!(f, "wrong:rank={},element={element}", self.rank)?,
            InjectionKind::Kill => write!(f, "kill:rank={}", self.rank)?,
            InjectionKind::Stop => write!(f, "stop:rank={}", self.rank)?,
        }
        write!(f, ",at={}", self.at)?;
        if self.every > 0 { write!(f, ",every={}", self.every) } else { Ok(()) }
    }
}

impl FromStr for Injection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let kind = terms::normalize(kind);
        if !KINDS.contains(&kind.as_str()) {
            return Err(UnknownName::among("injection", &kind, KINDS.to_vec()).to_string());
        }
        let (mut rank, mut at, mut every, mut time, mut element) = (0, 0, None, None, 0);
        let (mut phase, mut percent) = (None, None);
        for pair in rest.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}` in `{text}` is not key=value"))?;
            let number =
                || value.trim().parse::<u64>().map_err(|_| format!("`{value}` in `{text}` is not a whole number"));
            match (key.trim(), kind.as_str()) {
                ("rank", _) => rank = u32::try_from(number()?).map_err(|error| error.to_string())?,
                ("at", _) => at = number()?,
                ("every", "delay" | "wrong") => every = Some(number()?),
                ("time", "delay") => time = Some(value.trim().parse().map_err(|error| format!("{error}"))?),
                ("phase", "delay") => phase = Some(phase_of(value.trim())?),
                ("percent", "delay") => percent = Some(percent_of(value.trim())?),
                ("element", "wrong") => element = number()?,
                (key, kind) => return Err(format!("`{kind}` takes no `{key}` (in `{text}`)")),
            }
        }
        let (kind, repeats) = match kind.as_str() {
            "delay" => (delay(phase, time, percent).map_err(|why| format!("{why} (in `{text}`)"))?, 1),
            "wrong" => (InjectionKind::Wrong { element }, 1),
            "kill" => (InjectionKind::Kill, 0),
            _ => (InjectionKind::Stop, 0),
        };
        Ok(Self { kind, rank, at, every: every.unwrap_or(repeats) })
    }
}

fn phase_of(name: &str) -> Result<Kind, String> {
    let names = PHASES.map(Kind::name);
    let found = PHASES.into_iter().find(|phase| phase.name() == terms::normalize(name));
    found.ok_or_else(|| format!("there is no phase `{name}` (valid values: {})", names.join(", ")))
}

fn percent_of(value: &str) -> Result<f64, String> {
    let percent = value.trim_end_matches('%').parse::<f64>().ok();
    let within = percent.filter(|percent| *percent > 0.0 && *percent <= 1000.0);
    within.ok_or_else(|| format!("`{value}` is not a percentage above 0 and at most 1000"))
}

fn delay(phase: Option<Kind>, time: Option<Seconds>, percent: Option<f64>) -> Result<InjectionKind, &'static str> {
    match (phase, time, percent) {
        (_, Some(_), Some(_)) => Err("a delay has a time or a percentage, not both"),
        (None, _, Some(_)) => Err("`percent` is a share of a training step, so it needs `phase`"),
        (None, time, None) => Ok(InjectionKind::Delay(time.unwrap_or(DELAY))),
        (Some(phase), _, Some(percent)) => Ok(InjectionKind::Slow { phase, by: SlowBy::Percent(percent) }),
        (Some(phase), time, None) => Ok(InjectionKind::Slow { phase, by: SlowBy::Time(time.unwrap_or(DELAY)) }),
    }
}

/// How long a delay lasts if its injection does not say.
const DELAY: Seconds = Seconds(1e-3);

/// For help texts: every kind and its keys.
pub const USAGE: &str = "delay:rank=1,phase=backward,percent=10 | delay:rank=1,time=5ms,at=0,every=1 | wrong:rank=1,element=0,at=0,every=1 | kill:rank=1,at=17 | stop:rank=1,at=17";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn injections_read_back() {
        for text in [
            "delay:rank=1,phase=backward,percent=10",
            "delay:rank=2,phase=input,time=3ms,at=4,every=2",
            "delay:rank=1,time=5ms,at=3,every=2",
            "wrong:rank=0,element=7",
            "kill:rank=2,at=17",
            "stop:rank=1",
        ] {
            let injection: Injection = text.parse().unwrap();
            assert_eq!(injection.to_string().parse::<Injection>().unwrap(), injection, "{text}");
        }
        for wrong in ["dealy:rank=1", "kill:rank=x", "kill:time=1ms", "kill:rank", "wrong:rank=99999999999"] {
            assert!(wrong.parse::<Injection>().is_err(), "{wrong}");
        }
        let every: Injection = "delay:rank=1,at=3,every=2".parse().unwrap();
        assert_eq!((0..8).filter(|k| every.hits(*k)).collect::<Vec<_>>(), [3, 5, 7]);
    }

    #[test]
    fn a_wrong_injection_says_what_would_be_right() {
        let error = |text: &str| text.parse::<Injection>().unwrap_err();
        assert_eq!(error("dealy:rank=1"), "unknown injection `dealy`, did you mean `delay`?");
        assert_eq!(error("explode"), "unknown injection `explode` (valid values: delay, wrong, kill, stop)");
        assert_eq!(error("kill:rank"), "`rank` in `kill:rank` is not key=value");
        assert_eq!(error("kill:rank=x"), "`x` in `kill:rank=x` is not a whole number");
        assert_eq!(error("stop:time=1ms"), "`stop` takes no `time` (in `stop:time=1ms`)");
    }

    #[test]
    fn kill_and_stop_strike_once_delay_and_wrong_every_time() {
        let hits = |text: &str| {
            let injection: Injection = text.parse().unwrap();
            (0..4).filter(|number| injection.hits(*number)).collect::<Vec<_>>()
        };
        assert_eq!(hits("kill:at=2"), [2]);
        assert_eq!(hits("stop"), [0]);
        assert_eq!(hits("delay:at=2"), [2, 3]);
        assert_eq!(hits("wrong"), [0, 1, 2, 3]);
        assert_eq!(hits("wrong:at=1,every=0"), [1]);
    }
}

//! States of the machine over a run: found from the canaries of all trials of all cases together, so that what no single case
//! shows clearly is seen.

use std::collections::HashMap;

use record::{CanaryKind, CanaryLevel, CaseLine, MachineState};

use crate::labels::Labels;
use crate::{CaseRun, Trial};

/// States are found again where there are up to this many trials, and from then on after each growth by this share.
const OFTEN: usize = 1_000;
const GROWTH: f64 = 1.01;

/// What canaries of a run showed so far, and the states that follow.
#[derive(Debug, Default)]
pub struct MachineStates {
    /// What each trial saw.
    looks: Vec<Look>,
    /// Channels: what was looked at, by how many ranks at once.
    channels: Vec<(CanaryKind, u32)>,
    /// Places of the trials of each case among these.
    places: HashMap<String, Vec<Option<usize>>>,
    /// What each case was told last.
    told: HashMap<String, Labels>,
    found: Found,
}

#[derive(Debug, Default)]
struct Found {
    /// Trials that it rests on.
    looks: usize,
    states: Vec<MachineState>,
    /// The state of each trial; None where it changed within.
    of: Vec<Option<usize>>,
    /// That of most trials.
    main: usize,
}

/// What a trial saw before and after its samples, by channel.
#[derive(Debug)]
struct Look {
    values: Vec<(usize, [f64; 2])>,
}

impl MachineStates {
    /// Notes what the canaries of the case's last trial showed, finds the states again if that is due, and tells the case the
    /// states of its trials.
    pub fn note(&mut self, run: &mut CaseRun) {
        if run.simulated {
            return;
        }
        let Some(trial) = run.trials.last() else { return };
        let place = self.looked(trial, run.case.ranks());
        let places = self.places.entry(run.case.id.clone()).or_default();
        places.resize(run.trials.len() - 1, None);
        places.push(place);
        if self.looks.len() <= OFTEN || self.looks.len() as f64 > GROWTH * self.found.looks as f64 {
            self.find();
        }
        self.tell(run);
    }

    /// Tells a case the states of its trials. Whether it was told something else before.
    pub fn tell(&mut self, run: &mut CaseRun) -> bool {
        let labels = self.labels(&run.case.id);
        let is_new = labels != run.labels;
        match &labels {
            Some(labels) => drop(self.told.insert(run.case.id.clone(), labels.clone())),
            None => drop(self.told.remove(&run.case.id)),
        }
        run.labels = labels;
        is_new
    }

    /// Adds what a trial saw; None where no canary told anything both times.
    fn looked(&mut self, trial: &Trial, ranks: u32) -> Option<usize> {
        let (before, after) = trial.canaries.as_ref()?;
        let both = before.levels().into_iter().zip(after.levels());
        let told = both.filter_map(|((kind, before), (_, after))| Some((kind, [before?, after?])));
        let values: Vec<(usize, [f64; 2])> = told.map(|(kind, seen)| (self.channel(kind, ranks), seen)).collect();
        if values.is_empty() {
            return None;
        }
        self.looks.push(Look { values });
        Some(self.looks.len() - 1)
    }

    fn channel(&mut self, kind: CanaryKind, ranks: u32) -> usize {
        let known = self.channels.iter().position(|channel| *channel == (kind, ranks));
        known.unwrap_or_else(|| {
            self.channels.push((kind, ranks));
            self.channels.len() - 1
        })
    }

    fn find(&mut self) {
        // The smaller of both: what disturbs a look for a moment makes it longer, and a state lasts.
        let moment = |look: &Look| {
            let mut values = vec![None; self.channels.len()];
            look.values.iter().for_each(|(channel, [before, after])| values[*channel] = Some(before.min(*after)));
            values
        };
        let mut moments: Vec<Vec<Option<f64>>> = self.looks.iter().map(moment).collect();
        let mut states = stats::states(&moments);
        // What a canary shows must be what it looks for: without that canary the others are asked.
        while let Some(channel) = states.channel.filter(|channel| !self.is_apart(*channel, &states)) {
            moments.iter_mut().for_each(|moment| moment[channel] = None);
            states = stats::states(&moments);
        }
        let of: Vec<Option<usize>> = (0..self.looks.len())
            .map(|at| (!self.changed(&self.looks[at], &states)).then_some(states.of[at]))
            .collect();
        let state = |(at, name): (usize, Option<String>)| {
            let level = |(channel, (canary, ranks)): (usize, &(CanaryKind, u32))| {
                states.levels[at][channel].map(|median| CanaryLevel { canary: *canary, ranks: *ranks, median })
            };
            let canaries = self.channels.iter().enumerate().filter_map(level).collect();
            let trials = of.iter().filter(|of| **of == Some(at)).count();
            MachineState { name, share: trials as f64 / of.len().max(1) as f64, trials: trials as u32, canaries }
        };
        let found: Vec<MachineState> = self.names(&states).into_iter().enumerate().map(state).collect();
        let main = (0..found.len()).max_by_key(|at| (found[*at].trials, usize::MAX - at)).unwrap_or(0);
        self.found = Found { looks: self.looks.len(), states: found, of, main };
    }

    /// Whether neighbouring levels of a channel are as far apart as states of its kind are.
    fn is_apart(&self, channel: usize, states: &stats::States) -> bool {
        let least = match self.channels[channel].0 {
            CanaryKind::RoundTripNs => 1.3,
            // Two threads that share all units get half each.
            CanaryKind::UnitsShared => 1.4,
            // The bins of a processor's clock are 100 MHz.
            CanaryKind::ClockNs => 1.025,
        };
        let levels: Vec<f64> = (0..states.count()).filter_map(|state| states.levels[state][channel]).collect();
        levels.windows(2).all(|pair| pair[1] > least * pair[0])
    }

    /// Whether what a trial saw before and after belongs to different states, by what shows them.
    fn changed(&self, look: &Look, states: &stats::States) -> bool {
        let Some(shown_by) = states.channel.map(|channel| self.channels[channel].0) else { return false };
        look.values.iter().filter(|(channel, _)| self.channels[*channel].0 == shown_by).any(|(channel, seen)| {
            let distance = |state: usize, value: f64| {
                states.levels[state][*channel].map_or(f64::INFINITY, |level| (value / level).ln().abs())
            };
            let nearest =
                |value: f64| (0..states.count()).min_by(|a, b| distance(*a, value).total_cmp(&distance(*b, value)));
            nearest(seen[0]) != nearest(seen[1])
        })
    }

    /// Names of the states: by what was seen. One state needs none.
    fn names(&self, states: &stats::States) -> Vec<Option<String>> {
        let Some(kind) = states.channel.map(|channel| self.channels[channel].0) else { return vec![None] };
        // Levels ascend: of what was seen, of three the middle one lies between.
        let words = match kind {
            CanaryKind::RoundTripNs => ["near cores", "middle cores", "far cores"],
            CanaryKind::UnitsShared => ["own cores", "partly shared cores", "shared cores"],
            CanaryKind::ClockNs => ["fast clock", "middle clock", "slow clock"],
        };
        let of = |at: usize| if at > 0 && at + 1 == states.count() { words[2] } else { words[at.min(1)] };
        (0..states.count()).map(|at| Some(of(at).to_owned())).collect()
    }

    /// The states of the run so far.
    pub fn states(&self) -> &[MachineState] {
        &self.found.states
    }

    /// Tells a line, made when the run had found other states or none, what the whole run tells.
    pub fn conclude(&self, line: &mut CaseLine) {
        let Some(labels) = self.labels(&line.id) else {
            // What looked like several turned out to be one.
            return;
        };
        match self.told.get(&line.id).filter(|_| !line.states.is_empty()) {
            Some(known) => {
                let name = |state: &str| {
                    let old = known.names.iter().position(|name| name == state)?;
                    let trials = known.trials(old);
                    let number =
                        |new: &usize| trials.iter().filter(|at| labels.of.get(**at) == Some(&Some(*new))).count();
                    (0..labels.names.len()).max_by_key(number).map(|new| labels.names[new].clone())
                };
                line.states
                    .iter_mut()
                    .for_each(|state| state.name = name(&state.name).unwrap_or_else(|| state.name.clone()));
                line.state = line.state.as_deref().map(|state| name(state).unwrap_or_else(|| state.to_owned()));
            }
            // It ended before a second state was seen.
            None if line.trial_median_s.len() == labels.of.len() => {
                line.states =
                    labels.times(&line.trial_median_s, line.time_s.as_ref().is_some_and(|time| time.ci95.is_some()));
                let alone = line.states.len() == 1 && labels.of.iter().all(Option::is_some);
                line.state = line.states.first().filter(|_| alone).map(|state| state.name.clone());
            }
            None => {}
        }
    }

    /// The states of a case's trials; None where the run saw one state.
    pub fn labels(&self, case: &str) -> Option<Labels> {
        let names: Vec<String> = self.found.states.iter().filter_map(|state| state.name.clone()).collect();
        if names.len() < 2 {
            return None;
        }
        let of = |place: &Option<usize>| {
            let place = (*place)?;
            *self.found.of.get(place)?
        };
        let of = self.places.get(case)?.iter().map(of).collect();
        Some(Labels { names, of, main: self.found.main })
    }
}

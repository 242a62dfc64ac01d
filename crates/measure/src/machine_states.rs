//! States of the machine over a run: found from the canaries of all trials of all cases together, so that what no single case
//! shows clearly is seen.

use std::collections::{BTreeMap, HashMap, HashSet};

use record::{CanaryKind, CanaryLevel, CaseLine, MachineState, likest};

use crate::labels::Labels;
use crate::{Canary, CaseRun, Trial};

mod on_host;

use on_host::{Channel, Look, OnHost};

/// States are found again where there are up to this many trials, and from then on after each growth by this share.
const OFTEN: usize = 1_000;
const GROWTH: f64 = 1.01;

/// What is known of the machine's states before a run, and which of them is wanted.
#[derive(Clone, Debug, Default)]
pub struct StatesAsked {
    /// States that earlier runs on this machine saw.
    pub known: Vec<MachineState>,
    /// The name of the only state in which trials count; None: any.
    pub wanted: Option<String>,
    /// Names of the hosts that hold ranks, by number; empty: there is one.
    pub hosts: Vec<String>,
}

/// What canaries of a run showed so far, and the states that follow.
#[derive(Debug, Default)]
pub struct MachineStates {
    asked: StatesAsked,
    /// What each trial saw.
    looks: Vec<Look>,
    channels: Vec<Channel>,
    /// Places of the trials of each case among these.
    places: HashMap<String, Vec<Option<usize>>>,
    /// Cases that have a canary and saw nothing by it.
    blind: HashSet<String>,
    /// The labels that each case got last.
    last_labels: HashMap<String, Labels>,
    found: DetectedStates,
}

#[derive(Debug, Default)]
struct DetectedStates {
    /// Trials that it rests on.
    looks: usize,
    states: Vec<MachineState>,
    /// The state of each trial; None where it changed within.
    of: Vec<Option<usize>>,
}

impl MachineStates {
    /// States of a run that has not begun.
    pub fn new(asked: StatesAsked) -> Self {
        Self { asked, ..Self::default() }
    }

    /// Notes what the canaries of the case's last trial showed, finds the states again if that is due, and tells the case the
    /// states of its trials.
    pub fn note(&mut self, run: &mut CaseRun) {
        if run.simulated {
            return;
        }
        let Some(trial) = run.trials.last() else { return };
        let place = self.looked(trial, &run.case.id, run.case.ranks());
        let places = self.places.entry(run.case.id.clone()).or_default();
        places.resize(run.trials.len() - 1, None);
        places.push(place);
        if self.looks.len() <= OFTEN || self.looks.len() as f64 > GROWTH * self.found.looks as f64 {
            self.find();
        }
        self.tell(run);
    }

    /// Gives a case the states of its trials. Returns whether they differ from those that it had.
    pub fn tell(&mut self, run: &mut CaseRun) -> bool {
        let labels = self.labels(&run.case.id);
        let is_new = labels != run.labels;
        match &labels {
            Some(labels) => drop(self.last_labels.insert(run.case.id.clone(), labels.clone())),
            None => drop(self.last_labels.remove(&run.case.id)),
        }
        run.labels = labels;
        is_new
    }

    /// Adds what a trial saw; None where no canary had a value both before and after it.
    fn looked(&mut self, trial: &Trial, case: &str, ranks: u32) -> Option<usize> {
        let (before, after) = trial.canaries.as_ref()?;
        let place = self.see(before, after, ranks);
        match place {
            None => self.blind.insert(case.to_owned()),
            Some(_) => self.blind.remove(case),
        };
        place
    }

    /// Adds what so many ranks saw before and after something; None where nothing was seen both times.
    fn see(&mut self, before: &Canary, after: &Canary, ranks: u32) -> Option<usize> {
        let both = before.levels().zip(after.levels());
        let seen = both.filter_map(|((host, canary, before), (.., after))| {
            Some((Channel { canary, ranks, host }, [before?, after?]))
        });
        let values: Vec<(usize, [f64; 2])> = seen.map(|(channel, seen)| (self.channel(channel), seen)).collect();
        if values.is_empty() {
            return None;
        }
        self.looks.push(Look { values });
        Some(self.looks.len() - 1)
    }

    /// The states of a machine that so many ranks looked at, without any case. Of two looks that follow each other the smaller
    /// counts, as before and after the samples of a trial.
    pub fn of_looks(asked: StatesAsked, looks: &[Canary], ranks: u32) -> Vec<MachineState> {
        let mut states = Self::new(asked);
        for pair in looks.chunks_exact(2) {
            states.see(&pair[0], &pair[1], ranks);
        }
        states.find();
        states.found.states
    }

    fn channel(&mut self, channel: Channel) -> usize {
        self.channels.iter().position(|known| *known == channel).unwrap_or_else(|| {
            self.channels.push(channel);
            self.channels.len() - 1
        })
    }

    fn find(&mut self) {
        let hosts: Vec<u32> = match self.channels.iter().map(|channel| channel.host).max() {
            Some(most) => (0..=most).collect(),
            None => Vec::new(),
        };
        let on_hosts: Vec<OnHost> =
            hosts.into_iter().map(|host| OnHost::find(host, &self.looks, &self.channels)).collect();
        let (combinations, of) = combined(&on_hosts, self.looks.len());
        let several = on_hosts.len() > 1;
        let state = |(at, combination): (usize, &Vec<usize>)| {
            let parts = || on_hosts.iter().zip(combination);
            let named = parts().filter_map(|(on_host, state)| Some((on_host.host, on_host.names[*state]?)));
            let names: Vec<String> = named.map(|(host, word)| self.on_host(word, host, several)).collect();
            let trials = of.iter().filter(|of| **of == Some(at)).count();
            MachineState {
                name: (!names.is_empty()).then(|| names.join(", ")),
                share: trials as f64 / of.len().max(1) as f64,
                trials: trials as u32,
                canaries: parts().flat_map(|(host, state)| host.canaries(*state, &self.channels, several)).collect(),
            }
        };
        let mut states: Vec<MachineState> = combinations.iter().enumerate().map(state).collect();
        self.name_as_known(&mut states);
        self.found = DetectedStates { looks: self.looks.len(), states, of };
    }

    fn on_host(&self, word: &str, host: u32, several: bool) -> String {
        match self.asked.hosts.get(host as usize) {
            Some(name) if several => format!("{word} on {name}"),
            None if several => format!("{word} on host {host}"),
            _ => word.to_owned(),
        }
    }

    /// Calls states what earlier runs on this machine called them.
    fn name_as_known(&self, states: &mut [MachineState]) {
        let known = &self.asked.known;
        let alone = states.len() == 1;
        if alone && known.len() < 2 {
            return;
        }
        let name = |state: &MachineState| {
            let found = likest(state, known).filter(|found| !alone || found.is_same(state))?;
            found.name.clone()
        };
        let Some(names) = states.iter().map(name).collect::<Option<Vec<String>>>() else { return };
        // What this run tells apart, earlier ones may not have.
        if names.iter().collect::<HashSet<_>>().len() == names.len() {
            states.iter_mut().zip(names).for_each(|(state, name)| state.name = Some(name));
        }
    }

    /// The states of the run so far.
    pub fn states(&self) -> &[MachineState] {
        &self.found.states
    }

    /// States that earlier runs on this machine saw, and this one did not.
    pub fn unseen(&self) -> Vec<MachineState> {
        let own: Vec<&String> = self.found.states.iter().filter_map(|state| state.name.as_ref()).collect();
        // Without a name of what was seen, nobody knows what was not.
        if own.is_empty() {
            return Vec::new();
        }
        let is_new = |state: &&MachineState| state.name.as_ref().is_some_and(|name| !own.contains(&name));
        self.asked.known.iter().filter(is_new).cloned().collect()
    }

    /// The state that was asked for.
    pub fn wanted(&self) -> Option<&str> {
        self.asked.wanted.as_deref()
    }

    /// Whether ranks that see this now are in the state that was asked for; None where that is not known yet, or none was.
    pub fn is_wanted(&self, seen: &Canary, ranks: u32) -> Option<bool> {
        let wanted = self.wanted()?;
        let named = |state: &&MachineState| state.name.as_deref() == Some(wanted);
        let own = &self.found.states;
        let states = if own.len() > 1 && own.iter().any(|state| named(&state)) { own } else { &self.asked.known };
        states.iter().find(named)?;
        let several = seen.hosts.len() > 1;
        let level = |(host, canary, median): (u32, CanaryKind, Option<f64>)| {
            Some(CanaryLevel { canary, ranks, host: several.then_some(host), median: median? })
        };
        let canaries: Vec<CanaryLevel> = seen.levels().filter_map(level).collect();
        let is_known =
            |level: &CanaryLevel| states.iter().flat_map(|state| &state.canaries).any(|one| one.is_like(level));
        if !canaries.iter().any(is_known) {
            return None;
        }
        let now = MachineState { name: None, share: 1.0, trials: 1, canaries };
        Some(likest(&now, states).is_some_and(|state| named(&state)))
    }

    /// Tells a line, made when the run had found other states or none, what the whole run tells.
    pub fn conclude(&self, line: &mut CaseLine) {
        let Some(labels) = self.labels(&line.id) else {
            // What looked like several turned out to be one.
            return;
        };
        match self.last_labels.get(&line.id).filter(|_| !line.states.is_empty()) {
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

    /// The states of a case's trials; None where all trials count, and are in one state.
    pub fn labels(&self, case: &str) -> Option<Labels> {
        let states = &self.found.states;
        let wanted = |state: &MachineState| state.name.as_deref() == self.wanted();
        let (main, only) = match self.wanted() {
            Some(_) => (states.iter().position(wanted), true),
            None => ((0..states.len()).max_by_key(|at| (states[*at].trials, usize::MAX - at)), false),
        };
        if states.len() < 2 && (!only || main.is_some()) {
            return None;
        }
        let state_of = |place: &Option<usize>| self.found.of.get((*place)?).copied().flatten();
        let of: Vec<Option<usize>> = self.places.get(case)?.iter().map(state_of).collect();
        // A case with few samples, as in new processes, looks at the machine in few of its trials. These few must not stand
        // for all.
        if !only && 2 * of.iter().flatten().count() < of.len() {
            return None;
        }
        let names =
            states.iter().map(|state| state.name.clone().unwrap_or_else(|| "a state without a name".to_owned()));
        Some(Labels { names: names.collect(), of, main, only, blind: only && self.blind.contains(case) })
    }
}

/// States of all hosts together, as the state of each host, and which of them each look saw. Where several hosts change, those that
/// were seen most; what was seen once or twice is not a state of its own.
fn combined(on_hosts: &[OnHost], looks: usize) -> (Vec<Vec<usize>>, Vec<Option<usize>>) {
    let seen = |look: usize| -> Option<Vec<usize>> { on_hosts.iter().map(|host| host.of[look]).collect() };
    let mut numbers: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    let all: Vec<Option<Vec<usize>>> = (0..looks).map(seen).collect();
    all.iter().flatten().for_each(|combination| *numbers.entry(combination.clone()).or_default() += 1);
    let mut most: Vec<(Vec<usize>, usize)> = numbers.into_iter().collect();
    most.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    most.truncate(stats::MOST_STATES);
    let often = most.iter().filter(|(_, number)| *number >= stats::FEWEST_IN_STATE).count();
    most.truncate(often.max(1));
    let mut kept: Vec<Vec<usize>> = most.into_iter().map(|(combination, _)| combination).collect();
    kept.sort();
    let of = all.into_iter().map(|own| kept.iter().position(|one| Some(one) == own.as_ref())).collect();
    (kept, of)
}

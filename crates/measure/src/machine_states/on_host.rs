//! States of one host, from what canaries showed of it.

use record::{CanaryKind, CanaryLevel};

/// Where a canary looked: what at, by how many ranks at once, on which host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Channel {
    pub(super) canary: CanaryKind,
    pub(super) ranks: u32,
    pub(super) host: u32,
}

/// What a trial saw before and after its samples, by channel.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) values: Vec<(usize, [f64; 2])>,
}

/// The states of a host.
#[derive(Debug)]
pub(super) struct OnHost {
    pub(super) host: u32,
    /// The state at each look; None where it changed within the trial.
    pub(super) of: Vec<Option<usize>>,
    /// What states are called; None of the only one.
    pub(super) names: Vec<Option<&'static str>>,
    /// What was seen in each, by channel.
    levels: Vec<Vec<Option<f64>>>,
}

impl OnHost {
    pub(super) fn find(host: u32, looks: &[Look], channels: &[Channel]) -> Self {
        // The smaller of both: what disturbs a look for a moment makes it longer, and a state lasts.
        let moment = |look: &Look| {
            let mut values = vec![None; channels.len()];
            let own = look.values.iter().filter(|(channel, _)| channels[*channel].host == host);
            own.for_each(|(channel, [before, after])| values[*channel] = Some(before.min(*after)));
            values
        };
        let mut moments: Vec<Vec<Option<f64>>> = looks.iter().map(moment).collect();
        let mut states = stats::states(&moments);
        // What a canary shows must be what it looks for: without that canary the others are asked.
        while let Some(channel) = states.channel.filter(|at| !is_apart(channels[*at].canary, *at, &states)) {
            moments.iter_mut().for_each(|moment| moment[channel] = None);
            states = stats::states(&moments);
        }
        let shown_by = states.channel.map(|channel| channels[channel].canary);
        let shows = |channel: usize| channels[channel].host == host && Some(channels[channel].canary) == shown_by;
        let of = (0..looks.len()).map(|at| (!changed(&looks[at], &states, &shows)).then_some(states.of[at])).collect();
        let name = |at: usize| {
            // Levels ascend: of what was seen, of three the middle one lies between.
            let words = shown_by?.state_names();
            Some(if at > 0 && at + 1 == states.count() { words[2] } else { words[at.min(1)] })
        };
        Self { host, of, names: (0..states.count()).map(name).collect(), levels: states.levels }
    }

    /// What canaries showed in a state. `several`: ranks were on several hosts.
    pub(super) fn canaries(&self, state: usize, channels: &[Channel], several: bool) -> Vec<CanaryLevel> {
        let level = |(at, channel): (usize, &Channel)| {
            let median = self.levels.get(state)?.get(at).copied().flatten()?;
            let host = several.then_some(channel.host);
            Some(CanaryLevel { canary: channel.canary, ranks: channel.ranks, host, median })
        };
        let own = channels.iter().enumerate().filter(|(_, channel)| channel.host == self.host);
        own.filter_map(level).collect()
    }
}

/// Whether neighbouring levels of a channel are as far apart as states of its kind are.
fn is_apart(canary: CanaryKind, channel: usize, states: &stats::States) -> bool {
    let least = match canary {
        CanaryKind::RoundTripNs => 1.3,
        // Two threads that share all units get half each.
        CanaryKind::UnitsShared => 1.4,
        // The bins of a processor's clock are 100 MHz.
        CanaryKind::ClockNs => 1.025,
    };
    let levels: Vec<f64> = (0..states.count()).filter_map(|state| states.levels[state][channel]).collect();
    levels.windows(2).all(|pair| pair[1] > least * pair[0])
}

/// Whether what a trial saw before and after belongs to different states, by the channels that show them.
fn changed(look: &Look, states: &stats::States, shows: &dyn Fn(usize) -> bool) -> bool {
    look.values.iter().filter(|(channel, _)| shows(*channel)).any(|(channel, seen)| {
        let distance = |state: usize, value: f64| {
            states.levels[state][*channel].map_or(f64::INFINITY, |level| (value / level).ln().abs())
        };
        let nearest =
            |value: f64| (0..states.count()).min_by(|a, b| distance(*a, value).total_cmp(&distance(*b, value)));
        nearest(seen[0]) != nearest(seen[1])
    })
}

//! What a case may say of the simulated link and its noise.

use serde::Deserialize;
use terms::{Bandwidth, Field, FieldError, Kind, Role, Seconds};

use super::DEFAULT_LINK;
use super::noise::Noise;
use crate::own::{Section, own};
use crate::{Own, Pace};

const SECTION: &Section = &Section { backend: "sim", heading: "Simulated links (--backend sim)" };

/// Unlike other own fields these are conditions: compared cases agree in them.
const fn condition(name: &'static str, kind: Kind, doc: &'static str) -> Field {
    own(name, SECTION, kind, doc).role(Role::World)
}

pub(super) const FIELDS: &[Field] = &[
    condition("link_bandwidth", Kind::Bandwidth, "bandwidth of the modelled link"),
    condition("link_latency", Kind::Seconds, "latency of the modelled link"),
    condition("noise", Kind::Ratio, "standard deviation of the logarithm of times"),
    condition("noise_seed", Kind::Whole(0, u32::MAX as u64), "seed of the noise"),
    condition("noise_correlation", Kind::Ratio, "correlation of successive times, below 100%"),
];

/// Seed of the noise, where none is given.
const SEED: u64 = 1;

#[derive(Deserialize)]
pub(super) struct SimSettings {
    link_bandwidth: Option<f64>,
    link_latency: Option<f64>,
    noise: Option<f64>,
    noise_seed: Option<u64>,
    noise_correlation: Option<f64>,
}

impl SimSettings {
    /// The link, and its noise where there is some.
    pub(super) fn parts(self) -> (Pace, Option<Noise>) {
        let link = Pace {
            bandwidth: self.link_bandwidth.map_or(DEFAULT_LINK.bandwidth, Bandwidth),
            latency: match (self.link_latency, self.link_bandwidth) {
                (Some(latency), _) => Seconds(latency),
                // A link of a given bandwidth has the latency that is given with it.
                (None, Some(_)) => Seconds(0.0),
                (None, None) => DEFAULT_LINK.latency,
            },
        };
        let noise = self.noise.map(|sigma| Noise {
            sigma,
            correlation: self.noise_correlation.unwrap_or(0.0),
            // The same on every rank: the noise is the operation's, not the rank's.
            seed: self.noise_seed.unwrap_or(SEED),
        });
        (link, noise)
    }
}

/// A computed noise goes on from round to round as a real one does, and is the same in every run.
pub(super) fn for_round(own: &mut Own, round: u32) {
    let seed = own.get("noise_seed").and_then(serde_json::Value::as_u64).unwrap_or(SEED);
    own.insert("noise_seed".to_owned(), (seed + (u64::from(round) << 32)).into());
}

/// The noise must be one that a stationary series can have.
pub(super) fn check(own: &Own) -> Result<(), FieldError> {
    let correlation = own.get("noise_correlation").and_then(serde_json::Value::as_f64);
    if correlation.is_some_and(|correlation| correlation >= 1.0) {
        let refused = FieldError::new("noise_correlation", "the correlation must be below 100%");
        return Err(refused.hint("for example 50%"));
    }
    Ok(())
}

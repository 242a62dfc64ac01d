//! A step as somebody asks for it in few words: the model by its name and settings, the samples that ranks divide.

use model::Model;
use parallel::{Mesh, Schedule};
use terms::{Error, Named};

use crate::workload::Workload;

/// Samples of a replica's step when nobody says.
const BATCH: usize = 4;

/// The model of this name, with settings as they are typed (`FIELD=VALUE`), for samples of so many tokens.
///
/// # Errors
/// When there is no such model, or a setting is none of it.
pub fn model_of(name: &str, set: &[String], sequence: Option<u32>) -> Result<Model, Error> {
    let refused = |why: model::ModelError| why.error;
    let mut settings = Vec::new();
    for pair in set {
        let parsed = pair.split_once('=').and_then(|(name, value)| Some((name.trim(), value.trim().parse().ok()?)));
        let (name, value): (&str, f64) = parsed.ok_or_else(|| {
            Error::new(format!("--set {pair} is not FIELD=VALUE")).hint("for example `--set width=1024`")
        })?;
        settings.push((name.to_owned(), value));
    }
    settings.extend(sequence.map(|sequence| ("sequence".to_owned(), f64::from(sequence))));
    let entry = model::entry(name).map_err(refused)?;
    // A longer sequence needs as many learned positions.
    let sets = |name: &str| settings.iter().any(|(given, _)| terms::normalize(given) == name);
    let has_positions = entry.settings.iter().any(|setting| setting.name == "positions");
    if let Some(sequence) = sequence.filter(|_| has_positions && !sets("positions")) {
        let default = entry.resolved(&[]).map_err(refused)?;
        let positions = default.iter().find(|(name, _)| *name == "positions").map_or(0.0, |(_, value)| *value);
        settings.push(("positions".to_owned(), positions.max(f64::from(sequence))));
    }
    entry.model(&settings).map_err(refused)
}

/// Samples of a step, as far as somebody says.
#[derive(Clone, Copy, Debug)]
pub struct AskedSamples {
    /// Samples of all replicas.
    pub all: Option<u32>,
    /// Samples of a replica.
    pub each: Option<u32>,
    /// Micro-batches of a replica.
    pub micros: Option<u32>,
}

impl AskedSamples {
    /// Samples over all replicas of a sweep: by default one of each rank's.
    pub fn of_sweep(&self, ranks: usize) -> usize {
        self.all.map_or_else(|| self.each.unwrap_or(1) as usize * ranks, |all| all as usize)
    }

    /// A workload whose ranks divide the samples by this mesh, with so many chunks of a stage.
    ///
    /// # Errors
    /// When the samples cannot be divided so, or the schedule has no chunks.
    pub fn divided(&self, mut workload: Workload, mesh: Mesh, chunks: Option<u32>) -> Result<Workload, Error> {
        let batch = match (self.all, self.each) {
            (Some(all), _) if !(all as usize).is_multiple_of(mesh.data) => {
                let what = format!("{all} samples do not divide into {} replicas", mesh.data);
                return Err(Error::new(what).hint(format!("a multiple of {}", mesh.data)));
            }
            (Some(all), _) => all as usize / mesh.data,
            (None, each) => each.map_or(BATCH, |each| each as usize),
        };
        let wanted = if mesh.pipeline > 1 { 2 * mesh.pipeline } else { 1 };
        let micros = match self.micros {
            Some(micros) => micros as usize,
            None => (1..=wanted.min(batch)).rev().find(|count| batch.is_multiple_of(*count)).unwrap_or(1),
        };
        if !batch.is_multiple_of(micros) {
            let what = format!("{batch} samples of a replica do not divide into {micros} micro-batches");
            return Err(Error::new(what).hint(format!("`--batch` a multiple of {micros}")));
        }
        let recipe = &mut workload.recipe;
        recipe.mesh = mesh;
        recipe.micro_batch = batch / micros;
        recipe.micro_batches = vec![micros; mesh.data];
        recipe.chunks = chunks.unwrap_or(if recipe.schedule == Schedule::Interleaved { 2 } else { 1 }) as usize;
        if recipe.chunks > 1 && recipe.schedule != Schedule::Interleaved {
            let what = format!("{} has no {} chunks", recipe.schedule.name(), recipe.chunks);
            return Err(Error::new(what).hint("`--schedule interleaved`"));
        }
        Ok(workload)
    }
}

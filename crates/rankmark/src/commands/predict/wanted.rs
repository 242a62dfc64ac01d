//! From options to a workload.

use engine::cuda::LOGITS_MULTIPLE;
use parallel::{Mesh, Optimizer, Recipe, Schedule};
use predict::{Predictor, Software, Workload};
use terms::Named;

use super::Predict;
use crate::Failure;

/// Samples of a replica's step when nobody says.
const BATCH: usize = 4;

impl Predict {
    /// Samples of a step over all replicas of a sweep: by default one of each rank's.
    pub(super) fn samples(&self, ranks: usize) -> usize {
        match (self.global_batch, self.batch) {
            (Some(all), _) => all as usize,
            (None, Some(each)) => each as usize * ranks,
            (None, None) => ranks,
        }
    }

    /// What all candidates of a sweep have in common, and a workload begins as.
    pub(super) fn base(&self, predictor: &Predictor) -> Result<Workload, Failure> {
        self.refuse_other_ranks()?;
        let mut settings = Vec::new();
        for pair in &self.set {
            let parsed = pair.split_once('=').and_then(|(name, value)| Some((name.trim(), value.trim().parse().ok()?)));
            let (name, value): (&str, f64) = parsed.ok_or_else(|| {
                Failure::new(format!("--set {pair} is not FIELD=VALUE")).hint("for example `--set width=1024`")
            })?;
            settings.push((name.to_owned(), value));
        }
        if let Some(sequence) = self.sequence {
            settings.push(("sequence".to_owned(), f64::from(sequence)));
        }
        let entry = model::entry(&self.model).map_err(refused)?;
        // A longer sequence needs as many learned positions.
        let sets = |name: &str| settings.iter().any(|(given, _)| terms::normalize(given) == name);
        let has_positions = entry.settings.iter().any(|setting| setting.name == "positions");
        if let Some(sequence) = self.sequence.filter(|_| has_positions && !sets("positions")) {
            let default = entry.resolved(&[]).map_err(refused)?;
            let positions = default.iter().find(|(name, _)| *name == "positions").map_or(0.0, |(_, value)| *value);
            settings.push(("positions".to_owned(), positions.max(f64::from(sequence))));
        }
        let model = entry.model(&settings).map_err(refused)?;
        let optimizer = match self.optimizer.as_str() {
            "sgd" => Optimizer::Sgd { rate: 1e-3, momentum: 0.9 },
            _ => Optimizer::ADAMW,
        };
        let on_gpus = predictor.profile.multiprocessors > 0;
        let recipe = Recipe {
            schedule: self.schedule.unwrap_or(Schedule::OneForwardOneBackward),
            sharded: self.sharded,
            overlap: !self.no_overlap,
            sequence_parallel: self.sequence_parallel,
            recompute: self.recompute,
            optimizer,
            logits_multiple: if on_gpus { LOGITS_MULTIPLE } else { 1 },
            ..Recipe::plain(model, Mesh::SERIAL, self.precision)
        };
        let node = self.ranks_per_node.unwrap_or(predictor.profile.ranks_per_node);
        let software = self.software.unwrap_or(Software::Rankmark);
        Ok(Workload { software, ..Workload::new(recipe, node.max(1) as usize) })
    }

    /// Refuses a number of ranks that the mesh does not have.
    fn refuse_other_ranks(&self) -> Result<(), Failure> {
        let (Some(ranks), Some(mesh)) = (self.ranks, self.mesh) else { return Ok(()) };
        if ranks as usize == mesh.ranks() {
            return Ok(());
        }
        let what = format!("the mesh {mesh} has {} ranks, not {ranks}", mesh.ranks());
        Err(Failure::new(what).hint("leave out --ranks, or name a mesh of as many"))
    }

    /// The workload that the options describe.
    pub(super) fn workload(&self, predictor: &Predictor) -> Result<Workload, Failure> {
        let mut workload = self.base(predictor)?;
        let ranks = self.ranks.map_or(1, |ranks| ranks as usize);
        let mesh = self.mesh.unwrap_or(Mesh { data: ranks, tensor: 1, pipeline: 1 });
        let batch = match (self.global_batch, self.batch) {
            (Some(all), _) if !(all as usize).is_multiple_of(mesh.data) => {
                let what = format!("{all} samples do not divide into {} replicas", mesh.data);
                return Err(Failure::new(what).hint(format!("a multiple of {}", mesh.data)));
            }
            (Some(all), _) => all as usize / mesh.data,
            (None, each) => each.map_or(BATCH, |each| each as usize),
        };
        let wanted = if mesh.pipeline > 1 { 2 * mesh.pipeline } else { 1 };
        let micros = match self.micro_batches {
            Some(micros) => micros as usize,
            None => (1..=wanted.min(batch)).rev().find(|count| batch.is_multiple_of(*count)).unwrap_or(1),
        };
        if !batch.is_multiple_of(micros) {
            let what = format!("{batch} samples of a replica do not divide into {micros} micro-batches");
            return Err(Failure::new(what).hint(format!("`--batch` a multiple of {micros}")));
        }
        let recipe = &mut workload.recipe;
        recipe.mesh = mesh;
        recipe.micro_batch = batch / micros;
        recipe.micro_batches = vec![micros; mesh.data];
        recipe.chunks = self.chunks.unwrap_or(if recipe.schedule == Schedule::Interleaved { 2 } else { 1 }) as usize;
        if recipe.chunks > 1 && recipe.schedule != Schedule::Interleaved {
            let what = format!("{} has no {} chunks", recipe.schedule.name(), recipe.chunks);
            return Err(Failure::new(what).hint("`--schedule interleaved`"));
        }
        Ok(workload)
    }
}

fn refused(why: model::ModelError) -> Failure {
    why.error.into()
}

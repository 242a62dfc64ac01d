//! All ways to divide a step among ranks.

use parallel::{Mesh, Schedule};

use crate::workload::Workload;

/// One way to divide a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// How ranks divide the work.
    pub mesh: Mesh,
    /// Schedule of the pipeline.
    pub schedule: Schedule,
    /// Chunks of a stage.
    pub chunks: usize,
    /// Samples of a micro-batch.
    pub micro_batch: usize,
    /// Micro-batches of a replica.
    pub micros: usize,
    /// Whether blocks run their forward pass again.
    pub recompute: bool,
    /// Degree of sharding among replicas.
    pub sharded: u8,
    /// Whether norms and additions are cut by rows.
    pub sequence_parallel: bool,
}

/// What a sweep may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Ranks in all.
    pub ranks: usize,
    /// Samples of a step, over all replicas.
    pub global_batch: usize,
    /// Most chunks of a stage.
    pub most_chunks: usize,
    /// Most samples of a micro-batch.
    pub most_micro_batch: usize,
}

impl Candidate {
    /// The workload of this candidate.
    pub fn workload(&self, base: &Workload) -> Workload {
        let mut workload = base.clone();
        let recipe = &mut workload.recipe;
        recipe.mesh = self.mesh;
        recipe.schedule = self.schedule;
        recipe.chunks = self.chunks;
        recipe.micro_batch = self.micro_batch;
        recipe.micro_batches = vec![self.micros; self.mesh.data];
        recipe.recompute = self.recompute;
        recipe.sharded = self.sharded;
        recipe.sequence_parallel = self.sequence_parallel;
        recipe.stages = Vec::new();
        workload
    }
}

fn divisors(count: usize) -> impl Iterator<Item = usize> {
    (1..=count).filter(move |divisor| count.is_multiple_of(*divisor))
}

impl Choices {
    /// Visits every candidate that may be legal: whether the tensor group can cut the model is seen from its pieces.
    pub fn for_each(&self, base: &Workload, visit: &mut impl FnMut(&Candidate)) {
        let blocks = base.recipe.model.blocks.len();
        for tensor in divisors(self.ranks) {
            for pipeline in divisors(self.ranks / tensor).filter(|pipeline| *pipeline <= blocks) {
                let mesh = Mesh { data: self.ranks / tensor / pipeline, tensor, pipeline };
                if self.global_batch.is_multiple_of(mesh.data) {
                    self.of_mesh(mesh, blocks, visit);
                }
            }
        }
    }

    fn of_mesh(&self, mesh: Mesh, blocks: usize, visit: &mut impl FnMut(&Candidate)) {
        let of_replica = self.global_batch / mesh.data;
        let shardings = if mesh.data > 1 { 0..=3 } else { 0..=0 };
        // The largest are looked for only as far as they are wanted: a batch may be told in tokens.
        let sizes = (1..=self.most_micro_batch.min(of_replica)).filter(|size| of_replica.is_multiple_of(*size));
        for micro_batch in sizes {
            let micros = of_replica / micro_batch;
            for (schedule, chunks) in self.schedules(mesh.pipeline, blocks, micros) {
                for sharded in shardings.clone() {
                    for recompute in [false, true] {
                        for sequence_parallel in [false, true] {
                            if sequence_parallel && mesh.tensor == 1 {
                                continue;
                            }
                            visit(&Candidate {
                                mesh,
                                schedule,
                                chunks,
                                micro_batch,
                                micros,
                                recompute,
                                sharded,
                                sequence_parallel,
                            });
                        }
                    }
                }
            }
        }
    }

    /// Schedules of a pipeline with their chunks. One stage has nothing to schedule.
    fn schedules(&self, pipeline: usize, blocks: usize, micros: usize) -> Vec<(Schedule, usize)> {
        let mut found = vec![(Schedule::OneForwardOneBackward, 1)];
        if pipeline == 1 {
            return found;
        }
        found.push((Schedule::GPipe, 1));
        if micros.is_multiple_of(pipeline) {
            let fits = |chunks: &usize| pipeline * chunks <= blocks;
            found.extend((2..=self.most_chunks).filter(fits).map(|chunks| (Schedule::Interleaved, chunks)));
        }
        found
    }
}

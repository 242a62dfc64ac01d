//! Plans that run a graph: the first of the library's choices that gives what is asked for.
//!
//! Attributes are those of cudnn_graph.h: heuristics 200 to 204, a choice's engine 300, an engine's notes 1303, a
//! plan 400 to 407, and the places of a run 1000 to 1003.

use std::ffi::{c_int, c_void};

use super::graph::{DESCRIPTOR, Descriptor, Graph, NUMBER, Tensor};
use super::{CudnnDevice, For};
use crate::cuda::ProductError;
use crate::cuda::error::Result;

/// Types of attributes (cudnnBackendAttributeType_t).
const ADDRESS: c_int = 6;
const HEURISTIC: c_int = 8;
const NOTE: c_int = 11;

/// Heuristics (cudnnBackendHeurMode_t): mode A, which the library recommends, and engines that take nearly anything, slowly.
const MODES: [c_int; 2] = [3, 2];
/// How many choices of a mode are tried.
const CHOICES: usize = 64;
/// Room for all notes that there are.
const NOTES: usize = 16;

/// Notes of engines (cudnnBackendNumericalNote_t).
const ON_TENSOR_CORES: c_int = 0;
const NARROWED: c_int = 1;
const IN_ANY_ORDER: c_int = 4;

/// What a plan must be, besides right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Gives the same bits every time.
    pub(super) is_deterministic: bool,
    /// Products of inputs as they are: tensor cores would round those of f32.
    pub(super) is_exact: bool,
    /// Bytes of device memory that a run may take, beside its tensors.
    pub(super) workspace: usize,
}

impl Terms {
    fn allow(self, notes: &[c_int]) -> bool {
        let has = |note| notes.contains(&note);
        !(self.is_deterministic && has(IN_ANY_ORDER) || self.is_exact && (has(ON_TENSOR_CORES) || has(NARROWED)))
    }
}

/// A graph that can be run.
#[derive(Debug)]
pub(super) struct Plan {
    plan: Descriptor,
    workspace: usize,
    _parts: Vec<Descriptor>,
}

impl Plan {
    /// By the first of the library's choices that takes the graph on these terms.
    pub(super) fn new(graph: Graph, device: &CudnnDevice, terms: Terms) -> Result<Self> {
        let library = graph.library.clone();
        let whole = graph.whole(Some(device)).map_err(|error| library.untaken(error))?;
        let mut refused = ProductError::Unsupported(format!("cuDNN {} has no engine for it", library.version()));
        for mode in MODES {
            let choices = choices(&whole, device, mode).unwrap_or_else(|error| {
                refused = error;
                Vec::new()
            });
            for choice in choices {
                match Self::by(&choice, device, terms) {
                    Ok(Some((plan, workspace))) => {
                        let parts = graph.into_parts().chain([whole, choice]).collect();
                        return Ok(Self { plan, workspace, _parts: parts });
                    }
                    Ok(None) => {}
                    Err(error) => refused = error,
                }
            }
        }
        Err(match refused {
            ProductError::Library { .. } => {
                let version = library.version();
                ProductError::Unsupported(format!("cuDNN {version} can use none of its engines for it ({refused})"))
            }
            other => other,
        })
    }

    /// By a choice, with its workspace; None where it does not fit the terms.
    fn by(choice: &Descriptor, device: &CudnnDevice, terms: Terms) -> Result<Option<(Descriptor, usize)>> {
        if !terms.allow(&notes(choice)?) {
            return Ok(None);
        }
        let (plan, workspace) = finish(choice, device)?;
        Ok((workspace <= terms.workspace).then_some((plan, workspace)))
    }

    /// Bytes of device memory that a run needs beside its tensors.
    pub(super) fn workspace(&self) -> usize {
        self.workspace
    }

    pub(super) fn descriptor(&self) -> &Descriptor {
        &self.plan
    }

    /// Where the tensors of a run are.
    pub(super) fn pack(&self, places: &[(Tensor, *const c_void)], workspace: *const c_void) -> Result<Descriptor> {
        let pack = self.plan.beside(16)?;
        let (ids, addresses): (Vec<i64>, Vec<*const c_void>) =
            places.iter().map(|(tensor, address)| (tensor.id(), *address)).unzip();
        pack.set(1000, NUMBER, &ids)?;
        pack.set(1001, ADDRESS, &addresses)?;
        pack.set(1003, ADDRESS, &[workspace])?;
        pack.finish()
    }
}

/// The library's choices for a graph, the best first.
fn choices(graph: &Descriptor, device: &CudnnDevice, mode: c_int) -> Result<Vec<Descriptor>> {
    let wish = graph.beside(4)?;
    wish.refer(201, graph)?;
    wish.set(200, HEURISTIC, &[mode])?;
    device.aim(For::Wish, &wish)?;
    let wish = wish.finish()?;
    let mut choices: Vec<Descriptor> = (0..CHOICES).map(|_| graph.beside(3)).collect::<Result<_>>()?;
    let mut handles: Vec<_> = choices.iter().map(Descriptor::handle).collect();
    let found = wish.get(202, DESCRIPTOR, &mut handles)?;
    choices.truncate(found);
    Ok(choices)
}

/// What the library says of the engine of a choice.
fn notes(choice: &Descriptor) -> Result<Vec<c_int>> {
    let engine = choice.beside(2)?;
    choice.get(300, DESCRIPTOR, &mut [engine.handle()])?;
    let mut notes = [0; NOTES];
    let found = engine.get(1303, NOTE, &mut notes)?;
    Ok(notes[..found].to_vec())
}

/// A plan by a choice, and its workspace.
fn finish(choice: &Descriptor, device: &CudnnDevice) -> Result<(Descriptor, usize)> {
    let plan = choice.beside(5)?;
    device.aim(For::Plan, &plan)?;
    plan.refer(401, choice)?;
    let plan = plan.finish()?;
    let mut workspace = [0_i64];
    plan.get(402, NUMBER, &mut workspace)?;
    Ok((plan, usize::try_from(workspace[0]).unwrap_or(0)))
}

//! Stretches of a program as graphs: what a stretch gives the stream is captured when it comes for the second time, and from then on
//! given as a whole. The first time it is given singly: libraries then choose algorithms and load what they need, which no graph can
//! hold.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use device::cuda::{Gpu, Graph, Stream};

use super::errors::refused;
use crate::Error;

/// Fewer commands are given singly: a graph saves nothing.
const LEAST: usize = 4;

/// See the module's documentation.
pub(super) struct Graphs {
    gpu: Arc<Gpu>,
    known: HashMap<Range<usize>, Option<Graph>>,
    /// Why none is captured any more.
    refused: Option<String>,
}

impl Graphs {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Self {
        Self { gpu: gpu.clone(), known: HashMap::new(), refused: None }
    }

    /// Gives a stretch of so many commands to the stream: as a graph, or by `give`.
    pub(super) fn give(
        &mut self,
        stretch: Range<usize>,
        commands: usize,
        stream: &Stream,
        mut give: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        if commands < LEAST || self.refused.is_some() {
            return give();
        }
        match self.known.get(&stretch) {
            Some(Some(graph)) => return graph.launch(Some(stream)).map_err(refused),
            Some(None) => {}
            None => {
                self.known.insert(stretch, None);
                return give();
            }
        }
        if let Err(why) = self.gpu.begin_capture(Some(stream)) {
            self.refused = Some(why.to_string());
            return give();
        }
        let given = give();
        // Also where something failed: the stream would keep what it is given.
        let captured = self.gpu.end_capture(Some(stream)).map_err(refused);
        match given.and(captured) {
            Ok(graph) => {
                graph.launch(Some(stream)).map_err(refused)?;
                self.known.insert(stretch, Some(graph));
                Ok(())
            }
            Err(why) => {
                self.refused = Some(why.to_string());
                // What cannot be given at all fails again.
                give()
            }
        }
    }

    /// How many there are, and why there are no more.
    pub(super) fn said(&self) -> (usize, Option<&str>) {
        (self.known.values().flatten().count(), self.refused.as_deref())
    }
}

//! `charts/*.svg` and `charts/*.png`: every chart of the run, both from the same scene.

use std::num::NonZero;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use view::NamedChart;

use crate::chart::Draw as _;
use crate::study::operations;
use crate::{Artifact, Error, Format, Run, charts};

/// Charts as vector graphics.
#[derive(Debug)]
pub(crate) struct Svg;

/// Charts as bitmaps.
#[derive(Debug)]
pub(crate) struct Png;

impl Format for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }

    fn doc(&self) -> &'static str {
        "charts/*.svg: time and bandwidth against bytes and ranks"
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        each(run, |chart| Ok(Artifact::new(format!("charts/{}.svg", chart.stem), chart.spec.svg().into_bytes())))
    }
}

impl Format for Png {
    fn name(&self) -> &'static str {
        "png"
    }

    fn doc(&self) -> &'static str {
        "charts/*.png: the same pictures for places that take no SVG"
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        each(run, |chart| Ok(Artifact::new(format!("charts/{}.png", chart.stem), chart.spec.png()?)))
    }
}

/// One file a chart, in the order of the charts; as many at once as there are processors.
fn each(run: &Run, file: impl Fn(&NamedChart) -> Result<Artifact, Error> + Sync) -> Result<Vec<Artifact>, Error> {
    let operations = operations(&run.cases, &run.benchmarks);
    let charts: Vec<NamedChart> =
        operations.iter().flat_map(|operation| charts::of_operation(run, operation)).collect();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(charts.len());
    let next = AtomicUsize::new(0);
    let draw = || {
        let mut drawn = Vec::new();
        while let Some((place, chart)) = Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, charts.get(at)?))) {
            drawn.push((place, file(chart)));
        }
        drawn
    };
    let mut files = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(draw)).collect();
        let mut files = draw();
        for other in others {
            files.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        files
    });
    files.sort_by_key(|(place, _)| *place);
    files.into_iter().map(|(_, file)| file).collect()
}

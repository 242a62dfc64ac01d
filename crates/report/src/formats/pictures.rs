//! `charts/*.svg` and `charts/*.png`: every chart of the run, both from the same scene.

use std::num::NonZero;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use record::file::{FileName, InnerPath};
use view::NamedChart;

use crate::chart::Draw as _;
use crate::formats::write::Out;
use crate::study::operations;
use crate::{Artifact, Error, Format, Run, charts, words::explained};

/// Folder of the pictures.
const CHARTS: FileName = FileName::literal("charts");

/// Charts as vector graphics.
#[derive(Debug)]
pub(crate) struct Svg;

/// Charts as bitmaps.
#[derive(Debug)]
pub(crate) struct Png;

impl Format for Svg {
    fn about(&self) -> (&'static str, &'static str) {
        ("svg", "charts/*.svg: time and bandwidth against bytes and ranks")
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        all(run, svg)
    }

    fn write(&self, run: &Run, out: &mut Out<'_>) -> Result<(), Error> {
        each(run, svg, |file| out.put(&file))
    }
}

fn svg(chart: &NamedChart) -> Result<Artifact, Error> {
    Ok(Artifact::at(InnerPath::within(CHARTS, chart.stem.file(".svg")), chart.spec.svg().into_bytes()))
}

impl Format for Png {
    fn about(&self) -> (&'static str, &'static str) {
        ("png", "charts/*.png: the same pictures for programs without SVG support")
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        all(run, png)
    }

    fn write(&self, run: &Run, out: &mut Out<'_>) -> Result<(), Error> {
        each(run, png, |file| out.put(&file))
    }
}

fn png(chart: &NamedChart) -> Result<Artifact, Error> {
    Ok(Artifact::at(InnerPath::within(CHARTS, chart.stem.file(".png")), chart.spec.png()?))
}

/// What makes the file of a chart.
type Encode = fn(&NamedChart) -> Result<Artifact, Error>;

/// Charts that are drawn before the first of them is handed on: enough for every processor, and few to hold.
const AT_ONCE: usize = 16;

fn all(run: &Run, draw: Encode) -> Result<Vec<Artifact>, Error> {
    let mut files = Vec::new();
    each(run, draw, |file| {
        files.push(file);
        Ok(())
    })?;
    Ok(files)
}

/// One file a chart, in the order of the charts.
fn each(run: &Run, draw: Encode, mut put: impl FnMut(Artifact) -> Result<(), Error>) -> Result<(), Error> {
    let operations = operations(&run.cases, &run.benchmarks);
    for charts in explained::charts_of(run).chunks(AT_ONCE) {
        drawn(charts, draw).into_iter().try_for_each(|file| put(file?))?;
    }
    for operation in &operations {
        for charts in charts::of_operation(run, operation).chunks(AT_ONCE) {
            drawn(charts, draw).into_iter().try_for_each(|file| put(file?))?;
        }
    }
    Ok(())
}

/// Draws charts, as many at once as there are processors.
fn drawn(charts: &[NamedChart], file: Encode) -> Vec<Result<Artifact, Error>> {
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

//! `charts/*.svg` and `charts/*.png`: every chart of the run, both from the same scene.

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

fn each(run: &Run, file: impl Fn(charts::Named) -> Result<Artifact, Error>) -> Result<Vec<Artifact>, Error> {
    operations(run).iter().flat_map(|operation| charts::of_operation(run, operation)).map(file).collect()
}

//! Charts: one declarative [`ChartSpec`], laid out once into a scene of shapes and text, and written as SVG and as PNG.
//!
//! Both files come from the same scene, so they cannot differ; text is measured with the embedded font, so labels are
//! kept apart by arithmetic and tests can check it. Knows nothing of benchmarks: what to draw is decided in `charts`.

mod axis;
mod bounds;
mod draw;
pub(crate) mod font;
mod inline;
mod labels;
mod lanes;
mod matrix;
mod png;
mod scale;
pub(crate) mod scene;
mod stack;
mod style;
mod svg;
mod waterfall;

use std::borrow::Cow;

pub(crate) use inline::rules;
pub use scene::{Box2, Scene};
pub use view::{
    Axis, ChartSpec, Lane, Lanes, Mark, Matrix, Point, Quantity, Reference, Scale, Series, Span, SpanKind, Stack, Term,
    Waterfall,
};

use crate::Error;
use crate::markup::Svg;
use waterfall::Bar;

/// A chart as a picture.
pub trait Draw {
    /// Lays the chart out. Deterministic: the same specification gives the same scene.
    fn scene(&self) -> Scene;

    /// The chart as a self-contained SVG document.
    fn svg(&self) -> String;

    /// The chart as a PNG file, [`PNG_SCALE`] pixels a unit of the SVG.
    ///
    /// # Errors
    /// When the PNG encoder fails.
    fn png(&self) -> Result<Vec<u8>, Error>;
}

impl Draw for ChartSpec {
    fn scene(&self) -> Scene {
        draw::draw(self, &draw::Page::WHOLE)
    }

    fn svg(&self) -> String {
        svg::write(&self.scene()).into_string()
    }

    fn png(&self) -> Result<Vec<u8>, Error> {
        png::write(&self.scene(), PNG_SCALE)
    }
}

/// The plot of a chart as an SVG element for a page that says its title and note itself, and that has rules for its colours.
pub(crate) fn inline(spec: &ChartSpec) -> Svg {
    inline::write(&draw::draw(spec, if spec.lanes.is_some() { &draw::Page::WIDE } else { &draw::Page::HALF }))
}

/// The chart as far as a page's script draws it, and what is left out of it.
pub(crate) fn bounded(spec: &ChartSpec) -> (Cow<'_, ChartSpec>, Option<String>) {
    if let Some(lanes) = &spec.lanes {
        let (lanes, left_out) = lanes::of_page(lanes);
        return (Cow::Owned(ChartSpec { lanes: Some(lanes), ..spec.clone() }), left_out);
    }
    bounds::bounded(spec, draw::Page::WHOLE.lines())
}

/// When the first span of a timeline begins and the last one ends.
pub(crate) fn time_range(rows: &[Lane]) -> [f64; 2] {
    lanes::range(rows)
}

/// The rows of a waterfall.
pub(crate) fn waterfall_bars(spec: &ChartSpec) -> Vec<Bar> {
    spec.waterfall.as_ref().map(|of| waterfall::bars(of, spec.x.quantity)).unwrap_or_default()
}

/// What the colours of a matrix mean.
pub(crate) fn matrix_key(spec: &ChartSpec) -> Option<String> {
    spec.matrix.as_ref().map(matrix::key)
}

/// Pixels of the PNG a unit of the SVG: sharp on screens of twice the usual density.
pub const PNG_SCALE: u32 = 2;

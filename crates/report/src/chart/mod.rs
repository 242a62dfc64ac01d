//! Charts: one declarative [`ChartSpec`], laid out once into a scene of shapes and text, and written as SVG and as PNG.
//!
//! Both files come from the same scene, so they cannot differ; text is measured with the embedded font, so labels are
//! kept apart by arithmetic and tests can check it. Knows nothing of benchmarks: what to draw is decided in `charts`.

mod axis;
mod bounds;
mod draw;
mod font;
mod labels;
mod matrix;
mod png;
mod scale;
mod scene;
mod stack;
mod style;
mod svg;

pub use scene::{Box2, Scene};
pub use view::{Axis, ChartSpec, Mark, Matrix, Point, Quantity, Reference, Scale, Series, Stack};

use crate::Error;

/// A chart as a picture.
pub trait Draw {
    /// Lays the chart out. Deterministic: the same specification gives the same scene.
    fn scene(&self) -> Scene;

    /// The chart as a self-contained SVG document.
    fn svg(&self) -> String;

    /// The same picture as a PNG file, [`PNG_SCALE`] pixels a unit of the SVG.
    ///
    /// # Errors
    /// When the PNG encoder fails.
    fn png(&self) -> Result<Vec<u8>, Error>;
}

impl Draw for ChartSpec {
    fn scene(&self) -> Scene {
        draw::draw(self)
    }

    fn svg(&self) -> String {
        svg::write(&self.scene())
    }

    fn png(&self) -> Result<Vec<u8>, Error> {
        png::write(&self.scene(), PNG_SCALE)
    }
}

/// Pixels of the PNG a unit of the SVG: sharp on screens of twice the usual density.
pub const PNG_SCALE: u32 = 2;

//! A scene as a PNG file: anti-aliased masks, laid over white.

use zeno::{Cap, Command, Join, Mask, PathBuilder, Stroke, Vector};

use super::font;
use super::scene::{Item, Paint, Pen, Scene};
use crate::{Error, error};

/// Writes the file, `scale` pixels a unit.
pub(crate) fn write(scene: &Scene, scale: u32) -> Result<Vec<u8>, Error> {
    let mut canvas = Canvas::new(scene, scale);
    for item in &scene.items {
        canvas.item(item);
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, canvas.width, canvas.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    // `Balanced` takes twice the time for files that are a tenth smaller.
    encoder.set_deflate_compression(png::DeflateCompression::Level(4));
    // Flat colours repeat whole rows: prediction from neighbours only hides that.
    encoder.set_filter(png::Filter::NoFilter);
    // 96 units an inch, in pixels a metre: viewers then show it at the size of the SVG.
    let density = (96.0 * f64::from(scale) / 0.0254).round() as u32;
    encoder.set_pixel_dims(Some(png::PixelDimensions { xppu: density, yppu: density, unit: png::Unit::Meter }));
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&canvas.pixels)?;
        writer.finish()
    });
    written.map_err(|cause| error::not_encoded(&cause))?;
    Ok(file)
}

/// Pixels of a mask that are looked at together.
const PIECE: usize = 32;
const NOTHING: [u8; PIECE] = [0; PIECE];

/// Lays the paint over a pixel, as much as the mask covers it.
fn blend(pixel: &mut [u8], paint: Paint, covered: u8) {
    // Sixteen steps of coverage look the same as 256 and halve the file.
    let share = f64::from((u32::from(covered) + 8) / 17) / 15.0 * paint.opacity;
    if share == 1.0 {
        pixel.copy_from_slice(&paint.rgb);
        return;
    }
    for (below, above) in pixel.iter_mut().zip(paint.rgb) {
        *below = (f64::from(*below) * (1.0 - share) + f64::from(above) * share).round() as u8;
    }
}

struct Canvas {
    width: u32,
    height: u32,
    scale: f64,
    /// RGB, row by row.
    pixels: Vec<u8>,
}

impl Canvas {
    fn new(scene: &Scene, scale: u32) -> Self {
        let pixels = |length: f64| (length * f64::from(scale)).round() as u32;
        let (width, height) = (pixels(scene.width), pixels(scene.height));
        Self { width, height, scale: f64::from(scale), pixels: vec![255; width as usize * height as usize * 3] }
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Polygon { points, fill, pen } => self.shape(&self.path(points, true), *fill, *pen),
            Item::Line { points, pen } => self.shape(&self.path(points, false), None, Some(*pen)),
            Item::Circle { center, radius, fill, pen } => {
                let mut path: Vec<Command> = Vec::new();
                path.add_circle(self.at(*center), (radius * self.scale) as f32);
                self.shape(&path, Some(*fill), *pen);
            }
            Item::Shapes { outlines, closed, fill, pen } => {
                let path: Vec<Command> = outlines.iter().flat_map(|points| self.path(points, *closed)).collect();
                self.shape(&path, *fill, *pen);
            }
            Item::Text(text) => {
                let at = [text.left(), text.at[1]];
                let path = font::outline(&text.content, at, text.size, text.weight, self.scale);
                self.shape(&path, Some(text.paint), None);
            }
        }
    }

    fn at(&self, [x, y]: [f64; 2]) -> Vector {
        Vector::new((x * self.scale) as f32, (y * self.scale) as f32)
    }

    fn path(&self, points: &[[f64; 2]], closed: bool) -> Vec<Command> {
        let mut path: Vec<Command> = Vec::with_capacity(points.len() + 1);
        for (index, point) in points.iter().enumerate() {
            let to = self.at(*point);
            path.push(if index == 0 { Command::MoveTo(to) } else { Command::LineTo(to) });
        }
        if closed && !path.is_empty() {
            path.push(Command::Close);
        }
        path
    }

    fn shape(&mut self, path: &[Command], fill: Option<Paint>, pen: Option<Pen>) {
        if path.is_empty() {
            return;
        }
        if let Some(fill) = fill {
            let (mask, placement) = Mask::new(path).render();
            self.lay(&mask, placement, fill);
        }
        if let Some(pen) = pen {
            let dashes = pen.dash.map(|dash| dash.map(|length| (length * self.scale) as f32));
            let mut stroke = Stroke::new((pen.width * self.scale) as f32);
            stroke.join(Join::Round).cap(Cap::Butt);
            if let Some(dashes) = &dashes {
                stroke.dash(dashes, 0.0);
            }
            let (mask, placement) = Mask::new(path).style(stroke).render();
            self.lay(&mask, placement, pen.paint);
        }
    }

    /// Lays the paint over what is there, as much as the mask says.
    fn lay(&mut self, mask: &[u8], placement: zeno::Placement, paint: Paint) {
        let row_length = placement.width as usize;
        for (row, coverage) in mask.chunks_exact(row_length.max(1)).enumerate() {
            let y = i64::from(placement.top) + row as i64;
            if !(0..i64::from(self.height)).contains(&y) {
                continue;
            }
            // The mask of a long line is almost empty: it is passed over in pieces.
            for (piece, coverage) in coverage.chunks(PIECE).enumerate() {
                if coverage == &NOTHING[..coverage.len()] {
                    continue;
                }
                for (column, covered) in coverage.iter().enumerate().filter(|(_, covered)| **covered != 0) {
                    let x = i64::from(placement.left) + (piece * PIECE + column) as i64;
                    if (0..i64::from(self.width)).contains(&x) {
                        let first = (y as usize * self.width as usize + x as usize) * 3;
                        blend(&mut self.pixels[first..first + 3], paint, *covered);
                    }
                }
            }
        }
    }
}

//! Colours and text in the form in which a PDF takes them.

use krilla::color::rgb;
use krilla::geom::Point;
use krilla::num::NormalizedF32;
use krilla::paint::Fill;
use krilla::surface::Surface;
use krilla::text::{Font, GlyphId, KrillaGlyph};

use crate::chart::scene::Paint;

use super::fonts::{self, Face};

/// The faces.
pub(super) struct Fonts([Font; 3]);

impl Fonts {
    pub(super) fn new() -> Self {
        Self([Face::Regular, Face::Bold, Face::Mono].map(|face| face.font().expect("the embedded font is a font")))
    }

    /// Text of one face, whose baseline begins at a place; `size` is that of the line that it stands on.
    pub(super) fn draw(&self, surface: &mut Surface, text: &str, face: Face, size: f64, [x, y]: [f64; 2]) {
        let own = face.size(size);
        let glyph = |(at, character): (usize, char)| {
            let glyph = fonts::glyph(face, character);
            let (id, advance) = (GlyphId::new(glyph.id.into()), (glyph.advance * size / own) as f32);
            KrillaGlyph::new(id, advance, 0.0, 0.0, 0.0, at..at + character.len_utf8(), None)
        };
        let glyphs: Vec<KrillaGlyph> = text.char_indices().map(glyph).collect();
        let at = Point::from_xy(x as f32, y as f32);
        surface.draw_glyphs(at, &glyphs, self.0[face as usize].clone(), text, own as f32, false);
    }
}

/// A colour for a fill.
pub(super) fn fill(paint: Paint) -> Fill {
    let [r, g, b] = paint.rgb;
    Fill { paint: rgb::Color::new(r, g, b).into(), opacity: opacity(paint), ..Fill::default() }
}

pub(super) fn opacity(paint: Paint) -> NormalizedF32 {
    NormalizedF32::new(paint.opacity as f32).unwrap_or(NormalizedF32::ONE)
}

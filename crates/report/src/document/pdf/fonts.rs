//! The faces of a PDF: Arimo, which charts use too, and DejaVu Sans Mono for code and for characters that are missing in Arimo.
//!
//! The files are subsets by fontTools 4.68 of Debian's fonts-croscore 20201225 (Arimo 1.33) and fonts-dejavu-core 2.37:
//!
//! ```sh
//! latin=U+20-7E,U+A0-17F,U+218-21B,U+2C6,U+2C7,U+2D8-2DD,U+400-45F,U+490,U+491,U+2010-2015,U+2018-201E,U+2020-2022
//! signs=U+2026,U+2030,U+2032,U+2033,U+2039,U+203A,U+2044,U+20AC,U+2116,U+2122,U+2126
//! arimo=$latin,$signs,U+384-3CE,U+2070,U+2074-2079,U+2080-2089,U+2190-2195,U+2202,U+2206,U+220F,U+2211,U+2212,U+2215
//! arimo=$arimo,U+2219,U+221A,U+221E,U+222B,U+2248,U+2260,U+2261,U+2264,U+2265,U+25A0,U+25A1,U+25AA,U+25B2,U+25BC
//! mono=$latin,$signs,U+192,U+370-3FF,U+2070-209C,U+2190-21FF,U+2200-22FF,U+2300-2311,U+2318,U+23CE,U+2500-25FF
//! mono=$mono,U+2600-2606,U+2610-2612,U+2639-263B,U+2660-266F,U+2713-2718,U+27E8,U+27E9,U+FFFD
//! subset() { pyftsubset $1 --unicodes=$2 --no-hinting --notdef-outline --layout-features= \
//!   --drop-tables+=GDEF,GPOS,GSUB,gasp --output-file=crates/report/fonts/$(basename $1); }
//! subset /usr/share/fonts/truetype/croscore/Arimo-Regular.ttf $arimo
//! subset /usr/share/fonts/truetype/croscore/Arimo-Bold.ttf $arimo
//! subset /usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf $mono
//! ```

use std::sync::LazyLock;

use krilla::text::Font;
use ttf_parser::Face as Parsed;

use crate::chart::font::{BOLD_FILE, REGULAR_FILE};

static MONO_FILE: &[u8] = include_bytes!("../../../fonts/DejaVuSansMono.ttf");

/// Size of the monospaced face relative to Arimo, which looks smaller at the same size.
const MONO_SCALE: f64 = 0.88;

/// A face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Face {
    Regular,
    Bold,
    Mono,
}

/// How a character is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Glyph {
    /// The face that has it.
    pub(super) face: Face,
    /// 0: the box for a character that no face has.
    pub(super) id: u16,
    /// In parts of the size of the text.
    pub(super) advance: f64,
}

/// Characters that nearly every text consists of: looked up once.
const USUAL: u32 = 0x500;

static TABLES: LazyLock<[Vec<Glyph>; 3]> = LazyLock::new(|| {
    let table = |face| (0..USUAL).map(|code| look_up(face, char::from_u32(code).unwrap_or(' '))).collect();
    [Face::Regular, Face::Bold, Face::Mono].map(table)
});

static PARSED: LazyLock<[Parsed<'static>; 3]> =
    LazyLock::new(|| FILES.map(|file| Parsed::parse(file, 0).expect("the embedded font is a font")));

static FILES: [&[u8]; 3] = [REGULAR_FILE, BOLD_FILE, MONO_FILE];

impl Face {
    /// The size at which it stands in text of this size.
    pub(super) fn size(self, size: f64) -> f64 {
        if self == Self::Mono { size * MONO_SCALE } else { size }
    }

    /// The face for a PDF.
    pub(super) fn font(self) -> Option<Font> {
        Font::new(FILES[self as usize].into(), 0)
    }

    /// The faces that replace missing characters.
    fn other(self) -> Self {
        if self == Self::Mono { Self::Regular } else { Self::Mono }
    }
}

/// How a character looks in text of this face.
pub(super) fn glyph(face: Face, character: char) -> Glyph {
    let usual = TABLES[face as usize].get(character as usize).copied();
    usual.unwrap_or_else(|| look_up(face, character))
}

fn look_up(face: Face, character: char) -> Glyph {
    let within = |face: Face| PARSED[face as usize].glyph_index(character).filter(|id| id.0 != 0).map(|id| (face, id));
    let (face, id) = within(face).or_else(|| within(face.other())).unwrap_or((face, ttf_parser::GlyphId(0)));
    let parsed = &PARSED[face as usize];
    let advance = f64::from(parsed.glyph_hor_advance(id).unwrap_or(0)) / f64::from(parsed.units_per_em());
    Glyph { face, id: id.0, advance: face.size(advance) }
}

/// Whether a character takes part in no layout: it would only draw a box.
pub(super) fn is_unseen(character: char) -> bool {
    let is_variation = matches!(character, '\u{AD}' | '\u{34F}' | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}');
    character.is_control() || view::is_invisible(character) || is_variation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_comes_from_the_face_that_has_it() {
        assert_eq!(glyph(Face::Bold, 'Ł').face, Face::Bold);
        assert_eq!(glyph(Face::Regular, '─').face, Face::Mono);
        assert_eq!((glyph(Face::Regular, '測').face, glyph(Face::Regular, '測').id), (Face::Regular, 0));
        for character in "aZ09 ×±≤≥µ…–—‘’“”•→ąŽΩя".chars() {
            assert!(glyph(Face::Regular, character).id != 0 && glyph(Face::Mono, character).id != 0, "{character}");
        }
        let code: Vec<f64> = "iW─µ".chars().map(|character| glyph(Face::Mono, character).advance).collect();
        assert!(code.iter().all(|advance| *advance == code[0]), "{code:?}");
    }

    #[test]
    fn faces_are_fonts_for_a_pdf() {
        assert!([Face::Regular, Face::Bold, Face::Mono].iter().all(|face| face.font().is_some()));
    }
}

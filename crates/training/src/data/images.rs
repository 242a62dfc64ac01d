//! A file of images: a header of 32 bytes, the classes, the pixels.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `RMIMAGE1` |
//! | 8..28 | images, height, width, channels, classes: five 32-bit numbers, little endian |
//! | 28..32 | zero |
//! | 32.. | the class of each image: 16 bits, little endian |
//! | then | the pixels of each image, a byte each, row by row, channels last (NHWC) |
//!
//! A pixel p is p / 127.5 - 1. Sample i is image i, counted around.

use memmap2::Mmap;

use super::Samples;

const MAGIC: &[u8] = b"RMIMAGE1";
const HEADER: usize = 32;

/// See the module's documentation.
pub(super) struct ImageFile {
    map: Mmap,
    images: usize,
    /// Bytes of an image.
    each: usize,
    /// Where pixels begin.
    pixels: usize,
}

impl ImageFile {
    /// `wanted` are height, width and channels of the model's images.
    ///
    /// # Errors
    /// When it is not such a file, is cut short, or holds other images than the model takes.
    pub(super) fn new(map: Mmap, wanted: [usize; 3], classes: usize) -> Result<Self, String> {
        if !map.starts_with(MAGIC) {
            return Err("it is not a file of images: it does not begin with `RMIMAGE1`".to_owned());
        }
        if map.len() < HEADER {
            return Err(format!("its header is cut short: {} of {HEADER} bytes", map.len()));
        }
        let number = |at: usize| u32::from_le_bytes([map[at], map[at + 1], map[at + 2], map[at + 3]]) as usize;
        let (images, has, known) = (number(8), [number(12), number(16), number(20)], number(24));
        if has != wanted {
            let shown = |[height, width, channels]: [usize; 3]| format!("{height} x {width} x {channels}");
            return Err(format!("its images are {}, but the model needs {}", shown(has), shown(wanted)));
        }
        if images == 0 {
            return Err("it holds 0 images".to_owned());
        }
        if known > classes {
            return Err(format!("it has {known} classes, but the model has {classes}"));
        }
        let each: usize = wanted.iter().product();
        let pixels = HEADER + 2 * images;
        let whole = images.checked_mul(each).and_then(|bytes| bytes.checked_add(pixels));
        if whole != Some(map.len()) {
            let whole = whole.map_or_else(|| "more than can be counted".to_owned(), |whole| whole.to_string());
            return Err(format!(
                "{images} images take {whole} bytes ({HEADER} + {images} x 2 + {images} x {each}), but the file has {}",
                map.len()
            ));
        }
        let file = Self { map, images, each, pixels };
        let wrong = (0..images).find(|image| file.class(*image) >= known);
        match wrong {
            Some(image) => {
                Err(format!("image {image} is of class {}, but there are {known} classes", file.class(image)))
            }
            None => Ok(file),
        }
    }

    fn class(&self, image: usize) -> usize {
        let at = HEADER + 2 * image;
        usize::from(u16::from_le_bytes([self.map[at], self.map[at + 1]]))
    }
}

impl Samples for ImageFile {
    fn tokens(&self, _: u64, _: &mut [i32], _: &mut [i32]) -> Result<(), String> {
        Err("a file of images holds no tokens".to_owned())
    }

    fn numbers(&self, index: u64, numbers: &mut [f32], class: &mut i32) -> Result<(), String> {
        let image = (index % self.images as u64) as usize;
        let pixels = &self.map[self.pixels + image * self.each..][..self.each];
        for (number, pixel) in numbers.iter_mut().zip(pixels) {
            *number = f32::from(*pixel) / 127.5 - 1.0;
        }
        *class = self.class(image) as i32;
        Ok(())
    }
}

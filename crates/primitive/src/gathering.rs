//! Computation on panels that come from all ranks: rows of A for a product, keys and values for attention.

use device::Slice;

use super::attention::Panel;
use super::product::Operands;
use super::site::Site;

/// Panels in one memory: gathered here, this rank's own, or a peer's.
pub(super) enum Panels {
    /// Rows of A.
    Rows(Operands),
    /// Keys and values.
    Attention(Panel),
}

/// A panel, or a part of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Where it begins in its memory, in elements.
    pub(super) at: usize,
    /// The rank that it came from.
    pub(super) from: usize,
    /// Which part of the panel it is, of how many equal ones.
    pub(super) part: usize,
    pub(super) parts: usize,
}

impl Piece {
    /// A whole panel.
    pub(super) fn whole(at: usize, from: usize) -> Self {
        Self { at, from, part: 0, parts: 1 }
    }
}

/// Elements of a rank's panel.
pub(super) fn panel_elements(site: &Site) -> usize {
    site.task.elements()[0]
}

/// What a panel is cut along: rows, or heads.
pub(super) fn units(site: &Site) -> usize {
    if site.attention.is_some() { site.task.n } else { site.task.rows() }
}

/// Panels in this memory.
pub(super) fn panels(site: &Site, memory: &Slice) -> Panels {
    match &site.attention {
        Some(attention) => Panels::Attention(attention.panel(&site.other, memory, &site.output)),
        None => Panels::Rows(site.operands([memory, &site.other, &site.output])),
    }
}

/// Before the first piece.
pub(super) fn begin(site: &Site) {
    if let Some((attention, multiplier)) = site.attend() {
        attention.begin(multiplier, &site.output);
    }
}

/// After the last.
pub(super) fn end(site: &Site) {
    if let Some((attention, multiplier)) = site.attend() {
        attention.end(multiplier, &site.output);
    }
}

/// Computes with a piece.
///
/// # Safety
/// Nobody writes to the piece meanwhile, and nobody else uses the output.
pub(super) unsafe fn see(site: &Site, panels: &Panels, piece: Piece) {
    let each = units(site) / piece.parts;
    // SAFETY: the caller's.
    unsafe {
        match panels {
            Panels::Rows(operands) => {
                let (rows, depth) = (site.task.rows(), site.task.depth());
                site.multiply(operands, piece.at / depth, piece.from * rows + piece.part * each, each);
            }
            Panels::Attention(panel) => {
                if let Some((attention, multiplier)) = site.attend() {
                    attention.see(
                        multiplier,
                        panel,
                        &site.output,
                        piece.at,
                        piece.part * each..(piece.part + 1) * each,
                    );
                }
            }
        }
    }
}

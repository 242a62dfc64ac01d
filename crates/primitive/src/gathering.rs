//! Computation on panels that come from all ranks: rows of A for a product, keys and values for attention.

use device::Slice;
use measure::Failure;

use super::attention::Panel;
use super::machine::Machine;
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
pub(super) struct PanelPiece {
    /// Where it begins in its memory, in elements.
    pub(super) at: usize,
    /// The rank that it came from.
    pub(super) from: usize,
    /// Which part of the panel it is, of how many equal ones.
    pub(super) part: usize,
    pub(super) parts: usize,
}

impl PanelPiece {
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
pub(super) fn begin(site: &Site) -> Result<(), Failure> {
    match (&site.attention, site.machine()) {
        (Some(attention), Machine::Host(multiplier)) => attention.begin(multiplier, &site.output),
        (Some(_), Machine::Gpu(gpu)) => site.attention_there()?.begin(gpu)?,
        (None, _) => {}
    }
    Ok(())
}

/// After the last.
pub(super) fn end(site: &Site) -> Result<(), Failure> {
    match (&site.attention, site.machine()) {
        (Some(attention), Machine::Host(multiplier)) => attention.end(multiplier, &site.output),
        (Some(_), Machine::Gpu(gpu)) => site.attention_there()?.end(gpu, &site.output)?,
        (None, _) => {}
    }
    Ok(())
}

/// Computes with a piece.
///
/// # Errors
/// As [`Site::multiply`].
///
/// # Safety
/// Nobody writes to the piece meanwhile, and nobody else uses the output.
pub(super) unsafe fn see(site: &Site, panels: &Panels, piece: PanelPiece) -> Result<(), Failure> {
    let each = units(site) / piece.parts;
    let heads = piece.part * each..(piece.part + 1) * each;
    match (panels, &site.attention, site.machine()) {
        (Panels::Rows(operands), ..) => {
            let (rows, depth) = (site.task.rows(), site.task.depth());
            // SAFETY: the caller's.
            unsafe { site.multiply(operands, piece.at / depth, piece.from * rows + piece.part * each, each) }
        }
        (Panels::Attention(panel), Some(attention), Machine::Host(multiplier)) => {
            // SAFETY: the caller's.
            unsafe { attention.see(multiplier, panel, &site.output, piece.at, heads) };
            Ok(())
        }
        (Panels::Attention(panel), Some(_), Machine::Gpu(gpu)) => {
            site.attention_there()?.see(gpu, [&site.other, panel.memory(), &site.output], piece.at, heads)
        }
        (Panels::Attention(_), None, _) => Ok(()),
    }
}

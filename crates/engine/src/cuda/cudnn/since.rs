//! What came after cuDNN 9.0, the oldest version that is used. Numbers and versions are those of cudnn_graph.h of 9.0 to 9.28.

use std::ffi::c_int;

use device::since::Since;

/// CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR: a device that plans are made for, without a handle.
pub(super) const DEVICE: c_int = 38;
/// CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR.
pub(super) const ATTENTION: c_int = 41;

const fn since(what: &'static str, version: [u32; 2], otherwise: &'static str) -> Since {
    Since { library: "cuDNN", what, version, otherwise }
}

/// CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP.
pub(super) const PROPERTIES: Since =
    since("the descriptor of a device (38)", [9, 8], "nothing is planned for a device that is not there");
/// CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR.
pub(super) const SINGLE: Since =
    since("attention as one operation (41)", [9, 13], "a graph of products and element-wise operations");
/// CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH and the numbers of its tensors.
pub(super) const MASK: Since =
    since("a mask inside of that operation (2811 to 2813)", [9, 21], "the same graph, for causal attention");

/// All that came later.
pub static CUDNN_SINCE: [Since; 3] = [PROPERTIES, SINGLE, MASK];

/// Kinds of descriptors that are used, and what the later ones came with.
pub static CUDNN_KINDS: [(c_int, Option<Since>); 20] = [
    (0, None),
    (1, None),
    (2, None),
    (3, None),
    (4, None),
    (5, None),
    (10, None),
    (11, None),
    (12, None),
    (13, None),
    (15, None),
    (16, None),
    (17, None),
    (18, None),
    (19, None),
    (21, None),
    (22, None),
    (31, None),
    (DEVICE, Some(PROPERTIES)),
    (ATTENTION, Some(SINGLE)),
];

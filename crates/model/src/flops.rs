//! Floating-point operations of a model: counted layer by layer, and by the formulas that MFU is quoted with.
//!
//! A multiplication and an addition count as two. Only products count (linear layers, convolutions, attention): norms,
//! activations, lookups, losses and updates do not, as in all published figures.

use crate::layer::{Attention, Layer};
use crate::shape::{MatrixShape, Unsound};
use crate::specification::{Family, Model, Node};

terms::named! {
    /// How the floating-point operations of a training step are counted for MFU. N are the parameters that stand in
    /// products ([`Model::product_parameters`]), L the layers, h heads x head width, s the sequence.
    pub enum Convention("convention") {
        /// 6N a token: no attention.
        Parameters = "6n",
        /// 6N + 12 L h s a token: all pairs of tokens, also where attention is causal (torchtitan, nanoGPT; PaLM, arXiv
        /// 2204.02311, appendix B).
        Full = "full",
        /// 6N + 6 L h s a token: half the pairs (Megatron-LM, llm.c).
        Causal = "causal",
        /// Layer by layer: three times the forward pass, visible pairs of tokens exactly.
        Layers = "layers",
    }
}

/// Pairs of a query row and a key row that it sees: s(s+1)/2 of s rows if causal, else s^2.
fn visible_pairs(layer: &Attention, rows: usize) -> f64 {
    let rows = rows as f64;
    if layer.causal { rows * (rows + 1.0) / 2.0 } else { rows * rows }
}

impl Node {
    /// Operations of the forward pass on an input and output of these shapes.
    fn forward_flops(&self, input: MatrixShape, output: MatrixShape) -> f64 {
        let macs = match &self.layer {
            Layer::Linear(layer) => input.rows as f64 * layer.inputs as f64 * layer.width() as f64,
            Layer::Conv2d(layer) => {
                output.elements() as f64 * (layer.kernel * layer.kernel) as f64 * layer.inputs as f64
            }
            // Scores, and their product with the values: two products over the head's width.
            Layer::Attention(layer) => 2.0 * visible_pairs(layer, input.rows) * (layer.heads * layer.head_width) as f64,
            _ => 0.0,
        };
        2.0 * macs
    }
}

impl Model {
    /// Operations of the forward pass of one sample, by block and node.
    ///
    /// # Errors
    /// As [`Model::shapes`].
    pub fn forward_flops_by_node(&self) -> Result<Vec<Vec<f64>>, Unsound> {
        let shapes = self.shapes()?;
        let mut flow = MatrixShape { rows: self.input.rows(), columns: self.input.columns() };
        let mut all = Vec::with_capacity(self.blocks.len());
        for (block, outputs) in self.blocks.iter().zip(&shapes) {
            let input = |node: &Node| match node.inputs[0] {
                crate::Value::Input => flow,
                crate::Value::Node(from) => outputs[from],
            };
            all.push(block.nodes.iter().zip(outputs).map(|(node, y)| node.forward_flops(input(node), *y)).collect());
            flow = outputs[outputs.len() - 1];
        }
        Ok(all)
    }

    /// Operations of the forward pass of one sample.
    ///
    /// # Errors
    /// As [`Model::shapes`].
    pub fn forward_flops(&self) -> Result<f64, Unsound> {
        Ok(self.forward_flops_by_node()?.into_iter().flatten().sum())
    }

    /// Operations of one sample in a training step: three times the forward pass, because the backward pass multiplies
    /// once for the gradient of each factor. The first convolution's image takes no gradient, but counts here too, as in
    /// published figures: 1% of ResNet-50.
    ///
    /// # Errors
    /// As [`Model::shapes`].
    pub fn training_flops(&self) -> Result<f64, Unsound> {
        Ok(3.0 * self.forward_flops()?)
    }

    /// N of the formulas: all parameters but lookup tables. A token table that is also the head's weight stands in a
    /// product and counts, once. So nanoGPT (`get_num_params`: "position embeddings get subtracted. The token embeddings
    /// would too, except due to the parameter sharing these params are actually used as weights in the final layer");
    /// without tying, as torchtitan, which subtracts its embeddings.
    pub fn product_parameters(&self) -> usize {
        let nodes = || self.blocks.iter().flat_map(|block| &block.nodes);
        let tied: Vec<&str> = nodes()
            .filter_map(|node| match &node.layer {
                Layer::Linear(layer) => layer.tied.as_deref(),
                _ => None,
            })
            .collect();
        let counts = |block: &str, node: &Node| {
            let lookup = matches!(node.layer, Layer::Embedding(_));
            let parameters = node.parameters(block);
            let held = parameters.iter().filter(|held| !lookup || tied.contains(&held.name.as_str()));
            held.map(crate::Parameter::len).sum::<usize>()
        };
        self.blocks.iter().flat_map(|block| block.nodes.iter().map(|node| counts(&block.name, node))).sum()
    }

    /// Operations of one sample in a training step by a convention; None where it does not apply: formulas of
    /// transformers to other models.
    ///
    /// # Errors
    /// As [`Model::shapes`].
    pub fn flops(&self, convention: Convention) -> Result<Option<f64>, Unsound> {
        let tokens = self.input.rows() as f64;
        let pairs = match convention {
            Convention::Layers => return self.training_flops().map(Some),
            Convention::Parameters => 0.0,
            Convention::Full => 12.0,
            Convention::Causal => 6.0,
        };
        let Family::Transformer { layers, width, .. } = self.family else { return Ok(None) };
        let attention = pairs * layers as f64 * width as f64 * tokens;
        Ok(Some(tokens * (6.0 * self.product_parameters() as f64 + attention)))
    }

    /// The convention of the headline: of causal transformers `causal`, of others `full`, else layer by layer.
    pub fn headline(&self) -> Convention {
        match self.family {
            Family::Transformer { causal: true, .. } => Convention::Causal,
            Family::Transformer { causal: false, .. } => Convention::Full,
            Family::Other => Convention::Layers,
        }
    }
}

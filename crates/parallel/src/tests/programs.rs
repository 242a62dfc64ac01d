//! A program is the one that its outline counts.

use engine::op::{Op, Rows, Update};
use model::model;

use super::scaffold::recipe;
use crate::{Recipe, outline, program};

/// GPT-2 with so many words.
fn gpt2(vocabulary: usize) -> Recipe {
    let dimensions = [("layers", 2.0), ("width", 32.0), ("heads", 2.0), ("sequence", 8.0)];
    let mut settings = dimensions.map(|(name, value)| (name.to_owned(), value)).to_vec();
    settings.push(("vocabulary".to_owned(), vocabulary as f64));
    Recipe { clip: Some(1.0), ..recipe(model("gpt2-mini", &settings).unwrap(), 2, 1) }
}

#[test]
fn a_program_has_the_operations_that_its_outline_counts() {
    let recipe = gpt2(64);
    let program = program(&recipe, 0).unwrap();
    let flops: f64 = program.operations(0..program.instructions.len()).map(|(_, op)| engine::flops(op)).sum();
    let counted = outline(&recipe, 0, |_| 0).unwrap();
    assert!(flops > 0.0 && (flops - counted.flops).abs() <= 1e-9 * flops, "{flops} and {}", counted.flops);
}

/// Padding is memory, and nothing else: no parameter, no work, and no gradient that counts.
#[test]
fn padding_is_counted_as_memory_alone() {
    let (plain, padded) = (gpt2(50), Recipe { logits_multiple: 64, ..gpt2(50) });
    let [own, of_padded] = [&plain, &padded].map(|recipe| outline(recipe, 0, |_| 0).unwrap());
    assert_eq!((of_padded.flops, of_padded.model_flops), (own.flops, own.model_flops));
    assert_eq!(of_padded.parameters, own.parameters);
    // 14 rows of the table's values, masters being these in f64, its gradient, and its momentum; 14 columns of the logits of 16 rows.
    let more = |category| of_padded.categories[&category] - own.categories[&category];
    for category in [engine::Category::Parameter, engine::Category::Gradient, engine::Category::Optimizer] {
        assert_eq!(more(category), 14 * 32 * 8, "{category:?}");
    }
    assert_eq!(of_padded.bytes - own.bytes, 3 * 14 * 32 * 8 + 14 * 16 * 8);
    let program = program(&padded, 0).unwrap();
    let all = || program.operations(0..program.instructions.len()).map(|(_, op)| op);
    let squared = |op: &Op| if let Op::Update(Update::SumSquares { x, .. }) = op { x.len } else { 0 };
    assert_eq!(all().map(squared).sum::<usize>(), own.parameters);
    let tables = all().filter_map(|op| match op {
        Op::Rows(Rows::EmbeddingForward { table: view, .. } | Rows::EmbeddingBackward { d_table: view, .. }) => {
            Some(view.len)
        }
        _ => None,
    });
    assert_eq!(tables.collect::<Vec<_>>(), [50 * 32; 2], "a token behind the vocabulary is outside of the table");
}

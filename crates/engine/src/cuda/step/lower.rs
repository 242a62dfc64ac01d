//! What operations become: one launch each, or one for several that a kernel or the library computes at once.

use super::errors::refused;
use crate::cuda::train::are_one;
use crate::cuda::{Adam, Algorithm, Arithmetic, Epilogue, Form, Operands, ProductError, Products, Squares, Train};
use crate::op::{Dense, MatMul, Norm, Op, Rows, Update};
use crate::{Error, Instruction, Memory, Program, View};
use terms::Dtype;

/// Consecutive operations that are given at once.
pub(super) struct Command {
    /// The first instruction.
    pub(super) at: usize,
    /// How many.
    pub(super) len: usize,
    pub(super) what: What,
}

/// How they are given.
pub(super) enum What {
    /// One operation, as it stands.
    One,
    /// A product with an epilogue: the result goes to `c`, and the other matrix of its shape is read or written.
    Product { product: MatMul, epilogue: Epilogue, c: View, auxiliary: View },
    /// The gradient of a weight, with that of the bias, whose sums over rows the product makes.
    WithBias { product: MatMul, bias: View },
    /// `residual`, `total`, and the norm's result.
    ResidualNorm { norm: Norm, views: [View; 3] },
    /// Sums of squares of many views.
    Squares { squares: Squares, control: View },
    /// Updates of many tensors.
    Updates { adam: Adam },
}

/// The form of a product.
pub(super) fn form(product: &MatMul, memory: &Memory) -> Result<Form, Error> {
    let (a, c) = (memory.dtype(product.a), memory.dtype(product.c));
    let none = || Error::Lacking(format!("cuBLAS does not multiply {a}"));
    let arithmetic = Arithmetic::of(a, false).ok_or_else(none)?;
    let epilogue = if product.bias.is_some() { Epilogue::Bias } else { Epilogue::Plain };
    let MatMul { m, n, k, a_transposed, b_transposed, accumulate, .. } = *product;
    let is_wide = c == Dtype::F32 && a != c;
    Ok(Form { a_transposed, b_transposed, accumulate, epilogue, is_wide, ..Form::new(arithmetic, [m, n, k]) })
}

/// Scratch bytes of sums of squares of views in a row.
pub(super) fn squares_bytes(program: &Program) -> usize {
    let (mut most, mut sum) = (0, 0);
    for instruction in &program.instructions {
        sum = match instruction {
            Instruction::Run(Op::Update(Update::SumSquares { x, .. })) => sum + Squares::bytes_of(x.len),
            _ => 0,
        };
        most = most.max(sum);
    }
    most
}

/// All commands of a program, in its order.
pub(super) fn commands(
    program: &Program,
    memory: &Memory,
    train: &Train,
    products: &Products,
) -> Result<Vec<Command>, Error> {
    let all: Vec<(usize, &Op)> = program.operations(0..program.instructions.len()).collect();
    let mut commands = Vec::new();
    let mut next = 0;
    while next < all.len() {
        let (at, op) = all[next];
        let follows = |by: usize| all.get(next + by).filter(|(place, _)| *place == at + by).map(|(_, op)| *op);
        let joined = match (op, follows(1)) {
            (Op::Update(Update::SumSquares { x: first, control }), Some(_)) => {
                // Of memory that peers reach and of the rest apart: a launch goes through one region.
                let lies = |view: View| (memory.slice(view).region().id(), memory.dtype(view));
                let same = |op: &Op| match op {
                    Op::Update(Update::SumSquares { x, control: of }) => {
                        Some(*x).filter(|x| of == control && lies(*x) == lies(*first))
                    }
                    _ => None,
                };
                let views: Vec<View> = (0..).map_while(|by| follows(by).and_then(same)).collect();
                let squares = train.squares(&views, memory).map_err(refused)?;
                Some((views.len(), What::Squares { squares, control: *control }))
            }
            (Op::Update(first @ Update::AdamW { .. }), Some(_)) => {
                let same = |op: &Op| match op {
                    Op::Update(op) => are_one(first, op, memory).then(|| op.clone()),
                    _ => None,
                };
                let all: Vec<Update> = (0..).map_while(|by| follows(by).and_then(same)).collect();
                let adam = |all: &[Update]| train.adam(all, memory).map_err(refused);
                (all.len() > 1).then(|| Ok((all.len(), What::Updates { adam: adam(&all)? }))).transpose()?
            }
            (Op::Dense(Dense::MatMul(product)), Some(next)) => with_epilogue(product, next, memory, products)?,
            (Op::Rows(Rows::ColumnSum { x, y, accumulate: false, .. }), Some(Op::Dense(Dense::MatMul(product))))
                if *x == product.a && product.bias.is_none() =>
            {
                with_bias(product, *y, memory, products)?
            }
            (Op::Rows(Rows::Add { a, b, y }), Some(Op::Rows(Rows::NormForward { norm, y: of }))) => {
                let fits = norm.x == *y && of != y;
                let norm = Norm { x: *a, ..norm.clone() };
                fits.then_some((2, What::ResidualNorm { norm, views: [*b, *y, *of] }))
            }
            _ => None,
        };
        let (len, what) = joined.unwrap_or((1, What::One));
        commands.push(Command { at, len, what });
        next += len;
    }
    Ok(commands)
}

/// A product and the GELU that reads its result, or the gradient of GELU that is multiplied with it; None where they do not join.
fn with_epilogue(
    product: &MatMul,
    next: &Op,
    memory: &Memory,
    products: &Products,
) -> Result<Option<(usize, What)>, Error> {
    let (epilogue, c, auxiliary) = match next {
        Op::Rows(Rows::GeluForward { x, y, exact: false }) if *x == product.c && y != x && product.bias.is_some() => {
            (Epilogue::GeluBiasKept, *y, *x)
        }
        Op::Rows(Rows::GeluBackward { x, dy, dx, exact: false })
            if *dy == product.c && dx == dy && product.bias.is_none() =>
        {
            (Epilogue::GeluGradient, *dx, *x)
        }
        _ => return Ok(None),
    };
    let plain = form(product, memory)?;
    // The library wants rows of the second matrix at multiples of eight elements.
    let is_narrow = matches!(plain.arithmetic, Arithmetic::Bf16 | Arithmetic::F16) && !plain.is_wide;
    if !is_narrow || product.accumulate || !product.n.is_multiple_of(8) {
        return Ok(None);
    }
    let places = ProductPlaces { c, bias: product.bias, auxiliary: Some(auxiliary), ..ProductPlaces::of(product) };
    let what = || (2, What::Product { product: product.clone(), epilogue, c, auxiliary });
    Ok(takes(products, &Form { epilogue, ..plain }, &places, memory)?.then(what))
}

/// Where a product's matrices lie.
struct ProductPlaces {
    a: View,
    b: View,
    c: View,
    bias: Option<View>,
    auxiliary: Option<View>,
}

impl ProductPlaces {
    fn of(product: &MatMul) -> Self {
        Self { a: product.a, b: product.b, c: product.c, bias: product.bias, auxiliary: None }
    }
}

/// The library's choice for these places: it may want them aligned further than they are.
fn algorithm(
    products: &Products,
    form: &Form,
    places: &ProductPlaces,
    memory: &Memory,
) -> std::result::Result<Algorithm, ProductError> {
    let [a, b, c] = [places.a, places.b, places.c].map(|view| memory.slice(view));
    let [bias, auxiliary] = [places.bias, places.auxiliary].map(|view| view.map(|view| memory.slice(view)));
    let operands = Operands { a: &a, b: &b, c: &c, bias: bias.as_ref(), auxiliary: auxiliary.as_ref() };
    products.algorithm_for(form, &operands)
}

/// Whether the library has one: not every one has each epilogue for each GPU, either.
fn takes(products: &Products, form: &Form, places: &ProductPlaces, memory: &Memory) -> Result<bool, Error> {
    is_taken(algorithm(products, form, places, memory))
}

/// Whatever the library says against a product with others at once, they are given singly: it calls some epilogues that it lacks
/// invalid values. What it says against the product alone is then an error.
fn is_taken(found: std::result::Result<Algorithm, ProductError>) -> Result<bool, Error> {
    match found {
        Ok(_) => Ok(true),
        Err(ProductError::Unsupported(_) | ProductError::Library { .. }) => Ok(false),
        Err(error) => Err(refused(error)),
    }
}

/// The gradient of a weight and that of its bias at once; None where the library does not join them.
fn with_bias(
    product: &MatMul,
    bias: View,
    memory: &Memory,
    products: &Products,
) -> Result<Option<(usize, What)>, Error> {
    let plain = form(product, memory)?;
    let is_of_rows = product.a_transposed && bias.len == product.m && memory.dtype(bias) == Dtype::F32;
    if !plain.is_wide || product.accumulate || !is_of_rows {
        return Ok(None);
    }
    let form = Form { epilogue: Epilogue::BiasGradient, ..plain };
    let places = ProductPlaces { bias: Some(bias), ..ProductPlaces::of(product) };
    Ok(takes(products, &form, &places, memory)?.then(|| (2, What::WithBias { product: product.clone(), bias })))
}

/// What products compute at once with other operations; None where they do not.
pub(super) fn joined(commands: &[Command]) -> Option<String> {
    let count = |is: &dyn Fn(&What) -> bool| commands.iter().filter(|command| is(&command.what)).count();
    let by = |wanted| count(&|what| matches!(what, What::Product { epilogue, .. } if *epilogue == wanted));
    let (gelu, gradients) = (by(Epilogue::GeluBiasKept), by(Epilogue::GeluGradient));
    let biases = count(&|what| matches!(what, What::WithBias { .. }));
    (gelu + gradients + biases > 0)
        .then(|| format!("{gelu} GELU, {gradients} gradients of GELU, {biases} gradients of biases"))
}

/// How many updates are given at once; None where there are none.
pub(super) fn updates(commands: &[Command]) -> Option<String> {
    let all = || commands.iter().filter(|command| matches!(command.what, What::Updates { .. }));
    let (launches, tensors) = (all().count(), all().map(|command| command.len).sum::<usize>());
    (launches > 0).then(|| format!("{tensors} units in {launches}"))
}

/// Plans all products where their matrices lie, so that the first step does not.
pub(super) fn plan(program: &Program, memory: &Memory, products: &Products) -> Result<(), Error> {
    for (_, op) in program.operations(0..program.instructions.len()) {
        if let Op::Dense(Dense::MatMul(product)) = op {
            let (form, places) = (form(product, memory)?, ProductPlaces::of(product));
            algorithm(products, &form, &places, memory).map_err(refused)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_that_the_library_calls_invalid_are_given_singly() {
        let (name, said) = ("CUBLAS_STATUS_INVALID_VALUE".to_owned(), "an invalid value".to_owned());
        let invalid = ProductError::Library { what: "cublasLtMatmulAlgoGetHeuristic", name, said };
        assert!(matches!(is_taken(Err(invalid)), Ok(false)));
        assert!(matches!(is_taken(Err(ProductError::Unsupported("none".to_owned()))), Ok(false)));
        assert!(is_taken(Err(ProductError::Refused("too short".to_owned()))).is_err(), "a fault of this program");
    }
}

//! What the fields of `ep_all_to_all` say of its tokens and experts: defaults, refusals, and the routing that follows.

use std::sync::Arc;

use contract::fields::problem;
use record::Case;
use terms::FieldError;

use super::experts::{self, Load, Routing, Sizes};
use super::fields::{PrimitiveFields, TOKENS};
use super::task::Options;
use super::words::Primitive;

/// PrimitiveFields that only `ep_all_to_all` has.
const FIELDS: [&str; 4] = ["experts", "top_k", "tokens", "tokens_file"];
/// Sums up to this are exact.
const EXACT: usize = 1 << 24;

/// The variant of the field `tokens`, and its options.
fn load(fields: &PrimitiveFields) -> Result<(&'static str, Options), FieldError> {
    let text = fields.tokens.as_deref().unwrap_or("uniform");
    let unknown = |message: String| problem("tokens", message, "`rankmark primitive --help` lists them");
    let (variant, options) = record::plan::chosen(&TOKENS.named("tokens"), text).map_err(unknown)?;
    Ok((variant.name, options))
}

/// Whether tokens are routed: each goes to its own experts, from where it lies. Otherwise a rank has one expert, and its tokens
/// lie in the order of their experts.
pub(super) fn is_routed(fields: &PrimitiveFields) -> bool {
    fields.experts.is_some() || fields.top_k.is_some()
}

/// Fills absent fields of tokens and experts, reads the file of counts, and refuses what does not fit together. After sizes
/// were filled.
///
/// # Errors
/// The first field that does not fit.
pub(super) fn resolve_routing(fields: &mut PrimitiveFields, case: &mut Case) -> Result<(), FieldError> {
    if fields.primitive != Primitive::EpAllToAll {
        return match FIELDS.into_iter().find(|name| case.parameters.contains_key(name)) {
            Some(name) => {
                let message = format!("`{name}` is for ep_all_to_all, not {}", fields.primitive);
                Err(problem(name, message, "leave it out"))
            }
            None => Ok(()),
        };
    }
    let (name, _) = load(fields)?;
    experts::resolve(case, fields.tokens_file.as_deref(), name == "file")?;
    // `uniform` and `skewed` alone are of tokens that lie sorted.
    if is_routed(fields) || !matches!(name, "uniform" | "skewed") {
        fields.experts.get_or_insert(u64::from(fields.ranks));
        fields.top_k.get_or_insert(1);
    }
    fields.tokens.get_or_insert_with(|| name.to_owned());
    check(fields)
}

fn sizes(fields: &PrimitiveFields) -> Sizes {
    let (ranks, m) = (fields.ranks.max(1) as usize, fields.m.unwrap_or(1) as usize);
    let experts = fields.experts.map_or(ranks, |experts| experts as usize);
    Sizes { ranks, rows: m / ranks, experts, top_k: fields.top_k.unwrap_or(1) as usize }
}

fn check(fields: &PrimitiveFields) -> Result<(), FieldError> {
    let (sizes, k) = (sizes(fields), fields.k.unwrap_or(1) as usize);
    divides("m", fields.m.unwrap_or(1) as usize, sizes.ranks, "ranks")?;
    divides("experts", sizes.experts, sizes.ranks, "ranks")?;
    if sizes.top_k > sizes.experts {
        let message =
            format!("top_k = {} exceeds experts = {}: a token goes to different experts", sizes.top_k, sizes.experts);
        return Err(problem("top_k", message, format!("at most {}, or more `experts`", sizes.experts)));
    }
    if !is_routed(fields) {
        return Ok(());
    }
    let sums = experts::sums(k, sizes.top_k);
    if sums > EXACT {
        let message = format!("weighted sums of {sums} products have no exact result to check against");
        return Err(problem("k", message, format!("at most {}", EXACT / experts::sums(1, sizes.top_k))));
    }
    let digits = experts::digits_of(k, sizes, fields.dtype);
    if k < digits {
        let message = format!("{k} elements cannot give {} tokens different values", sizes.rows * sizes.ranks);
        return Err(problem("k", message, format!("at least {digits}")));
    }
    Ok(())
}

/// Refuses a size that is not a multiple, and names the nearest that are.
///
/// # Errors
/// The sizes next to it.
pub(super) fn divides(field: &'static str, size: usize, by: usize, what: &str) -> Result<(), FieldError> {
    if size.is_multiple_of(by) {
        return Ok(());
    }
    let below = size / by * by;
    let near = if below == 0 { format!("{by}") } else { format!("{below} or {}", below + by) };
    Err(problem(field, format!("{field} = {size} is not a multiple of {what} = {by}"), format!("the nearest: {near}")))
}

/// The load of a case's tokens.
fn load_of(case: &Case, fields: &PrimitiveFields) -> Result<Load, FieldError> {
    let (name, options) = load(fields)?;
    Load::new(name, &options, experts::counts(case))
}

/// By how many experts calls one after the other displace the routing of a case with these fields.
///
/// # Errors
/// The first field with a value that cannot be read.
pub(super) fn turns(case: &Case, fields: &PrimitiveFields) -> Result<Vec<usize>, FieldError> {
    match fields.primitive {
        Primitive::EpAllToAll => Ok(load_of(case, fields)?.turns(sizes(fields).experts)),
        _ => Ok(vec![0]),
    }
}

/// The routing of a case.
///
/// # Errors
/// When experts cannot take the tokens that they should.
pub(super) fn routing(case: &Case, fields: &PrimitiveFields) -> Result<Arc<Routing>, FieldError> {
    let sizes = sizes(fields);
    if fields.primitive != Primitive::EpAllToAll {
        return Ok(Arc::new(Routing::new(sizes, &vec![0; sizes.experts], fields.seed, true)));
    }
    let counts = load_of(case, fields)?.counts((sizes.experts, sizes.top_k), (sizes.ranks, sizes.rows), fields.seed)?;
    Ok(Arc::new(Routing::new(sizes, &counts, fields.seed, !is_routed(fields))))
}

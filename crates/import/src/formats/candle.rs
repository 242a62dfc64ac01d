//! Configurations of the Candle suite: one of hardware, model and parallelization, or several of them. Each becomes hardware,
//! collective, training and memory cases.

mod blocks;
mod cases;

use terms::Error;

use crate::fields::{MappedFields, text};
use crate::plan_text::PlanText;
use crate::tree::{self, Tree, ValueNode};
use crate::{Content, ForeignPlan, Format, Source};
use blocks::Configuration;

/// The format.
pub(super) struct Candle;

const BLOCKS: &[&str] = &["hardware", "model", "parallelization"];
/// What lists of configurations are called.
const LISTS: &[&str] = &["configurations", "configs", "benchmarks"];

impl Format for Candle {
    fn about(&self) -> (&'static str, &'static str) {
        ("candle", "the Candle suite: a configuration or a suite of them as JSON")
    }

    fn is_document(&self) -> bool {
        true
    }

    fn recognises(&self, source: &Source) -> bool {
        let any = |keys: &[&str]| keys.iter().any(|key| tree::json_with(source, &[key]));
        any(&["parallelization"]) && any(&["hardware", "model"]) && !any(&["cases"])
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let root = tree::parse(source)?;
        let (name, configurations) = configurations(source, &root)?;
        let mut plan = PlanText::new(source.file_name(), "the Candle suite", &name);
        cases::write(source, &configurations, &mut plan)?;
        let mut plan: ForeignPlan = plan.finish();
        plan.used = ["model", "strategy", "batch"]
            .iter()
            .filter(|name| source.given(name).is_some_and(|given| **name != "batch" || given.parse::<u64>().is_ok()))
            .map(|name| (*name).to_owned())
            .collect();
        Ok(Content::Plan(plan))
    }
}

/// The configurations of a file, and what it is called.
fn configurations(source: &Source, root: &ValueNode) -> Result<(String, Vec<Configuration>), Error> {
    let stem = source.file_name().trim_end_matches(".json").to_owned();
    if let Tree::List(items) = &root.tree {
        return Ok((stem, all(source, items, &[])?));
    }
    let mut file = MappedFields::of_mapping(source, "the file", root)?;
    let name = file.take("name").map(|node| text(source, "name", node)).transpose()?.map_or(stem, str::to_owned);
    // Words about the file; they change nothing.
    if let Some(node) = file.take("description") {
        text(source, "description", node)?;
    }
    let list = LISTS.iter().find_map(|list| file.take(list));
    let shared: Vec<(&str, &ValueNode)> = BLOCKS.iter().filter_map(|block| Some((*block, file.take(block)?))).collect();
    file.finish(&[BLOCKS, LISTS, &["name", "description"]].concat())?;
    let configurations = match list.map(|node| (&node.tree, node)) {
        None => vec![blocks::configuration(source, &name, &shared, root.at)?],
        Some((Tree::List(items), _)) => all(source, items, &shared)?,
        Some((_, node)) => {
            return Err(
                source.error(node.at, format!("a suite must be a list of configurations, not {}", tree::kind(node)))
            );
        }
    };
    Ok((name, configurations))
}

/// The items of a suite; blocks that an item lacks are those of the suite.
fn all(source: &Source, items: &[ValueNode], shared: &[(&str, &ValueNode)]) -> Result<Vec<Configuration>, Error> {
    if items.is_empty() {
        return Err(Error::new(format!("{} holds no configuration", source.name())));
    }
    let one = |(number, item): (usize, &ValueNode)| {
        let mut fields = MappedFields::of_mapping(source, "a configuration", item)?;
        let name = fields.take("name").map(|node| text(source, "name", node)).transpose()?;
        let name = name.map_or_else(|| format!("configuration {}", number + 1), str::to_owned);
        if let Some(node) = fields.take("description") {
            text(source, "description", node)?;
        }
        let mut own: Vec<(&str, &ValueNode)> = shared.to_vec();
        for block in BLOCKS {
            if let Some(node) = fields.take(block) {
                own.retain(|(name, _)| name != block);
                own.push((block, node));
            }
        }
        fields.finish(&[BLOCKS, &["name", "description"]].concat())?;
        blocks::configuration(source, &name, &own, item.at)
    };
    items.iter().enumerate().map(one).collect()
}

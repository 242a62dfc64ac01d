//! What the parts of a page are to a reader who hears them: the tags of a PDF.

use std::num::NonZeroU16;

use krilla::tagging::{BBox, Identifier, ListNumbering, Node, TableHeaderScope, Tag, TagGroup, TagKind, TagTree};

/// What a part is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PartKind {
    /// A heading of this level, from 1 on, with its text.
    Heading(u16, String),
    Paragraph,
    Strong,
    Code,
    List,
    Item,
    /// What stands before an item.
    Label,
    /// What an item says.
    Body,
    Table,
    TableHead,
    TableBody,
    Row,
    ColumnHead,
    Cell,
    /// A picture and what it shows.
    Figure(String),
    Caption,
    Contents,
    Entry,
    Reference,
    Link,
}

/// A part, and what it consists of.
struct TagElement {
    kind: PartKind,
    children: Vec<Child>,
}

#[derive(Clone, Copy)]
enum Child {
    Element(u32),
    Slot(u32),
}

/// A part of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaggedPart(u32);

/// What is drawn in one place of a part, perhaps over several pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// All parts, in the order in which they are read.
pub(super) struct Tags {
    elements: Vec<TagElement>,
    slots: u32,
}

/// What was drawn of a document: pieces of pages for slots, and where pictures stand.
#[derive(Default)]
pub(super) struct Drawn {
    pieces: Vec<(u32, Identifier)>,
    boxes: Vec<(Slot, BBox)>,
}

impl Tags {
    pub(super) fn new() -> Self {
        Self { elements: vec![TagElement { kind: PartKind::Paragraph, children: Vec::new() }], slots: 0 }
    }

    /// The whole document.
    pub(super) fn root(&self) -> TaggedPart {
        TaggedPart(0)
    }

    /// Adds a part to another.
    pub(super) fn part(&mut self, parent: TaggedPart, kind: PartKind) -> TaggedPart {
        let part = self.elements.len() as u32;
        self.elements.push(TagElement { kind, children: Vec::new() });
        self.elements[parent.0 as usize].children.push(Child::Element(part));
        TaggedPart(part)
    }

    /// The place behind what the part has so far.
    pub(super) fn slot(&mut self, part: TaggedPart) -> Slot {
        let children = &mut self.elements[part.0 as usize].children;
        if let Some(Child::Slot(slot)) = children.last() {
            return Slot(*slot);
        }
        children.push(Child::Slot(self.slots));
        self.slots += 1;
        Slot(self.slots - 1)
    }

    /// The tree for a PDF.
    pub(super) fn tree(&self, mut drawn: Drawn) -> TagTree {
        // Of one slot they stay in the order in which they were drawn.
        drawn.pieces.sort_by_key(|(slot, _)| *slot);
        TagTree::from(self.children(0, &drawn))
    }

    fn children(&self, element: u32, drawn: &Drawn) -> Vec<Node> {
        let children = &self.elements[element as usize].children;
        // Exactly so much: there are as many of these as a report has cells.
        let mut nodes = Vec::with_capacity(children.len());
        for child in children {
            match child {
                Child::Slot(slot) => nodes.extend(drawn.pieces_of(*slot).map(Node::from)),
                Child::Element(element) => {
                    let kind = self.kind(*element, drawn);
                    nodes.push(TagGroup::with_children(kind, self.children(*element, drawn)).into());
                }
            }
        }
        nodes
    }

    fn kind(&self, element: u32, drawn: &Drawn) -> TagKind {
        match &self.elements[element as usize].kind {
            PartKind::Heading(level, title) => {
                Tag::Hn(NonZeroU16::new(*level).unwrap_or(NonZeroU16::MIN), Some(title.clone())).into()
            }
            PartKind::Paragraph => Tag::P.into(),
            PartKind::Strong => Tag::Strong.into(),
            PartKind::Code => Tag::Code.into(),
            PartKind::List => Tag::L(ListNumbering::Disc).into(),
            PartKind::Item => Tag::LI.into(),
            PartKind::Label => Tag::Lbl.into(),
            PartKind::Body => Tag::LBody.into(),
            PartKind::Table => Tag::Table.into(),
            PartKind::TableHead => Tag::THead.into(),
            PartKind::TableBody => Tag::TBody.into(),
            PartKind::Row => Tag::TR.into(),
            PartKind::ColumnHead => Tag::TH(TableHeaderScope::Column).into(),
            PartKind::Cell => Tag::TD.into(),
            PartKind::Figure(shows) => Tag::Figure(Some(shows.clone())).with_bbox(self.place(element, drawn)).into(),
            PartKind::Caption => Tag::Caption.into(),
            PartKind::Contents => Tag::TOC.into(),
            PartKind::Entry => Tag::TOCI.into(),
            PartKind::Reference => Tag::Reference.into(),
            PartKind::Link => Tag::Link.into(),
        }
    }

    /// Where the picture of a figure stands.
    fn place(&self, element: u32, drawn: &Drawn) -> Option<BBox> {
        let children = &self.elements[element as usize].children;
        let is_of = |slot: &Slot| children.iter().any(|child| matches!(child, Child::Slot(own) if *own == slot.0));
        drawn.boxes.iter().find(|(slot, _)| is_of(slot)).map(|(_, place)| *place)
    }
}

impl Drawn {
    /// A piece of a page was drawn for a slot.
    pub(super) fn piece(&mut self, slot: Slot, piece: Identifier) {
        self.pieces.push((slot.0, piece));
    }

    /// The pieces for a slot, once they are sorted.
    fn pieces_of(&self, slot: u32) -> impl Iterator<Item = Identifier> {
        let first = self.pieces.partition_point(|(of, _)| *of < slot);
        self.pieces[first..].iter().take_while(move |(of, _)| *of == slot).map(|(_, piece)| *piece)
    }

    /// A picture was drawn for a slot.
    pub(super) fn picture(&mut self, slot: Slot, place: BBox) {
        self.boxes.push((slot, place));
    }
}

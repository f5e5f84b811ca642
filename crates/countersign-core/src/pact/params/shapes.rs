//! Parameters that are more than a type: references, what may be null, and exact numbers.

use super::keywords::{ANNOTATIONS, EXACT, refuse_unknown};
use super::lower::defined;
use super::{Property, Reader, json};
use crate::decimal::{self, DECIMAL_SCALE, MONEY_SCALE_MAX};
use crate::pact::diagnostic::suggestion;
use crate::pact::source::{Node, array, integer, shorten, string};
use crate::value::ValueType;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

impl<'a> Reader<'a, '_> {
    /// What a reference leads to.
    pub(super) fn reference(&mut self, node: Node<'a>, name: &str, depth: usize) -> Option<Property> {
        let text = string(self.source, node, "`$ref`", self.problems)?;
        let definitions = self.definitions;
        let found = defined(text.value).and_then(|name| definitions?.get_key_value(name));
        let Some((key, definition)) = found else {
            let names: Vec<&str> =
                definitions.into_iter().flat_map(|it| it.keys()).map(|key| key.get_ref().as_ref()).collect();
            let message = format!("`{}` is no definition of these parameters", shorten(text.value));
            let wanted = defined(text.value).unwrap_or(text.value);
            let hint = match names.is_empty() {
                true => "a pact is self-contained: define it under `$defs` of `params`, as \"#/$defs/NAME\"".to_owned(),
                false => suggestion(wanted, &names, "write \"#/$defs/NAME\" with one of"),
            };
            self.problems.error(&text.content(), message, hint);
            return None;
        };
        let key = key.get_ref().as_ref();
        if self.references.contains(&key) {
            let message = format!("`{key}` refers to itself, so `{name}` has no end");
            self.problems.error(
                &text.content(),
                message,
                "parameters are bounded: write out as many levels as are needed",
            );
            return None;
        }
        self.references.push(key);
        let read = self.property(definition, name, depth);
        self.references.pop();
        read
    }

    /// A type, or null.
    pub(super) fn alternatives(&mut self, node: Node<'a>, name: &str, depth: usize) -> Option<Property> {
        let all = array(node, "alternatives", self.problems)?;
        let is_null = |one: &&Spanned<DeValue<'a>>| {
            let ty = one.get_ref().as_table().and_then(|one| one.get("type"));
            ty.is_some_and(|ty| ty.get_ref().as_str() == Some("null"))
        };
        let mut others = all.iter().filter(|one| !is_null(one));
        match (others.next(), others.next()) {
            (Some(one), None) if all.len() == 2 => {
                self.property(one, name, depth + 1).map(|read| Property { is_nullable: true, ..read })
            }
            _ => {
                let message = format!("`{name}` has several types: a parameter has one, or null");
                let hint = "write [X, { type = \"null\" }], or the rule as a precondition";
                self.problems.error(&node.span(), message, hint);
                None
            }
        }
    }

    /// The type beside `"null"`.
    pub(super) fn beside_null(&mut self, node: Node<'a>, name: &str) -> Option<Node<'a>> {
        let all = array(node, "`type`", self.problems)?;
        let is_null = |one: &&Spanned<DeValue<'a>>| one.get_ref().as_str() == Some("null");
        match (all.iter().find(|one| !is_null(one)), all.iter().find(is_null)) {
            (Some(one), Some(_)) if all.len() == 2 => Some(one),
            _ => {
                let message = format!("`{name}` has several types: a parameter has one, or null");
                self.problems.error(&node.span(), message, "write [\"string\", \"null\"], or one type");
                None
            }
        }
    }

    /// Definitions that nothing refers to are still read: a mistake in one would show later.
    pub(super) fn unused_definitions(&mut self) {
        for (key, definition) in self.definitions.into_iter().flatten() {
            let before = self.problems.errors();
            self.references.push(key.get_ref().as_ref());
            if before == 0 {
                self.property(definition, key.get_ref().as_ref(), 1);
            }
            self.references.pop();
        }
    }

    /// Money or a decimal: what bounds it is exact, too.
    pub(super) fn exact(
        &mut self,
        node: Node<'a>,
        schema: &'a DeTable<'a>,
        is_money: bool,
        name: &str,
    ) -> Option<ValueType> {
        let own: &[&str] = if is_money { &["type", "enum", "const", "scale"] } else { &["type", "enum", "const"] };
        refuse_unknown(schema, &[own, &ANNOTATIONS, &EXACT], self.problems);
        let scale = match schema.get("scale").filter(|_| is_money) {
            None if is_money => None,
            None => Some(DECIMAL_SCALE),
            Some(scale) => integer(scale.get_ref()).and_then(|scale| u8::try_from(scale).ok()),
        };
        let Some(scale) = scale.filter(|scale| *scale <= MONEY_SCALE_MAX) else {
            let message = format!("money needs a `scale` from 0 to {MONEY_SCALE_MAX}: the digits behind its point");
            self.problems.error(&node.span(), message, format!("`{name}` in dollars and cents has scale = 2"));
            return None;
        };
        let listed = schema.get("enum").map(|node| array(node, "`enum`", self.problems).unwrap_or_default());
        let bounds = EXACT.iter().filter_map(|bound| schema.get(*bound));
        for node in bounds.chain(schema.get("const")).chain(listed.into_iter().flatten()) {
            let text = decimal::number_text(&json(node.get_ref())).map(|text| decimal::units(&text, scale));
            if !matches!(text, Some(Ok(_))) {
                let message = format!("this is no number with at most {scale} digits behind its point");
                self.problems.error(
                    &node.span(),
                    message,
                    "write it as 12.34 or \"12.34\", in whole units and not in cents",
                );
            }
        }
        Some(if is_money { ValueType::Money(scale) } else { ValueType::Decimal })
    }
}

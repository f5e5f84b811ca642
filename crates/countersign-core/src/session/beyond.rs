//! What reached an agent when its session had as many readings as are kept. No reading is kept of it, so a write that would rest on it is
//! refused; the answer itself is handed out all the same, because a task that only reads needs nothing more.

use super::{Place, Session, write};
use crate::decide::Snapshot;
use crate::decision::Write;
use crate::limits::BEYOND_MAX;
use crate::value::{Attributes, Set, Value};
use smol_str::SmolStr;
use std::sync::Arc;

/// In the place of a tool's name: so many were read beyond what is kept that they are not told apart.
const EVERY_TOOL: &str = "*";

impl Session {
    /// Whether tools were read beyond what is kept of it, among those that are asked about by server and name.
    pub fn is_beyond(&self, mut counts: impl FnMut(&Place) -> bool) -> bool {
        self.beyond.iter().any(|tool| match tool {
            Value::String(tool) => match tool.split_once('/') {
                Some((upstream, tool)) => {
                    counts(&Place { upstream: upstream.into(), tool: tool.into(), arguments: SmolStr::default() })
                }
                // So many that they are not told apart.
                None => true,
            },
            _ => false,
        })
    }

    /// Whether it is known of a tool that it was read beyond what is kept.
    fn is_known_beyond(&self, place: &Place) -> bool {
        self.is_beyond(|known| known.upstream == place.upstream && known.tool == place.tool)
    }
}

/// What an answer writes of which no reading is kept: that its tool was read beyond that; the same again where that is known.
pub fn read_beyond(session: &Session, place: &Place, snapshot: &dyn Snapshot) -> Write {
    let name = match session.beyond.iter().count() < BEYOND_MAX {
        true => place.tool_name(),
        false => EVERY_TOOL.to_owned(),
    };
    let new = (!session.is_known_beyond(place)).then(|| Value::String(name.into()));
    let tools: Set = session.beyond.iter().cloned().chain(new).collect();
    let beyond = (SmolStr::new_static("beyond"), Value::Set(Arc::new(tools)));
    let value = session.fact.value.clone().unwrap_or_default().with(vec![beyond]);
    write(&session.fact.id, Some(value), snapshot)
}

/// The tool that the value of a session says was read beyond what is kept: the one that is new, or any that is known.
pub fn beyond_in(session: &Session, value: &Attributes) -> Option<Place> {
    let Some(Value::Set(tools)) = value.get("beyond") else { return None };
    let new = tools.iter().find(|tool| !session.beyond.contains(tool));
    let Some(Value::String(tool)) = new.or_else(|| tools.iter().next()) else { return None };
    let (upstream, tool) = tool.split_once('/').unwrap_or((tool, ""));
    Some(Place { upstream: upstream.into(), tool: tool.into(), arguments: SmolStr::default() })
}

//! What was read, behind the payload of its entry: most of it is JSON, which in a member of the payload would have to be escaped.

use super::{CONTENT, READING};
use crate::decision::Write;
use crate::value::Value;
use smol_str::SmolStr;

/// What a reading keeps of what was read. Its own write comes first, before that of its session.
pub(crate) fn content_of(writes: &[Write]) -> Option<&str> {
    let reading = writes.first().filter(|write| write.fact.ty().as_str() == READING)?;
    match reading.value.as_ref()?.get(CONTENT)? {
        Value::String(content) => Some(content),
        _ => None,
    }
}

/// The writes of a reading as its payload has them.
pub(crate) fn without_content(writes: &[Write]) -> Vec<Write> {
    let mut writes = writes.to_vec();
    if let Some(value) = writes.first_mut().and_then(|write| write.value.as_mut()) {
        *value = value.only(|name| name != CONTENT);
    }
    writes
}

/// The writes of a reading with what stands behind the payload; `None` where it would stand in two places, or in none.
pub(crate) fn with_content(mut writes: Vec<Write>, content: Option<&str>) -> Option<Vec<Write>> {
    if content_of(&writes).is_some() {
        return None;
    }
    if let Some(content) = content {
        let value = writes.first_mut()?.value.as_mut()?;
        *value = value.with(vec![(SmolStr::new_static(CONTENT), Value::String(content.into()))]);
    }
    (content_of(&writes) == content).then_some(writes)
}

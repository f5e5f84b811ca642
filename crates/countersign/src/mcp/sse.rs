//! Server-sent events, as streamable HTTP uses them: read from chunks of bytes, and written.

use super::message::ID_BYTES_MAX;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    pub data: String,
    /// Its id, where it has one.
    pub id: Option<String>,
}

/// More than this in one event is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event is larger than {0} bytes")]
pub struct TooLarge(usize);

/// Puts chunks together to events.
#[derive(Debug)]
pub struct SseReader {
    bytes_max: usize,
    line: Vec<u8>,
    after_return: bool,
    event: SseEvent,
    has_data: bool,
}

impl SseReader {
    /// Events of at most so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, line: Vec::new(), after_return: false, event: SseEvent::default(), has_data: false }
    }

    /// Takes a chunk, and gives what it completes.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<SseEvent>, TooLarge> {
        let mut events = Vec::new();
        let mut rest = chunk;
        while !rest.is_empty() {
            // A line ends with CR, LF or both.
            if std::mem::take(&mut self.after_return)
                && let Some(after) = rest.strip_prefix(b"\n")
            {
                rest = after;
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
            self.line.extend_from_slice(line);
            if self.line.len() + self.event.data.len() > self.bytes_max {
                return Err(TooLarge(self.bytes_max));
            }
            rest = after;
            if let Some((ending, after)) = after.split_first() {
                self.after_return = *ending == b'\r';
                rest = after;
                let line = std::mem::take(&mut self.line);
                events.extend(self.line_done(&String::from_utf8_lossy(&line)));
            }
        }
        Ok(events)
    }

    /// How much there is of what is not complete yet.
    pub fn part_bytes(&self) -> usize {
        self.line.len() + self.event.data.len()
    }

    fn line_done(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            // A longer one is not kept, so the stream is not resumed from there.
            "id" if !value.contains('\0') && value.len() <= ID_BYTES_MAX => self.event.id = Some(value.to_owned()),
            _ => {}
        }
        None
    }
}

/// Writes an event whose data is one line.
pub fn event(data: &str) -> String {
    format!("event: message\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = "\u{feff}: hi\r\n\r\nid: 7\r\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata\n\nretry: 3\n\ndata: é\r\r";
        let text = text.as_bytes();
        let whole = SseReader::new(100).push(text).expect("is small");
        let some = |data: &str, id: Option<&str>| SseEvent { data: data.to_owned(), id: id.map(str::to_owned) };
        assert_eq!(whole, [some("{\"a\":\n1}", Some("7")), some("", None), some("é", None)]);
        for size in 1..text.len() {
            let mut reader = SseReader::new(100);
            let cut = text.chunks(size).flat_map(|chunk| reader.push(chunk).expect("is small")).collect::<Vec<_>>();
            assert_eq!(cut, whole, "in pieces of {size}");
        }
        assert_eq!(SseReader::new(100).push(event("x").as_bytes()).expect("is small"), [some("x", None)]);
    }

    #[test]
    fn an_id_of_any_length_is_kept_for_each_stream() {
        let long = format!("id: {}\ndata: x\n\n", "z".repeat(ID_BYTES_MAX + 1));
        let events = SseReader::new(1 << 20).push(long.as_bytes()).expect("is small");
        assert_eq!(events, [SseEvent { data: "x".to_owned(), id: None }]);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut reader = SseReader::new(8);
        assert_eq!(reader.push(b"data: 12345678901"), Err(TooLarge(8)));
    }
}

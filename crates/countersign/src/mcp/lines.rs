//! Lines of bounded length from a stream of bytes.

use super::buffers::{Full, Held};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// How much is read at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// Reads lines.
pub struct Lines<R> {
    reader: BufReader<R>,
    bytes_max: usize,
}

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Text(String),
    /// Not UTF-8.
    NotText,
    /// Longer than allowed; the stream stands in the middle of it.
    TooLong,
    /// There is no room for it; the stream stands in the middle of it.
    NoRoom(Full),
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads lines of at most so many bytes.
    pub fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader: BufReader::with_capacity(BUFFER_BYTES, reader), bytes_max }
    }

    /// The next line; `None` at the end. Bytes after the last line end are a line too. What there is of the line is held meanwhile.
    pub async fn next(&mut self, held: &mut Held) -> std::io::Result<Option<Line>> {
        let mut line = Vec::new();
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok((!line.is_empty()).then(|| text(line)));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(chunk.len());
            if let Err(full) = held.grow_to(line.len() + taken) {
                return Ok(Some(Line::NoRoom(full)));
            }
            line.extend_from_slice(chunk.get(..taken).unwrap_or_default());
            self.reader.consume(end.map_or(taken, |end| end + 1));
            if line.len() > self.bytes_max {
                return Ok(Some(Line::TooLong));
            }
            if end.is_some() {
                return Ok(Some(text(line)));
            }
        }
    }
}

fn text(line: Vec<u8>) -> Line {
    String::from_utf8(line).map_or(Line::NotText, Line::Text)
}

#[cfg(test)]
mod tests {
    use super::super::buffers::Buffers;
    use super::*;

    #[tokio::test]
    async fn lines_are_whole_and_bounded() {
        let mut lines = Lines::new(b"one\n\n\xff\ntail".as_slice(), 8);
        let mut all = Vec::new();
        let buffers = Buffers::new(1 << 10);
        while let Some(line) = lines.next(&mut buffers.nothing()).await.expect("reads") {
            all.push(line);
        }
        let text = |text: &str| Line::Text(text.to_owned());
        assert_eq!(all, [text("one"), text(""), Line::NotText, text("tail")]);
        let first = async |text: &[u8], held: &mut Held| Lines::new(text, 8).next(held).await.expect("reads");
        assert_eq!(first(b"123456789\n", &mut buffers.nothing()).await, Some(Line::TooLong));
        let mut held = buffers.nothing();
        assert_eq!(first(b"1234567\n", &mut held).await, Some(text("1234567")));
        assert_eq!(held.bytes(), 7);
        let first = first(b"1234567\n", &mut Buffers::new(4).nothing()).await;
        assert!(matches!(first, Some(Line::NoRoom(_))), "{first:?}");
    }
}

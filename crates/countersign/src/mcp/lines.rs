//! Lines of bounded length from a stream of bytes.

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
    /// Text.
    Text(String),
    /// Not UTF-8.
    NotText,
    /// Longer than allowed; the stream stands in the middle of it.
    TooLong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads lines of at most so many bytes.
    pub fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader: BufReader::with_capacity(BUFFER_BYTES, reader), bytes_max }
    }

    /// The next line; `None` at the end. Bytes after the last line end are a line too.
    pub async fn next(&mut self) -> std::io::Result<Option<Line>> {
        let mut line = Vec::new();
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok((!line.is_empty()).then(|| text(line)));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(chunk.len());
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
    use super::*;

    #[tokio::test]
    async fn lines_are_whole_and_bounded() {
        let mut lines = Lines::new(b"one\n\n\xff\ntail".as_slice(), 8);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.expect("reads") {
            all.push(line);
        }
        let text = |text: &str| Line::Text(text.to_owned());
        assert_eq!(all, [text("one"), text(""), Line::NotText, text("tail")]);
        assert_eq!(Lines::new(b"123456789\n".as_slice(), 8).next().await.expect("reads"), Some(Line::TooLong));
    }
}

//! Errors that say what to do: the cause and the hint are separate from where they are made, and only the edge puts them together.

use std::error::Error;
use std::fmt;

/// A cause with a hint.
#[derive(Debug)]
pub struct Hinted {
    message: String,
    hint: String,
    source: Option<anyhow::Error>,
}

impl Hinted {
    /// An error that follows from no other.
    pub fn new(message: String, hint: String) -> Self {
        Self { message, hint, source: None }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(self.hint.clone())
    }
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Hinted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// A cause and a hint, each with its arguments: `hinted!("cannot read {file}"; "name a file that is there")`.
macro_rules! hinted {
    ($message:literal $(, $of:expr)*; $hint:literal $(, $for:expr)* $(,)?) => {
        $crate::hinted::Hinted::new(format!($message $(, $of)*), format!($hint $(, $for)*))
    };
}

/// Returns with such an error.
macro_rules! bail_hinted {
    ($($all:tt)*) => { return Err($crate::hinted::hinted!($($all)*).into()) };
}

pub(crate) use {bail_hinted, hinted};

/// Puts a cause with a hint over another error.
pub trait OrHinted<T> {
    fn or_hinted(self, hinted: impl FnOnce() -> Hinted) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrHinted<T> for Result<T, E> {
    fn or_hinted(self, hinted: impl FnOnce() -> Hinted) -> anyhow::Result<T> {
        self.map_err(|source| Hinted { source: Some(source.into()), ..hinted() }.into())
    }
}

impl<T> OrHinted<T> for Option<T> {
    fn or_hinted(self, hinted: impl FnOnce() -> Hinted) -> anyhow::Result<T> {
        self.ok_or_else(|| hinted().into())
    }
}

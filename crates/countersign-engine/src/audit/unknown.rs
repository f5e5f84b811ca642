//! What an audit cannot know, because a payload is erased.

/// What is not known of an erased entry, and would have to be to judge another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// The entry itself: its own payload is erased.
    Payload,
    /// The value of a fact that it wrote, until the next write that can be read.
    Value,
    /// Since when an attribute that it wrote was as it was.
    Date,
    /// That a source confirmed a fact.
    Confirmation,
    /// What it charged to budgets.
    Charges,
    /// The action, effect, claim or feed that it began.
    Beginning,
    /// Which facts were fenced by what it put under way.
    Fences,
}

impl Unknown {
    /// For people: what the entry that is not known held.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Payload => "its own payload",
            Self::Value => "the value of a fact that it rests on",
            Self::Date => "since when a fact that it rests on was so",
            Self::Confirmation => "when a fact that it rests on was confirmed",
            Self::Charges => "what was charged to a budget before it",
            Self::Beginning => "what it goes on with",
            Self::Fences => "what was fenced at the time",
        }
    }
}

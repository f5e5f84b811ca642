//! One pass over a text that tells which of the other passes could find anything in it.

/// What a text is made of, by number.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Profile {
    /// Something beside letters, digits, signs and spaces of ASCII.
    pub is_odd: bool,
    pub digits: usize,
    /// The longest run of characters that base64 has.
    pub run_max: usize,
    /// `%`, `&#` and backslashes: what begins an escape.
    pub percents: usize,
    pub entities: usize,
    pub backslashes: usize,
    /// The most letters and digits in a row that stand alone.
    pub singles: usize,
    /// The most groups of two in a row.
    pub pairs: usize,
    /// Digits with a letter on each side.
    pub leet: usize,
}

const SPACE: u8 = 0;
const SIGN: u8 = 1;
const LETTER: u8 = 2;
const DIGIT: u8 = 3;
/// Signs that base64 has.
const JOINT: u8 = 4;
const PERCENT: u8 = 5;
const BACKSLASH: u8 = 6;
const HASH: u8 = 7;
const ODD: u8 = 8;

const fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' => LETTER,
        b'0'..=b'9' => DIGIT,
        b'+' | b'/' | b'-' | b'_' => JOINT,
        b'%' => PERCENT,
        b'\\' => BACKSLASH,
        b'#' => HASH,
        b' ' | b'\t' | b'\n' | b'\r' => SPACE,
        b'!'..=b'~' => SIGN,
        _ => ODD,
    }
}

const CLASSES: [u8; 256] = {
    let mut classes = [ODD; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::indexing_slicing, reason = "the loop ends before the length of the table")]
        {
            classes[byte] = class(byte as u8);
        }
        byte += 1;
    }
    classes
};

impl Profile {
    pub fn of(text: &str) -> Self {
        let mut profile = Self::default();
        let (mut run, mut word) = (0_usize, 0_usize);
        // How many words of one and of two characters came in a row.
        let (mut singles, mut pairs) = (0_usize, 0_usize);
        let (mut before, mut before_class, mut first_class) = (0_u8, SPACE, SPACE);
        for byte in text.bytes() {
            let class = CLASSES.get(usize::from(byte)).copied().unwrap_or(ODD);
            if matches!(class, LETTER | DIGIT) {
                (run, word) = (run.saturating_add(1), word.saturating_add(1));
                profile.digits = profile.digits.saturating_add(usize::from(class == DIGIT));
                let is_leet = class == LETTER && before_class == DIGIT && first_class == LETTER;
                profile.leet = profile.leet.saturating_add(usize::from(is_leet));
            } else {
                match word {
                    0 => {}
                    1 => (singles, pairs) = (singles.saturating_add(1), 0),
                    2 => (singles, pairs) = (0, pairs.saturating_add(1)),
                    _ => (singles, pairs) = (0, 0),
                }
                (profile.singles, profile.pairs) = (profile.singles.max(singles), profile.pairs.max(pairs));
                word = 0;
                if class == JOINT {
                    run = run.saturating_add(1);
                } else {
                    profile.run_max = profile.run_max.max(run);
                    run = 0;
                    profile.sign(class, before);
                }
            }
            (before, before_class, first_class) = (byte, class, before_class);
        }
        profile.run_max = profile.run_max.max(run);
        profile.singles = profile.singles.max(singles.saturating_add(usize::from(word == 1)));
        profile.pairs = profile.pairs.max(pairs.saturating_add(usize::from(word == 2)));
        profile
    }

    fn sign(&mut self, class: u8, before: u8) {
        let count = match class {
            ODD => {
                self.is_odd = true;
                return;
            }
            PERCENT => &mut self.percents,
            BACKSLASH => &mut self.backslashes,
            HASH if before == b'&' => &mut self.entities,
            _ => return,
        };
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_counted_in_one_pass() {
        let profile = Profile::of("a b c-d %41 &#65; \\u0041 h3ll0w 12 34 ![x](y) \u{e9}");
        let expected = Profile {
            is_odd: true,
            digits: 14,
            run_max: 6,
            percents: 1,
            entities: 1,
            backslashes: 1,
            singles: 4,
            pairs: 2,
            leet: 2,
        };
        assert_eq!(profile, expected);
        assert!(!Profile::of("plain ASCII.\r\n\tAll of it ~").is_odd);
        assert!(Profile::of("\u{1b}").is_odd && Profile::of("\u{7f}").is_odd);
        assert_eq!((Profile::of("x y z").singles, Profile::of("ab cd").pairs), (3, 2));
    }
}

//! What has changed between two texts, line by line.

/// Beyond so many comparisons, the old text is shown whole and then the new one.
const COMPARED_MAX: usize = 4 << 20;

/// The lines of both, each with `-` if it is gone, `+` if it is new, and a space otherwise.
pub(super) fn changes(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let kept = kept(&old, &new);
    let mut shown = Vec::new();
    let (mut gone, mut added) = (old.iter(), new.iter());
    for line in &kept {
        shown.extend(gone.by_ref().take_while(|gone| *gone != line).map(|line| format!("- {line}")));
        shown.extend(added.by_ref().take_while(|added| *added != line).map(|line| format!("+ {line}")));
        shown.push(format!("  {line}"));
    }
    shown.extend(gone.map(|line| format!("- {line}")));
    shown.extend(added.map(|line| format!("+ {line}")));
    shown
}

/// The longest list of lines that stands in both, in this order.
fn kept<'a>(old: &[&'a str], new: &[&str]) -> Vec<&'a str> {
    if old.len().saturating_mul(new.len()) > COMPARED_MAX {
        return Vec::new();
    }
    // One row for each line of the old text: how many lines are kept of what comes from there on.
    let mut rows = vec![vec![0_usize; new.len() + 1]];
    for line in old.iter().rev() {
        let below = rows.last().cloned().unwrap_or_default();
        let mut row = vec![0; new.len() + 1];
        for (at, other) in new.iter().enumerate().rev() {
            let get = |row: &[usize], at: usize| row.get(at).copied().unwrap_or_default();
            let best = if line == other { get(&below, at + 1) + 1 } else { get(&below, at).max(get(&row, at + 1)) };
            if let Some(cell) = row.get_mut(at) {
                *cell = best;
            }
        }
        rows.push(row);
    }
    rows.reverse();
    let cell = |row: usize, at: usize| rows.get(row).and_then(|row| row.get(at)).copied().unwrap_or_default();
    let (mut row, mut at, mut kept) = (0, 0, Vec::new());
    while let (Some(line), Some(other)) = (old.get(row), new.get(at)) {
        if line == other {
            kept.push(*line);
            (row, at) = (row + 1, at + 1);
        } else if cell(row + 1, at) >= cell(row, at + 1) {
            row += 1;
        } else {
            at += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_and_what_is_new_is_marked_and_nothing_else() {
        assert_eq!(changes("a\nb\nc\nd", "a\nx\nc\nd\ne"), ["  a", "- b", "+ x", "  c", "  d", "+ e"]);
        assert_eq!(changes("a\na\nb", "a\nb\nb"), ["  a", "- a", "  b", "+ b"]);
        assert_eq!(changes("", "a"), ["+ a"]);
        let (old, new) = ("x\n".repeat(3000), "x\n".repeat(3001));
        assert_eq!(changes(&old, &new).len(), 6001, "too long to be compared");
    }
}

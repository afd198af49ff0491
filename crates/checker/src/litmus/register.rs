//! The registers of x86 and the four widths of each.

use super::program::Width;

/// The 64-bit name of a register and the width that its name means.
pub(crate) fn register(name: &str) -> Option<(String, Width)> {
    // Longer words are no registers, and need not be looked at.
    if name.len() > 4 {
        return None;
    }
    let name = name.to_ascii_uppercase();
    numbered(&name).or_else(|| named(&name))
}

/// The width that the name of a register means.
pub(crate) fn width_named(name: &str) -> Option<Width> {
    register(name).map(|(_, width)| width)
}

/// `R8D` and so on.
fn numbered(name: &str) -> Option<(String, Width)> {
    let digits = name.strip_prefix('R')?;
    let (digits, width) = match digits.strip_suffix(['D', 'W', 'B']) {
        Some(digits) if name.ends_with('D') => (digits, Width::Word),
        Some(digits) if name.ends_with('W') => (digits, Width::Half),
        Some(digits) => (digits, Width::Byte),
        None => (digits, Width::Long),
    };
    let number = digits.parse::<u8>().ok().filter(|number| (8..16).contains(number))?;
    Some((format!("R{number}"), width))
}

/// `RAX`, `EAX`, `AX`, `AL`, and the same of the others.
fn named(name: &str) -> Option<(String, Width)> {
    const STEMS: [&str; 8] = ["AX", "BX", "CX", "DX", "SI", "DI", "SP", "BP"];
    let stem = |stem: &str| STEMS.contains(&stem).then(|| format!("R{stem}"));
    if let Some(rest) = name.strip_prefix('R') {
        return stem(rest).map(|name| (name, Width::Long));
    }
    if let Some(rest) = name.strip_prefix('E') {
        return stem(rest).map(|name| (name, Width::Word));
    }
    if let Some(name) = stem(name) {
        return Some((name, Width::Half));
    }
    let low = name.strip_suffix('L')?;
    let full = if low.len() == 1 { format!("{low}X") } else { low.to_owned() };
    stem(&full).map(|name| (name, Width::Byte))
}

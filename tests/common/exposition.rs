//! A strict reader of Prometheus' text exposition format, version 0.0.4: it takes nothing that the format leaves to luck.

use std::collections::{BTreeMap, BTreeSet};

/// A sample: the family's name, the labels, the value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// Reads a page.
///
/// Each family begins with its help and its type, comes once, and has samples, each with labels of its own. Counters end in
/// `_total` and are not below zero.
pub(crate) fn parse(text: &str) -> Result<Vec<Sample>, String> {
    let lines = text.strip_suffix('\n').ok_or("the last line has no end")?;
    let mut families = BTreeSet::new();
    let (mut help, mut family): (Option<&str>, Option<(&str, &str, usize)>) = (None, None);
    let mut samples: Vec<Sample> = Vec::new();
    for line in lines.split('\n') {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').ok_or_else(|| format!("no help: {line}"))?;
            if !is_name(name, true) || text.is_empty() || !families.insert(name) {
                return Err(format!("a family once, by its name, with a text: {line}"));
            }
            if family.is_some_and(|(.., count)| count == 0) || help.is_some() {
                return Err(format!("the family before has no samples: {line}"));
            }
            help = Some(name);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| format!("no type: {line}"))?;
            if help.take() != Some(name) || !matches!(kind, "counter" | "gauge") {
                return Err(format!("a type that fits no help: {line}"));
            }
            if (kind == "counter") != name.ends_with("_total") {
                return Err(format!("counters end in _total, and nothing else does: {line}"));
            }
            family = Some((name, kind, 0));
        } else {
            let sample = sample(line).ok_or_else(|| format!("no sample: {line}"))?;
            let Some((name, kind, count)) = &mut family else { return Err(format!("no family: {line}")) };
            if help.is_some() || sample.name != *name || *kind == "counter" && sample.value < 0.0 {
                return Err(format!("no sample of {kind} {name}: {line}"));
            }
            *count += 1;
            if samples.iter().any(|other| (&other.name, &other.labels) == (&sample.name, &sample.labels)) {
                return Err(format!("twice: {line}"));
            }
            samples.push(sample);
        }
    }
    if help.is_some() || family.is_none_or(|(.., count)| count == 0) {
        return Err("the last family has no samples".into());
    }
    Ok(samples)
}

fn is_name(name: &str, metric: bool) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || metric && byte == b':';
    name.bytes().next().is_some_and(letter) && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (label, behind) = inside.split_once("=\"")?;
            let (value, behind) = quoted(behind)?;
            if !is_name(label, false) || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            match behind.strip_prefix(',') {
                Some(more) => inside = more,
                None => {
                    rest = behind.strip_prefix('}')?;
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ')?;
    let value = if value.contains(' ') { None } else { value.parse::<f64>().ok() }?;
    (is_name(name, true) && value.is_finite()).then(|| Sample { name: name.to_owned(), labels, value })
}

/// A label's value up to its closing quote, and what is behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    loop {
        match letters.next()?.1 {
            '"' => return Some((value, letters.as_str())),
            '\\' => value.push(match letters.next()?.1 {
                '\\' => '\\',
                '"' => '"',
                'n' => '\n',
                _ => return None,
            }),
            letter if letter.is_control() => return None,
            letter => value.push(letter),
        }
    }
}

#[test]
fn what_is_no_exposition_is_refused() {
    let family = "# HELP a_total A.\n# TYPE a_total counter\n";
    let read = |samples: &str| parse(&format!("{family}{samples}"));
    assert_eq!(read("a_total{b=\"c\\\"\\\\\\n\"} 1.5\n").unwrap()[0].labels["b"], "c\"\\\n");
    for wrong in [
        "",
        "a_total 1",
        "a_total{b=\"c} 1\n",
        "a_total{b=\"\\x\"} 1\n",
        "a_total{1=\"c\"} 1\n",
        "a_total{} 1\n",
        "a_total 1 2\n",
        "a_total -1\n",
        "b_total 1\n",
        "a_total 1\na_total 2\n",
        "a_total NaN\n",
        "a_total  1\n",
        "a_total{b=\"c\",b=\"d\"} 1\n",
        "a_total 1\n# HELP a_total A.\n# TYPE a_total counter\na_total{b=\"c\"} 1\n",
        "a_total 1\n\n",
    ] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
    assert!(parse("# HELP a A.\n# TYPE a counter\na 1\n").is_err());
    assert!(parse("a 1\n").is_err());
}

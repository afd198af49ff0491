//! JUnit's XML, which continuous integration shows as tests.

use super::ratio::{Ratio, Verdict};
use super::{Failed, Gated, Outcome, grown};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use report::text;
use std::io;

/// How a test case came out.
enum Case {
    Passed,
    Failed { message: String, details: String },
    Skipped(String),
    Error { message: String, output: String },
}

/// The file: one suite, with a case for each ratio, and one for the run that failed.
pub(super) fn xml(gated: &Gated) -> String {
    let mut cases: Vec<(String, Case)> =
        gated.ratios.iter().map(|ratio| (ratio.name(), case(gated, ratio))).collect();
    if let Some(Failed { what, why, output_tail }) = &gated.failed {
        let error = Case::Error { message: why.clone(), output: output_tail.clone() };
        cases.push((what.clone(), error));
    }
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    write(&mut writer, &cases).expect("memory takes what is written");
    String::from_utf8(writer.into_inner()).expect("only strings were written") + "\n"
}

fn case(gated: &Gated, ratio: &Ratio) -> Case {
    let Some(verdict) = gated.verdict(ratio) else {
        return match gated.outcome() {
            // The failed run is an error of its own.
            Outcome::Failed => Case::Skipped(gated.conclusion()),
            // Another ratio is worse, for which the job fails.
            Outcome::Worse => Case::Skipped(format!("Not judged: {}", gated.disturbed())),
            // The job fails, so that no report of it may look as if all were well.
            _ => Case::Error { message: gated.conclusion(), output: String::new() },
        };
    };
    let range = ratio.times_base.map(|likely| {
        let [low, median, high] = [likely.range.low, likely.range.median, likely.range.high].map(text::short);
        format!("{median} ({low} to {high}) times as good as base")
    });
    match (verdict, range) {
        (Verdict::Pass, _) => Case::Passed,
        (Verdict::Worse, range) => Case::Failed {
            message: range.unwrap_or_default(),
            details: gated.grown.as_deref().map_or_else(String::new, grown::lines),
        },
        (Verdict::CannotTell, Some(range)) => Case::Skipped(format!("cannot tell: {range}")),
        (Verdict::CannotTell, None) => Case::Skipped(
            ratio.missing().unwrap_or_else(|| "cannot tell: a figure that is divided by is 0".into()),
        ),
    }
}

fn write(writer: &mut Writer<Vec<u8>>, cases: &[(String, Case)]) -> io::Result<()> {
    let count = |of: fn(&Case) -> bool| cases.iter().filter(|(_, case)| of(case)).count().to_string();
    let [all, failures, errors, skipped] = [
        count(|_| true),
        count(|case| matches!(case, Case::Failed { .. })),
        count(|case| matches!(case, Case::Error { .. })),
        count(|case| matches!(case, Case::Skipped(_))),
    ];
    let counts = [
        ("name", "contend gate"),
        ("tests", &all),
        ("failures", &failures),
        ("errors", &errors),
        ("skipped", &skipped),
    ];
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    writer.create_element("testsuites").with_attributes(counts).write_inner_content(|writer| {
        writer.create_element("testsuite").with_attributes(counts).write_inner_content(|writer| {
            cases.iter().try_for_each(|(name, case)| write_case(writer, name, case))
        })?;
        Ok(())
    })?;
    Ok(())
}

/// Names and outputs are the program's. XML has no way to hold most control characters, so that they become escapes, as on a terminal.
fn write_case(writer: &mut Writer<Vec<u8>>, name: &str, case: &Case) -> io::Result<()> {
    let name = text::printable(name);
    let element =
        writer.create_element("testcase").with_attributes([("classname", "contend.gate"), ("name", &*name)]);
    let (tag, message, output) = match case {
        Case::Passed => return element.write_empty().map(drop),
        Case::Failed { message, details } => ("failure", message, details.as_str()),
        Case::Skipped(message) => ("skipped", message, ""),
        Case::Error { message, output } => ("error", message, output.as_str()),
    };
    element.write_inner_content(|writer| {
        let message = text::printable(message);
        let element = writer.create_element(tag).with_attribute(("message", &*message));
        if output.is_empty() {
            element.write_empty()?;
        } else {
            let lines: Vec<_> = output.lines().map(text::printable).collect();
            element.write_text_content(BytesText::new(&lines.join("\n")))?;
        }
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::super::gated::tests::{gated, grown_lock, ratio};
    use super::*;
    use quick_xml::Reader;
    use quick_xml::escape::unescape;
    use session::noise::Noise;

    /// Elements with their attributes, in order; fails on what is not well-formed.
    fn elements(xml: &str) -> Vec<(String, Vec<(String, String)>)> {
        let mut reader = Reader::from_str(xml);
        let mut found = Vec::new();
        loop {
            match reader.read_event().expect("well-formed") {
                Event::Start(start) | Event::Empty(start) => {
                    let attributes = start.attributes().map(|attribute| {
                        let attribute = attribute.expect("an attribute");
                        let value = unescape(&attribute.value).expect("escaped").into_owned();
                        (attribute.key.as_ref().to_owned(), value)
                    });
                    found.push((start.name().as_ref().to_owned(), attributes.collect()));
                }
                Event::Eof => return found,
                _ => {}
            }
        }
    }

    const HOSTILE: &str = "Cache<\"a\", 'b'>::get & ]]> \u{1b}[31m\0\n\u{ffff}<!--";

    #[test]
    fn names_that_are_no_xml_are_escaped() {
        let mut gated = gated(vec![
            ratio(Kind::HeldShare, Some(HOSTILE), [0.2, 0.3]),
            ratio(Kind::Scaling, None, [3.0, 3.0]),
            ratio(Kind::Scaling, None, [3.0, 2.86]),
        ]);
        gated.grown = Some(vec![grown_lock(HOSTILE)]);
        let xml = gated.junit();
        assert!(
            xml.contains("waited 1.20 ms → 97.0 ms") && xml.contains("behind slow_rebalance (cache.cpp:88)"),
            "a failure says which lock it was: {xml}"
        );
        assert!(xml.chars().all(|letter| letter == '\n' || !letter.is_control()), "{xml}");
        let found = elements(&xml);
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["testsuites", "testsuite", "testcase", "failure", "testcase", "testcase", "skipped"]
        );
        assert_eq!(
            found[0].1[1..].iter().map(|(_, count)| count.as_str()).collect::<Vec<_>>(),
            ["3", "1", "0", "1"]
        );
        let name = &found[2].1[1].1;
        assert!(name.contains(r#"Cache<"a", 'b'>::get & ]]> \u{1b}[31m"#), "{name}");
        assert!(found[3].1[0].1.contains("times as good as base"), "{:?}", found[3]);

        let (what, why) = (HOSTILE.to_owned(), "exit code 7".to_owned());
        gated.failed = Some(Failed { what, why, output_tail: HOSTILE.to_owned() });
        let found = elements(&gated.junit());
        let of = |tag: &str| found.iter().filter(|(name, _)| name == tag).count();
        assert_eq!((of("skipped"), of("failure"), of("error")), (3, 0, 1), "a failure judges nothing");
    }

    #[test]
    fn a_gate_that_refuses_is_an_error_and_looks_like_no_pass() {
        let busy = Noise { others_share: Some(0.5), ..Noise::default() };
        let ratios =
            || vec![ratio(Kind::Scaling, None, [3.0, 3.0]), ratio(Kind::ContendedShare, None, [0.1, 0.1])];
        let refused =
            [Gated { noise: busy, ..gated(ratios()) }, Gated { cut_short: true, ..gated(ratios()) }];
        for gated in refused {
            let found = elements(&gated.junit());
            let errors: Vec<_> = found.iter().filter(|(name, _)| name == "error").collect();
            assert_eq!(errors.len(), 2, "{found:?}");
            assert!(errors[0].1[0].1.starts_with("Not judged"), "{errors:?}");
            let counts: Vec<_> = found[0].1[1..].iter().map(|(_, count)| count.as_str()).collect();
            assert_eq!(counts, ["2", "0", "2", "0"], "tests, failures, errors, skipped");
        }
    }
}

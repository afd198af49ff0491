//! A file of measured values, judged against the published claims.

use super::{Planned, contention, faults_of, fserver, planned};
use crate::Reproduction;
use crate::verdict::{CORES_WITHIN, FACTOR_WITHIN, Verdict};
use anyhow::Context as _;
use report::{Cell, Column, Table};
use session::ensure_usage;
use std::collections::BTreeMap;
use std::io::Read;

/// The columns of the file, as its first line has them.
const COLUMNS: [&str; 4] = ["benchmark", "lock", "claim", "value"];
/// No file of measured values is longer, bytes.
const MOST_BYTES: u64 = 1 << 20;

/// A line of the file.
#[derive(Debug, serde::Deserialize)]
struct Measured {
    benchmark: String,
    lock: String,
    claim: String,
    value: String,
}

impl Measured {
    fn names(&self) -> [&str; 3] {
        [&self.benchmark, &self.lock, &self.claim]
    }
}

/// The fields of one line without the blanks around them.
fn fields(text: &[u8]) -> Result<csv::StringRecord, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).trim(csv::Trim::All).from_reader(text);
    let mut fields = csv::StringRecord::new();
    match reader.read_record(&mut fields) {
        Ok(_) => Ok(fields),
        Err(_) => Err("it is no UTF-8".into()),
    }
}

/// A line under these columns, or what is wrong with it.
fn measured(text: &[u8], columns: &csv::StringRecord) -> Result<Measured, String> {
    let fields = fields(text)?;
    if fields.len() != columns.len() {
        return Err(format!("it has {} fields; a name with a comma stands in quotes", fields.len()));
    }
    fields.deserialize(Some(columns)).map_err(|error| error.to_string())
}

/// Reads the lines, with their numbers, below the one that names the columns. Empty lines and comments do not count.
fn lines(source: impl Read) -> anyhow::Result<Vec<(u64, Measured)>> {
    let mut bytes = Vec::new();
    source.take(MOST_BYTES + 1).read_to_end(&mut bytes).context("cannot read it")?;
    ensure_usage!(
        bytes.len() as u64 <= MOST_BYTES,
        "longer than {} MiB: no file of measured values, which has one line for each claim",
        MOST_BYTES >> 20
    );
    let names = COLUMNS.join(",");
    let is_read = |text: &[u8]| !text.trim_ascii().is_empty() && !text.starts_with(b"#");
    let all = (1..).zip(bytes.split(|&byte| matches!(byte, b'\n' | b'\r')));
    let mut read = all.filter(|(_, text)| is_read(text));
    let columns = read.next().and_then(|(_, text)| fields(text).ok()).unwrap_or_default();
    let has_once = |name: &&str| columns.iter().filter(|column| column == name).count() == 1;
    ensure_usage!(COLUMNS.iter().all(has_once), "the first line has to name the columns {names}");
    let mut lines = Vec::new();
    for (line, text) in read {
        let measured = measured(text, &columns);
        let wrong = measured.as_ref().err().cloned().unwrap_or_default();
        ensure_usage!(measured.is_ok(), "line {line}: expected {names}: {wrong}");
        lines.extend(measured.ok().map(|measured| (line, measured)));
    }
    ensure_usage!(!lines.is_empty(), "there is no value in it: write a line {names} for each claim");
    Ok(lines)
}

/// The verdict on a measured value, with the value if it is a number.
fn judge(planned: &Planned, value: &str, line: u64) -> anyhow::Result<(Verdict, Option<f64>)> {
    let claim = &planned.claim;
    let what = format!("line {line}: {} {}", claim.benchmark, claim.claim);
    if let Ok(holds) = value.parse::<bool>() {
        ensure_usage!(claim.number().is_none(), "{what}: a number is published, not {value}");
        return Ok((Verdict::of(holds), None));
    }
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    ensure_usage!(number.is_some(), "{what}: `{value}` is no value: write a positive number, true or false");
    let verdict = number.and_then(|number| planned.verdict(number));
    ensure_usage!(verdict.is_some(), "{what} is an ordering: write true or false instead of {value}");
    Ok((verdict.unwrap_or(Verdict::Missed), number))
}

/// Judges a file of measured values, in the form that [`super::plan`] describes.
///
/// # Errors
///
/// A file that cannot be read; a usage error for one that is no such table or too long, a claim that is not in the plan or stands there
/// twice, or a value of the wrong kind. It names the line.
pub fn against(source: impl Read) -> anyhow::Result<Reproduction> {
    let planned = planned()?;
    let mut table = measured_table();
    let (mut met, mut rows) = (0, 0);
    let mut faults = Vec::new();
    let mut seen = BTreeMap::new();
    let lines = lines(source)?;
    for (line, measured) in &lines {
        let names = measured.names();
        let found = planned
            .iter()
            .find(|Planned { claim, .. }| [&*claim.benchmark, &*claim.lock, &*claim.claim] == names);
        let named = names.map(super::quoted).join(",");
        ensure_usage!(
            found.is_some(),
            "line {line}: no published claim {named}: `contend reproduce --native-plan` lists them"
        );
        let first = *seen.entry(names).or_insert(*line);
        ensure_usage!(
            first == *line,
            "line {line}: {named} stands in line {first} already: leave one of them"
        );
        let Some(planned) = found else { continue };
        let (verdict, number) = judge(planned, &measured.value, *line)?;
        let claim = &planned.claim;
        rows += 1;
        met += usize::from(verdict == Verdict::Met);
        faults.extend_from_slice(faults_of(claim));
        let [benchmark, lock, name] = names;
        table.row([
            Cell::from(benchmark),
            Cell::from(lock),
            Cell::from(name),
            Cell::from(&*claim.value),
            Cell::from(&*measured.value),
            Cell::from(number.zip(claim.number()).map(|(number, published)| number / published)),
            Cell::from(if number.is_some_and(|number| planned.is_as_printed(number)) { "yes" } else { "" }),
            Cell::from(verdict),
        ]);
    }
    Ok(Reproduction {
        variant: None,
        title: "Measured values against the published claims",
        table,
        plots: Vec::new(),
        notes: vec![format!(
            "{met} of {rows} are met: numbers of cores within {:.0} %, the contention tables within {:.0} %, AIM7's jobs with back-off or MCS within a factor of {}, other \
             numbers within {FACTOR_WITHIN}, changes also in the logarithm; a bound if it holds.",
            100.0 * CORES_WITHIN,
            100.0 * contention::MEDIAN_GOAL,
            fserver::WITHIN
        )],
        faults,
        scores: Vec::new(),
    })
}

fn measured_table() -> Table {
    Table::new([
        Column::text("benchmark", "benchmark"),
        Column::text("lock", "lock"),
        Column::text("claim", "claim"),
        Column::text("published", "published"),
        Column::text("measured", "measured"),
        Column::number("ratio", "measured / published"),
        Column::text("as_printed", "as printed"),
        Column::text("verdict", "verdict").kept(),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::{plan, quoted};
    use super::*;
    use crate::published::{Claim, Fault};
    use session::usage::UsageError;

    const HEADER: &str = "benchmark,lock,claim,value";

    fn judged(lines: &str) -> anyhow::Result<serde_json::Value> {
        Ok(against(format!("{HEADER}\n{lines}\n").as_bytes())?.table.json())
    }

    fn verdict(line: &str) -> serde_json::Value {
        judged(line).unwrap()[0]["verdict"].clone()
    }

    /// What is refused as wrong usage.
    fn refused(text: &str) -> String {
        let error = against(text.as_bytes()).expect_err(text);
        assert!(error.is::<UsageError>(), "{error:#}");
        error.to_string()
    }

    /// A value with which a claim is met: the published one, or one within the bound.
    fn value_that_meets(claim: &Claim) -> String {
        match claim.number() {
            None => "true".into(),
            Some(bound) if claim.claim.ends_with("_below") => (0.5 * bound).to_string(),
            Some(bound) if claim.claim.ends_with("_more_than") => (2.0 * bound).to_string(),
            Some(_) => claim.value.clone(),
        }
    }

    #[test]
    fn every_planned_claim_has_names_of_its_own_and_can_be_judged() {
        let planned = planned().unwrap();
        let line = |Planned { claim, .. }: &Planned| {
            let names = [&claim.benchmark, &claim.lock, &claim.claim].map(|name| quoted(name));
            format!("{},{}", names.join(","), value_that_meets(claim))
        };
        let json = judged(&planned.iter().map(line).collect::<Vec<_>>().join("\n")).unwrap();
        let rows = json.as_array().unwrap();
        assert_eq!(rows.len(), planned.len());
        let missed =
            rows.iter().filter(|row| !["met", "no change"].contains(&row["verdict"].as_str().unwrap()));
        assert_eq!(missed.count(), 0, "the published values are as published");
    }

    #[test]
    fn names_with_a_comma_are_planned_as_they_can_be_copied() {
        let json = plan().unwrap().table.json();
        let rows = json.as_array().unwrap();
        let with_comma = rows.iter().filter(|row| row["benchmark"].as_str().unwrap().contains(','));
        let lines = with_comma.map(|row| {
            let names = ["benchmark", "lock", "claim"].map(|name| row[name].as_str().unwrap());
            format!("{},{}", names.join(","), row["published"].as_str().unwrap())
        });
        let lines = lines.collect::<Vec<_>>();
        assert!(lines[0].starts_with("\"AIM7 custom, early patch\","), "{lines:?}");
        assert_eq!(judged(&lines.join("\n")).unwrap().as_array().unwrap().len(), 2);
    }

    #[test]
    fn measured_values_are_judged_and_wrong_ones_refused() {
        assert_eq!(verdict("MEMPOP,ticket,peak_cores,9"), "met");
        assert_eq!(verdict("MEMPOP,ticket,peak_cores,6"), "missed");
        assert_eq!(verdict("PFIND,mcs_over_ticket,ordering_small_gain,false"), "missed");
        for wrong in [
            "MEMPOP,ticket,peak,9",
            "MEMPOP,ticket,peak_cores,true",
            "MEMPOP,ticket,peak_cores,much",
            "PFIND,mcs_over_ticket,ordering_small_gain,1.2",
            "MEMPOP,ticket,9",
            "MEMPOP,ticket,peak_throughput,4,7",
            "AIM7 new_dbase,back_off_over_ticket,throughput_ratio,0.1",
        ] {
            let error = refused(&format!("{HEADER}\n# a comment\n{wrong}\n"));
            assert!(error.starts_with("line 3: "), "{error}");
        }
    }

    #[test]
    fn a_bound_is_met_far_from_it_and_not_as_printed() {
        const BOUND: &str = "FIG9_400_CYCLES,ticket,most_speedup_below";
        assert_eq!(verdict(&format!("{BOUND},2")), "met");
        assert_eq!(verdict(&format!("{BOUND},10")), "missed");
        assert_eq!(judged(&format!("{BOUND},10")).unwrap()[0]["as_printed"], "");
    }

    #[test]
    fn tolerances_are_those_of_the_simulated_figures() {
        let contention = "CONTENTION within_socket,ticket,FF 1 2";
        assert_eq!(verdict(&format!("{contention},{}", 5_866_861.0 * 1.07)), "met");
        assert_eq!(verdict(&format!("{contention},{}", 5_866_861.0 * 1.09)), "missed");
        let aim7 = "KERNEL,mcs_files_lock,throughput_ratio";
        assert_eq!(verdict(&format!("{aim7},{}", 2.438 / 1.24)), "met");
        assert_eq!(verdict(&format!("{aim7},{}", 2.438 / 1.26)), "missed");
        assert_eq!(verdict(&format!("KERNEL,lockref,throughput_ratio,{}", 8.0 / 1.4)), "met");
    }

    #[test]
    fn a_claim_that_stands_there_twice_is_refused_with_both_lines() {
        let error = refused(&format!(
            "{HEADER}\nMEMPOP,ticket,peak_cores,9\nPFIND,ticket,peak_cores,14\nMEMPOP,ticket,peak_cores,6\n"
        ));
        assert!(error.contains("line 4: MEMPOP,ticket,peak_cores stands in line 2"), "{error}");
    }

    #[test]
    fn an_empty_file_a_header_alone_and_a_wrong_header_name_the_columns() {
        for text in
            ["", "\n", HEADER, "benchmark,lock,value\nMEMPOP,ticket,9\n", "MEMPOP,ticket,peak_cores,9\n"]
        {
            let error = refused(text);
            assert!(error.contains(HEADER), "{text:?}: {error}");
        }
    }

    #[test]
    fn blanks_around_fields_do_not_count() {
        let text = "benchmark, lock , claim,value\n MEMPOP , ticket,peak_cores , 9 \n";
        let judged = against(text.as_bytes()).unwrap();
        assert_eq!(judged.table.json()[0]["verdict"], "met");
        assert_eq!(judged.faults, [Fault(3)]);
    }

    #[test]
    fn a_file_that_is_too_long_and_one_that_is_no_text_are_refused() {
        let endless = std::io::repeat(b'#');
        let error = against(endless).expect_err("it has no end");
        assert!(error.is::<UsageError>() && error.to_string().contains("longer than 1 MiB"), "{error}");
        let text = [HEADER.as_bytes(), b"\nMEMPOP,ticket,peak_cores,\xff\n"].concat();
        let error = against(&*text).expect_err("it is no UTF-8");
        assert!(error.is::<UsageError>() && error.to_string().starts_with("line 2: "), "{error}");
    }
}

//! Each row of `collapse_claims.csv`, against the model.

use crate::Reproduction;
use crate::paper::{self, Benchmark, CORES, FITTED, Sections};
use crate::published::{self, Claim, Fault};
use crate::verdict::{self, CORES_WITHIN, FACTOR_WITHIN, MODEL, Score, Verdict};
use curve::{Curve, Series};
use model::{Handover, Variant, laws};
use report::{Cell, Column, Table};

/// What the model lacks where it misses a claim.
fn lacking(variant: Variant) -> &'static str {
    match variant {
        Variant::Growing => "a line that stays with a core for several acquisitions",
        _ => "a waiter's cost that grows with their number: with one c few waiters cost as much each as many",
    }
}

/// What the model says to a claim.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    /// A number, with the section of one core and as reported; `None` where the curve has no such point.
    Number { of_one_core: Option<f64>, as_reported: Option<f64> },
    /// Whether an ordering or a bound holds, likewise, and the number behind it.
    Holds { of_one_core: (bool, f64), as_reported: (bool, f64) },
    /// The model takes this row, it does not give it.
    Input,
    /// Something else is needed.
    Silent(&'static str),
}

/// Both curves of a benchmark under one choice of sections.
struct Pair {
    ticket: Curve,
    queue: Curve,
}

impl Pair {
    fn ratio_at_end(&self) -> f64 {
        at(&self.queue, CORES) / at(&self.ticket, CORES)
    }
}

fn at(curve: &Curve, cores: u32) -> f64 {
    curve.at(cores).map_or(f64::NAN, |point| point.value)
}

/// One benchmark's curves under both choices.
struct Computed {
    benchmark: Benchmark,
    of_one_core: Pair,
    as_reported: Pair,
}

struct Context {
    computed: Vec<Computed>,
    /// The highest speed-up of fig. 9's shortest sections.
    fig9_peak: f64,
    fig9_share: f64,
    /// Of a queue lock's hand-over, cycles.
    transfer: f64,
}

/// The model's curves under a variant, whose c is fitted, and a plot of each benchmark.
fn computed(claims: &[Claim], variant: Variant) -> anyhow::Result<(Context, Vec<Series>)> {
    let transfer = paper::number(claims, "INTERCORE", "cycles_per_operation_order_of")?;
    let ticket = Handover::Ticket { waiter_cost: paper::waiter_cost(variant)?.likely };
    let (computed, plots) = curves(ticket, Handover::Queue { transfer }, claims, variant)?;
    let fig9_share = paper::number(claims, "FIG9", "section_share")?;
    let section = paper::number(claims, "FIG9", "section_cycles_min")?;
    let fig9 = paper::lock(section / fig9_share - section, section, ticket, variant);
    let fig9_peak = fig9.curve("", 1..=CORES)?.peak().map_or(f64::NAN, |peak| peak.value);
    Ok((Context { computed, fig9_peak, fig9_share, transfer }, plots))
}

/// How many of the claims each variant meets, with its own c.
fn by_variant(claims: &[Claim]) -> anyhow::Result<String> {
    let each = Variant::ALL.map(|variant| -> anyhow::Result<String> {
        let (context, _) = computed(claims, variant)?;
        let mut tally = Tally::default();
        for claim in claims {
            let counted =
                answers(&context, claim).into_iter().filter(|(read_as, _)| *read_as != paper::NOT_COUNTED);
            counted.for_each(|(_, answer)| tally.count(&judge(claim, &answer).0));
        }
        let cost = paper::waiter_cost(variant)?.likely;
        Ok(format!("{} {} of {} (c = {cost:.3} cycles)", variant.form(), tally.met, tally.met + tally.missed))
    });
    Ok(each.into_iter().collect::<anyhow::Result<Vec<_>>>()?.join("; "))
}

pub(crate) fn reproduce(variant: Variant) -> anyhow::Result<Reproduction> {
    let claims = published::claims()?;
    let waiter = paper::waiter_cost(variant)?;
    let (context, plots) = computed(&claims, variant)?;

    let mut table = claims_table();
    let mut tally = Tally::default();
    let mut scores = Vec::new();
    for claim in &claims {
        for (inputs, answer) in answers(&context, claim) {
            let (outcome, ratio) = judge(claim, &answer);
            tally.count(&outcome);
            if inputs != paper::NOT_COUNTED {
                scores.extend(score(claim, &answer, &outcome, lacking(variant)));
            }
            let verdict = match outcome {
                Outcome::Judged(verdict) => verdict.name().to_owned(),
                Outcome::Input => "taken by the model".to_owned(),
                Outcome::Silent(needs) => format!("not spoken to by the model (needs {needs})"),
            };
            let (of_one_core, as_reported) = numbers(&answer);
            table.row([
                Cell::from(claim.benchmark.as_str()),
                Cell::from(claim.lock.as_str()),
                Cell::from(claim.claim.as_str()),
                Cell::from(inputs),
                Cell::from(claim.value.as_str()),
                Cell::from(claim.place.as_str()),
                Cell::from(of_one_core),
                Cell::from(as_reported),
                Cell::from(ratio),
                Cell::from(verdict),
            ]);
        }
    }
    let early = early_collapses(&context, &claims);
    let mut notes = vec![
        format!(
            "{} rows met, {} missed, {} fitted, {} consistent, {} taken by the model, {} not spoken to. Consistent: the value follows from the inputs.",
            tally.met, tally.missed, tally.fitted, tally.consistent, tally.taken, tally.silent
        ),
        format!(
            "Met: numbers of cores within {:.0} %, throughputs within a factor of {FACTOR_WITHIN}, ratios also in the logarithm; judged with the section as reported.",
            100.0 * CORES_WITHIN
        ),
        format!(
            "Form: t_k = {}. One number is fitted, to {},ticket,{} with the section of fig. 3: c = {:.0} cycles.",
            variant.form(),
            FITTED.0,
            FITTED.1,
            waiter.likely
        ),
        format!("A queue lock hands over in {:.0} cycles (section 2.1).", context.transfer),
        format!("Met by the form of t_k, which `--variant` chooses: {}.", by_variant(&claims)?),
    ];
    if let Some((least, most)) = early {
        notes.push(format!(
            "Peaks and last good cores are {least:.2} to {most:.2} of the published ones: one c for any number of waiters \
             brings the collapse early. What the model lacks is why few waiters cost less than many. Less variable think \
             times do not move it: the chain is the same for any distribution of them."
        ));
    }
    let faults = [1, 2, 3, 4, 5, 6, 7, 8].map(Fault).to_vec();
    Ok(Reproduction {
        variant: None,
        title: "Claims of the paper against the model",
        table,
        plots,
        notes,
        faults,
        scores,
    })
}

/// The curves of all benchmarks, under both choices of sections, and a plot of each benchmark.
fn curves(
    ticket: Handover,
    queue: Handover,
    claims: &[Claim],
    variant: Variant,
) -> anyhow::Result<(Vec<Computed>, Vec<Series>)> {
    let mut plots: Vec<Series> = Vec::new();
    let mut computed = Vec::new();
    for benchmark in paper::benchmarks(&published::critical_sections()?, claims)? {
        let pair = |sections| -> anyhow::Result<Pair> {
            Ok(Pair {
                ticket: benchmark.curve(ticket, sections, variant)?,
                queue: benchmark.curve(queue, sections, variant)?,
            })
        };
        let (of_one_core, as_reported) = (pair(Sections::OfOneCore)?, pair(Sections::AsReported)?);
        if plots.last().is_none_or(|plot| plot.title != benchmark.name) {
            plots.push(Series::new(&*benchmark.name));
        }
        let plot = plots.last_mut().expect("one was just pushed");
        for mut curve in [as_reported.ticket.clone(), as_reported.queue.clone()] {
            if !benchmark.inputs.is_empty() {
                curve.label = format!("{}, {}", curve.lock, benchmark.inputs);
            }
            plot.curves.push(curve);
        }
        computed.push(Computed { benchmark, of_one_core, as_reported });
    }
    Ok((computed, plots))
}

fn claims_table() -> Table {
    Table::new([
        Column::text("benchmark", "benchmark"),
        Column::text("lock", "lock"),
        Column::text("claim", "claim"),
        Column::text("inputs", "read as").detail(),
        Column::text("published", "published"),
        Column::text("where", "where").detail(),
        Column::number("model_section_of_one_core", "model, section of 1 core").detail(),
        Column::number("model", "model"),
        Column::number("ratio", "model / published"),
        Column::text("verdict", "verdict").kept(),
    ])
}

/// The least and greatest ratio of the model's numbers of cores to the published ones, if all are under 1.
fn early_collapses(context: &Context, claims: &[Claim]) -> Option<(f64, f64)> {
    let mut ratios = Vec::new();
    for claim in claims.iter().filter(|claim| claim.claim.ends_with("_cores")) {
        ratios.extend(answers(context, claim).into_iter().filter_map(|(_, answer)| judge(claim, &answer).1));
    }
    let least = ratios.iter().copied().reduce(f64::min)?;
    let most = ratios.iter().copied().reduce(f64::max)?;
    (most < 1.0).then_some((least, most))
}

#[derive(Default)]
struct Tally {
    met: u32,
    missed: u32,
    fitted: u32,
    consistent: u32,
    taken: u32,
    silent: u32,
}

impl Tally {
    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Judged(Verdict::Met) => self.met += 1,
            Outcome::Judged(Verdict::Missed | Verdict::Unstable) => self.missed += 1,
            Outcome::Judged(Verdict::Consistent | Verdict::NoChange) => self.consistent += 1,
            Outcome::Judged(Verdict::Fitted) => self.fitted += 1,
            Outcome::Input => self.taken += 1,
            Outcome::Silent(_) => self.silent += 1,
        }
    }
}

/// The answers to a claim: one for each reading of its benchmark's row.
fn answers(context: &Context, claim: &Claim) -> Vec<(&'static str, Answer)> {
    let of: Vec<_> = context.computed.iter().filter(|c| c.benchmark.name == claim.benchmark).collect();
    if of.is_empty() {
        return vec![("", about_all(context, claim))];
    }
    if claim.claim.starts_with("critical_section_cycles") {
        return vec![("", Answer::Input)];
    }
    of.into_iter().map(|computed| (computed.benchmark.inputs, about_one(computed, claim))).collect()
}

fn about_one(computed: &Computed, claim: &Claim) -> Answer {
    let Computed { of_one_core, as_reported, .. } = computed;
    let number = |f: &dyn Fn(&Pair) -> Option<f64>| Answer::Number {
        of_one_core: f(of_one_core),
        as_reported: f(as_reported),
    };
    let holds = |f: &dyn Fn(&Pair) -> (bool, f64)| Answer::Holds {
        of_one_core: f(of_one_core),
        as_reported: f(as_reported),
    };
    match claim.claim.as_str() {
        "peak_cores" => number(&|pair| Some(f64::from(pair.ticket.peak()?.cores))),
        "peak_throughput" => number(&|pair| Some(pair.ticket.peak()?.value)),
        "throughput_at_48" => number(&|pair| Some(at(&pair.ticket, CORES))),
        "last_good_cores" => number(&|pair| Some(f64::from(pair.ticket.collapse_cores()? - 1))),
        "throughput_ratio" | "throughput_ratio_at_48" => number(&|pair| Some(pair.ratio_at_end())),
        claim if claim.starts_with("ordering_") => {
            holds(&|pair| verdict::shape(claim, &pair.ticket, &pair.queue).unwrap_or((false, f64::NAN)))
        }
        _ => Answer::Silent("a workload of its own"),
    }
}

fn about_all(context: &Context, claim: &Claim) -> Answer {
    let holds_both = |of_one_core, as_reported| Answer::Holds { of_one_core, as_reported };
    let bound = |value| (verdict::bound_holds(claim, value).unwrap_or(false), value);
    // FOPS counts once: in the reading that agrees with the text.
    let ratios = |pair: fn(&Computed) -> &Pair| {
        let counted = context.computed.iter().filter(|c| c.benchmark.inputs != paper::NOT_COUNTED);
        counted.map(move |c| pair(c).ratio_at_end())
    };
    let least = |pair| ratios(pair).fold(f64::INFINITY, f64::min);
    let most = |pair| ratios(pair).fold(0.0, f64::max);
    match (claim.benchmark.as_str(), claim.claim.as_str()) {
        ("any", "least_throughput_ratio_at_48") => Answer::Number {
            of_one_core: Some(least(|c| &c.of_one_core)),
            as_reported: Some(least(|c| &c.as_reported)),
        },
        ("any", "one_case_more_than") => {
            holds_both(bound(most(|c| &c.of_one_core)), bound(most(|c| &c.as_reported)))
        }
        ("FIG9", "limit") => {
            let limit = laws::amdahl(context.fig9_share, u32::MAX);
            Answer::Number { of_one_core: Some(limit), as_reported: Some(limit) }
        }
        ("FIG9_400_CYCLES", "most_speedup_below") => {
            holds_both(bound(context.fig9_peak), bound(context.fig9_peak))
        }
        ("FIG8" | "FIG9" | "INTERCORE", _) => Answer::Input,
        ("FIG10", _) => {
            Answer::Silent("the simulator: lines moved inside the section, and each lock's own traffic")
        }
        ("EXIM_LINUX_2.6.35RC5", _) => Answer::Silent("a profile of that lock on one core"),
        ("LECTURE", _) => Answer::Silent("the simulator: one atomic access, no lock"),
        _ => Answer::Silent("a workload of its own"),
    }
}

/// What comes out for a claim.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Judged(Verdict),
    /// The model takes it.
    Input,
    /// Something else is needed.
    Silent(&'static str),
}

/// Claims that the model meets because they follow from what it takes: Amdahl's limit is the inverse of the share, and the queue
/// lock's fall from 2 to 4 cores is that of the sections that are reported there.
fn follows_from_inputs(claim: &Claim) -> bool {
    const FROM_INPUTS: [(&str, &str); 2] =
        [("FIG9", "limit"), ("FOPS", "ordering_falls_from_2_to_4_then_flat")];
    FROM_INPUTS.contains(&(&*claim.benchmark, &*claim.claim))
}

/// Verdict on an answer, and its ratio to what is published where both are numbers.
fn judge(claim: &Claim, answer: &Answer) -> (Outcome, Option<f64>) {
    let (verdict, ratio) = match *answer {
        Answer::Input => return (Outcome::Input, None),
        Answer::Silent(needs) => return (Outcome::Silent(needs), None),
        Answer::Holds { as_reported: (holds, _), .. } => (Verdict::of(holds), None),
        Answer::Number { as_reported, .. } => {
            let ratio = as_reported.zip(claim.number()).map(|(value, published)| value / published);
            (Verdict::of_number(claim, as_reported.unwrap_or(f64::NAN)).unwrap_or(Verdict::Missed), ratio)
        }
    };
    let fitted = (claim.benchmark.as_str(), claim.claim.as_str()) == FITTED;
    let verdict = match (verdict, answer) {
        // c is fitted with the section of one core.
        (_, Answer::Number { of_one_core: Some(reached), .. }) if fitted => {
            Verdict::of_fit(claim.number().unwrap_or(f64::NAN), *reached)
        }
        (verdict, _) if follows_from_inputs(claim) => verdict.given_by_input(),
        (verdict, _) => verdict,
    };
    (Outcome::Judged(verdict), ratio)
}

/// A judged row, to be counted by source.
fn score(claim: &Claim, answer: &Answer, outcome: &Outcome, lacking: &'static str) -> Option<Score> {
    let Outcome::Judged(verdict) = *outcome else { return None };
    let printed = match answer {
        Answer::Number { as_reported: Some(value), .. } => verdict::is_as_printed(&claim.value, *value),
        _ => false,
    };
    Some(claim.score(MODEL, verdict, printed, lacking))
}

/// The numbers of an answer, with the section of one core and as reported.
fn numbers(answer: &Answer) -> (Option<f64>, Option<f64>) {
    match *answer {
        Answer::Number { of_one_core, as_reported } => (of_one_core, as_reported),
        Answer::Holds { of_one_core, as_reported } => (Some(of_one_core.1), Some(as_reported.1)),
        Answer::Input | Answer::Silent(_) => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(variant: Variant) -> Vec<serde_json::Value> {
        reproduce(variant).unwrap().table.json().as_array().unwrap().clone()
    }

    fn find<'a>(rows: &'a [serde_json::Value], benchmark: &str, claim: &str) -> &'a serde_json::Value {
        rows.iter().find(|row| row["benchmark"] == benchmark && row["claim"] == claim).unwrap()
    }

    #[test]
    fn every_claim_has_a_row_and_a_verdict() {
        let rows = rows(Variant::Waiters);
        for claim in published::claims().unwrap() {
            let row = find(&rows, &claim.benchmark, &claim.claim);
            let verdict = row["verdict"].as_str().unwrap();
            assert!(
                ["met", "missed", "fitted", "consistent", "taken by the model"].contains(&verdict)
                    || verdict.starts_with("not spoken to by the model (needs"),
                "{row}"
            );
        }
        assert!(rows.len() > published::claims().unwrap().len(), "FOPS has two readings");
    }

    #[test]
    fn mempop_has_the_published_height_and_end_but_peaks_early() {
        let rows = rows(Variant::Waiters);
        let number = |claim: &str| -> f64 {
            find(&rows, "MEMPOP", claim)["model_section_of_one_core"].as_f64().unwrap()
        };
        assert!((number("peak_throughput") / 4.8 - 1.0).abs() < 0.02);
        assert!((number("throughput_at_48") - 0.35).abs() < 0.005);
        assert_eq!(number("peak_cores"), 6.0);
    }

    #[test]
    fn what_follows_from_inputs_is_consistent_and_the_lecture_is_not_the_models() {
        let rows = rows(Variant::Waiters);
        assert_eq!(find(&rows, "FIG9", "limit")["verdict"], "consistent");
        assert_eq!(find(&rows, "FOPS", "ordering_falls_from_2_to_4_then_flat")["verdict"], "consistent");
        assert!(
            find(&rows, "LECTURE", "fetch_and_increment_cycles")["verdict"]
                .as_str()
                .unwrap()
                .contains("simulator")
        );
    }

    #[test]
    fn a_variant_changes_the_curves() {
        let peak = |variant| find(&rows(variant), "MEMPOP", "peak_throughput")["model"].clone();
        assert_ne!(peak(Variant::Waiters), peak(Variant::Contenders));
    }
}

//! The results as text and as a page.

use super::clients::Client;
use super::plan::Verdict;
use super::{Args, Checked, tell};
use std::time::Duration;
use workloads::client::Kind;

/// For the terminal.
pub(super) fn text(checked: &Checked, args: &Args) -> String {
    let mut text = format!("{}\n", checked.lock.name);
    for verdict in &checked.verdicts {
        let (many, left, of) = verdict.size();
        text += &format!(
            "  {:4} {:10} {:6} {many:>10} {of:10}, {left:>10} {}, {:7.2} s  {}\n",
            verdict.task.model.name(),
            verdict.task.client.name(),
            size(verdict),
            if of == "states" { "merged" } else { "pruned" },
            verdict.elapsed.as_secs_f64(),
            verdict.word(),
        );
        for cut_off in &verdict.bounds {
            text += &format!("       {cut_off}\n");
        }
        if let Some(found) = &verdict.found {
            let weakened = args.weaken.as_ref().map(ToString::to_string);
            text += &tell(&verdict.task, found, weakened.as_deref());
        }
    }
    let killed = checked.mutants.iter().filter(|mutant| mutant.killed.is_some()).count();
    if !checked.mutants.is_empty() {
        text += &format!("  {killed} of {} mutants are found\n", checked.mutants.len());
    }
    for mutant in &checked.mutants {
        let fate = mutant.killed.as_ref().map_or_else(
            || if mutant.bounds > 0 { "survives, within bounds".to_owned() } else { "survives".to_owned() },
            |killed| format!("{} in {}", killed.violation, killed.client),
        );
        text += &format!("    {:34} {:16} {:8} {fate}\n", mutant.name, mutant.operation, mutant.from);
        if let (Some(killed), true) = (&mutant.killed, args.lock.is_some()) {
            text += &killed.table;
        }
    }
    text
}

fn size(verdict: &Verdict) -> String {
    format!("{} × {}", verdict.task.shape.threads, verdict.task.shape.rounds)
}

/// For `docs/verification.md`.
pub(super) fn markdown(all: &[Checked], arguments: &str, elapsed: Duration) -> String {
    let mut page = String::from(
        "# Verification\n\n\
         Written by `contend check --all --mutate --write docs/verification.md`; [checking.md](checking.md) explains \
         how to read it.\n\n\
         Every lock runs with small clients, of so many threads × acquisitions each, in every execution that a memory \
         model\nallows. *verified* means that all executions were seen and none was wrong; *a bound* that there are \
         more\nstates than an exploration remembers, which is so on every computer; *out of time* that the time limit came \
         first.\nExecutions that end in a wait which another execution goes on from are counted as \
         pruned.\n\n",
    );
    page += &format!("All of it took {:.0} s on this computer.\n\n## Exclusion\n\n", elapsed.as_secs_f64());
    page += "| lock | model | client | size | gone through | pruned or merged | seconds | verdict |\n\
             |---|---|---|---|--:|--:|--:|---|\n";
    for checked in all {
        for verdict in &checked.verdicts {
            page += &row(checked.lock.name, verdict);
        }
    }
    let plain = all.iter().flat_map(|checked| &checked.verdicts);
    let mut hardest =
        plain.filter(|verdict| verdict.task.client == Client::Of(Kind::Exclusive)).collect::<Vec<_>>();
    hardest.sort_by_key(|verdict| std::cmp::Reverse(verdict.elapsed));
    page += "\nThe hardest plain clients:\n\n";
    for verdict in hardest.iter().take(12) {
        let (many, _, of) = verdict.size();
        let seconds = verdict.elapsed.as_secs_f64();
        page += &format!("- {}: {many} {of}, {seconds:.1} s, {}\n", verdict.task, verdict.word());
    }
    page += "\n## Mutants\n\n\
             Every acquire, release, acq_rel and seq_cst access is made weaker, one at a time, without a change of the \
             source, and\njudged under release-acquire. A survivor is an ordering that no client here needs; that is \
             a finding, and no proof that\nthe ordering is not needed.\n\n\
             | lock | access | operation | from | found as | by, or why it is left |\n|---|---|---|---|---|---|\n";
    for checked in all {
        for mutant in &checked.mutants {
            let argument = arguments.lines().filter_map(|line| line.split_once(','));
            let mut argument =
                argument.filter(|(access, _)| *access == mutant.name).map(|(_, why)| why.trim_matches('"'));
            let (found, by) = match &mutant.killed {
                Some(killed) => (killed.violation.to_owned(), killed.client.clone()),
                None => {
                    let seen = if mutant.bounds > 0 { "survives, some clients cut off" } else { "survives" };
                    (format!("**{seen}**"), argument.next_back().unwrap_or("not argued yet").to_owned())
                }
            };
            page += &format!(
                "| {} | `{}` | {} | {} | {found} | {by} |\n",
                checked.lock.name, mutant.name, mutant.operation, mutant.from
            );
        }
    }
    let all_mutants = all.iter().flat_map(|checked| &checked.mutants).collect::<Vec<_>>();
    let killed = all_mutants.iter().filter(|mutant| mutant.killed.is_some()).count();
    page += &format!("\n{killed} of {} mutants are found.\n", all_mutants.len());
    page
}

fn row(lock: &str, verdict: &Verdict) -> String {
    let bounds = verdict.bounds.iter().map(|cut_off| format!("; {cut_off}"));
    let (many, left, of) = verdict.size();
    format!(
        "| {lock} | {} | {} | {} | {many} {of} | {left} | {:.2} | {}{} |\n",
        verdict.task.model,
        verdict.task.client.name(),
        size(verdict),
        verdict.elapsed.as_secs_f64(),
        verdict.word(),
        bounds.collect::<String>(),
    )
}

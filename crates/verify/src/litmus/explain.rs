//! The store-buffering table of every textbook, worked out by the models.

use checker::Model;
use checker::litmus::Test;
use serde_json::{Value, json};

/// What stands between the store and the load of each processor.
struct Variant {
    title: &'static str,
    between: [&'static str; 2],
    exchange: bool,
}

const VARIANTS: [Variant; 4] = [
    Variant { title: "nothing between store and load", between: ["", ""], exchange: false },
    Variant { title: "a full fence on one side", between: ["MFENCE", ""], exchange: false },
    Variant { title: "a full fence on both sides", between: ["MFENCE", "MFENCE"], exchange: false },
    Variant { title: "the stores are locked exchanges", between: ["", ""], exchange: true },
];

/// Every order of the four steps that keeps each processor's own.
const INTERLEAVINGS: [&str; 6] = ["abcd", "acbd", "acdb", "cabd", "cadb", "cdab"];

const OUTCOMES: [(i64, i64); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

/// The whole explanation.
pub fn text() -> String {
    let mut text = String::from(
        "Store buffering. x and y are 0 at the start.\n\n  \
         processor 0     processor 1\n  \
         a: x := 1       c: y := 1\n  \
         b: r0 := y      d: r1 := x\n\n\
         Every interleaving, each step taking effect at once:\n\n  \
         order      r0  r1\n",
    );
    for order in INTERLEAVINGS {
        let (r0, r1) = interleaved(order);
        let spaced = order.chars().map(String::from).collect::<Vec<_>>().join(" ");
        text += &format!("  {spaced}    {r0}   {r1}\n");
    }
    text += "\nNo interleaving ends with r0 = r1 = 0: the thread that loads last sees the other's store. A processor of today \
             does: each keeps its store in a buffer and loads before the store has reached memory.\n";
    for variant in &VARIANTS {
        text += &format!("\nWhich outcomes each model allows, {}:\n\n  r0  r1", variant.title);
        for model in Model::ALL {
            text += &format!("  {:9}", model.name());
        }
        text = text.trim_end().to_owned() + "\n";
        for (r0, r1) in OUTCOMES {
            text += &format!("  {r0}   {r1}");
            for model in Model::ALL {
                let allowed = test(variant, r0, r1).judge(model).is_allowed();
                text += &format!("   {:9}", if allowed { "allowed" } else { "forbidden" })
                    .replacen("   ", "  ", 1);
            }
            text = text.trim_end().to_owned() + "\n";
        }
    }
    text += "\nA fence on one side is not enough, since the other side's store may still wait. One on both sides forbids \
             the outcome, and so does a locked instruction, whose store reaches memory before the next load (under \
             release-acquire, ra, only a seq_cst fence does: an exchange orders nothing with a later load that is \
             not seq_cst).\n";
    text
}

/// The same for a script: the final registers of every interleaving, and of every variant which outcomes each model allows.
pub fn json() -> Value {
    let interleavings = INTERLEAVINGS.map(|order| {
        let (r0, r1) = interleaved(order);
        json!({ "order": order, "r0": r0, "r1": r1 })
    });
    let outcome = |variant: &Variant, (r0, r1): (i64, i64)| {
        let allowed = Model::ALL.map(|model| {
            (model.name().to_owned(), Value::from(test(variant, r0, r1).judge(model).is_allowed()))
        });
        json!({ "r0": r0, "r1": r1, "allowed": serde_json::Map::from_iter(allowed) })
    };
    let variants = VARIANTS.each_ref().map(
        |variant| json!({ "variant": variant.title, "outcomes": OUTCOMES.map(|one| outcome(variant, one)) }),
    );
    json!({ "interleavings": interleavings, "variants": variants })
}

/// Runs `abcd` in the given order.
fn interleaved(order: &str) -> (i64, i64) {
    let (mut x, mut y, mut r0, mut r1) = (0, 0, 0, 0);
    for step in order.chars() {
        match step {
            'a' => x = 1,
            'b' => r0 = y,
            'c' => y = 1,
            _ => r1 = x,
        }
    }
    (r0, r1)
}

fn test(variant: &Variant, r0: i64, r1: i64) -> Test {
    let store = |word: &str| match variant.exchange {
        true => format!("XCHG [{word}],ECX"),
        false => format!("MOV [{word}],$1"),
    };
    let text = format!(
        "X86 SB\n{{ x=0; y=0; 0:ECX=1; 1:ECX=1; }}\n P0 | P1 ;\n {} | {} ;\n {} | {} ;\n \
         MOV EAX,[y] | MOV EAX,[x] ;\nexists (0:EAX={r0} /\\ 1:EAX={r1})",
        store("x"),
        store("y"),
        variant.between[0],
        variant.between[1],
    );
    Test::parse(&text).expect("a test written here")
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::every_screen;

    #[test]
    fn the_weak_outcome_needs_a_buffer_and_no_fence() {
        let both_zero = |variant: usize, model| test(&VARIANTS[variant], 0, 0).judge(model).is_allowed();
        assert!(!both_zero(0, Model::Sc));
        for model in [Model::Tso, Model::Pso, Model::Ra] {
            assert!(both_zero(0, model) && both_zero(1, model) && !both_zero(2, model), "{model}");
        }
        assert!(!both_zero(3, Model::Tso) && !both_zero(3, Model::Pso));
        assert!(text().contains("a c d b    1   1"));
    }

    #[test]
    fn the_explanation_on_every_screen_and_as_json() {
        insta::assert_snapshot!(every_screen(&[], |screen| screen.fit(&text())));
        let all = json();
        assert_eq!(all["interleavings"].as_array().map(Vec::len), Some(6));
        let both_zero = &all["variants"][0]["outcomes"][0];
        assert_eq!(
            (&both_zero["allowed"]["sc"], &both_zero["allowed"]["tso"]),
            (&false.into(), &true.into())
        );
    }
}

//! Greedy answers against a float32 reference (its origin is in the file).

use isopace_lm::engine::{Engine, LoadOptions, Session};
use isopace_lm::weights::Activations;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    kind: String,
    prompt: String,
    prompt_ids: Vec<u32>,
    top5_ids: Vec<u32>,
    top5_logits: Vec<f32>,
    greedy_ids: Vec<u32>,
    gaps: Vec<f32>,
}

fn golden() -> Vec<Case> {
    let g: Golden =
        serde_json::from_str(include_str!("../golden/smollm2_greedy.json")).expect("the golden file");
    g.cases
}

fn engine(activations: Activations, kv_dtype: isopace::Dtype) -> Engine {
    isopace::init();
    let model = super::model();
    Engine::load(&model.display().to_string(), LoadOptions { activations, kv_dtype })
        .expect("the model loads")
}

fn best(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0) as u32
}

/// The logits after these tokens.
fn feed(session: &mut Session<'_>, ids: &[u32]) -> Vec<f32> {
    session.feed(ids).expect("a step");
    session.logits().and_then(|l| l.to_vec()).expect("logits")
}

#[test]
fn float32_activations_follow_the_reference() {
    let engine = engine(Activations::F32, isopace::Dtype::F32);
    for case in golden() {
        if case.kind == "raw" {
            let ids = engine.tokenizer().encode_prompt(&case.prompt, false).expect("the prompt encodes");
            assert_eq!(ids, case.prompt_ids, "{:?}", case.prompt);
        }
        let mut session = engine.session().expect("a session");
        let mut logits = feed(&mut session, &case.prompt_ids);
        for (id, want) in case.top5_ids.iter().zip(&case.top5_logits) {
            let got = logits[*id as usize];
            assert!(
                (got - want).abs() <= 2e-3 * want.abs(),
                "{:?}: token {id} has {got}, reference {want}",
                case.prompt
            );
        }
        for (i, (&want, &gap)) in case.greedy_ids.iter().zip(&case.gaps).enumerate() {
            if gap < 0.02 {
                break;
            }
            assert_eq!(best(&logits), want, "{:?}: token {i}", case.prompt);
            logits = feed(&mut session, &[want]);
        }
    }
    let stats = engine.step_stats();
    assert!(stats.hits > 300 && stats.traces < 30, "{}", engine.explain());
}

#[test]
fn eight_bit_activations_stay_close() {
    let engine = engine(Activations::I8, isopace::Dtype::F16);
    for case in golden() {
        let mut session = engine.session().expect("a session");
        let mut logits = feed(&mut session, &case.prompt_ids);
        for (i, &want) in case.greedy_ids.iter().enumerate() {
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let lost = max - logits[want as usize];
            assert!(lost <= 0.5, "{:?}: token {i} is {lost} below the best", case.prompt);
            logits = feed(&mut session, &[want]);
        }
    }
}

#[test]
fn threads_do_not_change_the_answer() {
    let run = |threads| {
        isopace::set_threads(threads).expect("threads");
        let engine = engine(Activations::I8, isopace::Dtype::F16);
        let mut session = engine.session().expect("a session");
        let mut logits = feed(&mut session, &golden()[0].prompt_ids);
        let mut ids = Vec::new();
        for _ in 0..24 {
            ids.push((best(&logits), logits[best(&logits) as usize].to_bits()));
            let id = best(&logits);
            logits = feed(&mut session, &[id]);
        }
        ids
    };
    assert_eq!(run(1), run(2));
}

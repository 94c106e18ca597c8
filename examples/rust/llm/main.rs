// SPDX-License-Identifier: Apache-2.0
//! Runs a Llama model: continues a text, on whatever backend ATTILE_BACKEND names. The same loop as examples/llm, which describes the files.
//! Run: cargo run --release --example llm -- FOLDER "Once upon a time" -n 100
mod files;
mod json;
mod model;
mod tokenizer;

use files::{Config, Result};
use model::Model;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use tokenizer::Tokenizer;

const USAGE: &str =
    "usage: llm FOLDER PROMPT [-n TOKENS] [-t TEMPERATURE] [-p TOP_P] [-s SEED] [-i] [-v]";

struct Options {
    folder: PathBuf,
    prompt: String,
    tokens: usize,
    seed: u64,
    temperature: f64,
    top_p: f64,
    ids: bool,
    verbose: bool,
}

fn parse() -> Result<Options> {
    let (mut words, mut ids, mut verbose) = (Vec::new(), false, false);
    let (mut tokens, mut seed, mut temperature, mut top_p) = (64.0, 1.0, 0.0, 0.9);
    let mut arguments = std::env::args_os().skip(1);
    while let Some(word) = arguments.next() {
        let name = word.to_string_lossy().into_owned();
        let (value, least, most, expected) = match name.as_str() {
            "-n" => (&mut tokens, 1.0, 1e9, "a number of tokens from 1"),
            "-s" => (&mut seed, 0.0, 9e15, "a whole number from 0"),
            "-t" => (&mut temperature, 0.0, 100.0, "a temperature from 0 to 100"),
            "-p" => (&mut top_p, 0.0, 1.0, "a probability from 0 to 1"),
            "-i" | "-v" => {
                *(if name == "-i" { &mut ids } else { &mut verbose }) = true;
                continue;
            }
            _ => {
                words.push(word);
                continue;
            }
        };
        let text = arguments.next().ok_or(USAGE)?;
        let text = text.to_string_lossy();
        match text.parse::<f64>() {
            Ok(number) if number >= least && number <= most => *value = number,
            _ => return Err(format!("{} is {}, expected {}", name, text, expected).into()),
        }
    }
    match &words[..] {
        [folder, prompt] => Ok(Options {
            folder: folder.into(),
            prompt: prompt.to_string_lossy().into_owned(),
            tokens: tokens as usize,
            seed: seed as u64,
            temperature,
            top_p,
            ids,
            verbose,
        }),
        _ => Err(USAGE.into()),
    }
}

/// SplitMix64: the same numbers for a seed in every language. From 0 up to, not including, 1.
fn next_random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
}

/// Greedy at temperature 0; else a draw from the likeliest tokens that together have the probability top_p.
fn sample(logits: &[f32], o: &Options, random: &mut u64) -> Result<u32> {
    if logits.iter().any(|logit| !logit.is_finite()) {
        return Err("the model gives numbers that are not finite".into());
    }
    let mut best = 0;
    for (i, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = i;
        }
    }
    if o.temperature == 0.0 {
        return Ok(best as u32);
    }
    let share = |&logit: &f32| (f64::from(logit) - f64::from(logits[best])) / o.temperature;
    let mut order: Vec<(f64, u32)> = logits.iter().map(|l| share(l).exp()).zip(0..).collect();
    let all: f64 = order.iter().map(|(share, _)| share).sum();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let (mut kept, mut nucleus) = (0, 0.0);
    while kept < order.len() && (kept == 0 || nucleus < o.top_p * all) {
        nucleus += order[kept].0;
        kept += 1;
    }
    let mut left = next_random(random) * nucleus;
    for &(share, token) in &order[..kept] {
        left -= share;
        if left < 0.0 {
            return Ok(token);
        }
    }
    Ok(order[kept - 1].1)
}

fn print(tokenizer: &Tokenizer, o: &Options, tokens: &[u32], first: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for (i, &token) in tokens.iter().enumerate() {
        if o.ids {
            writeln!(out, "{}", token)?;
        } else {
            out.write_all(&tokenizer.decode(token, first && i == 1))?;
        }
    }
    Ok(out.flush()?)
}

fn run() -> Result<()> {
    let o = parse()?;
    let config = Config::read(&o.folder)?;
    let tokenizer = Tokenizer::open(&o.folder, config.vocab)?;
    let prompt = tokenizer.encode(&o.prompt);
    let positions = config.positions;
    if prompt.len() > positions {
        return Err(format!(
            "the prompt has {} tokens, the model takes at most {}",
            prompt.len(),
            positions
        )
        .into());
    }
    let most = o.tokens.min(positions - prompt.len());
    let context = attile::Context::new()?;
    if o.verbose {
        let info = context.info()?;
        eprintln!("{}: {} {}", info.backend, info.device_name, info.arch);
    }
    let mut model = Model::open(&context, &o.folder, config, prompt.len() + most)?;

    let start = Instant::now();
    let mut logits = model.forward(&prompt)?;
    let decoding = Instant::now();
    let (mut random, mut made) = (o.seed, 0);
    loop {
        let token = if made < most {
            sample(&logits, &o, &mut random)?
        } else {
            tokenizer.end()
        };
        if made == 0 {
            print(&tokenizer, &o, &prompt, true)?; // not before something can follow
        }
        if token == tokenizer.end() {
            break;
        }
        print(&tokenizer, &o, &[token], false)?;
        made += 1;
        if made < most {
            logits = model.forward(&[token])?;
        }
    }
    if !o.ids {
        writeln!(std::io::stdout())?;
    }
    if o.verbose {
        let rate = made.saturating_sub(1) as f64 / decoding.elapsed().as_secs_f64();
        eprintln!(
            "{} tokens of the prompt in {:.3} s, then {:.2} tokens/s",
            prompt.len(),
            (decoding - start).as_secs_f64(),
            rate
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("llm: {}", why);
            ExitCode::FAILURE
        }
    }
}

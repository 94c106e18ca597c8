// SPDX-License-Identifier: Apache-2.0
//! A service in small: worker threads share one context and answer requests from a queue; a bad request is an answer too, and the service goes on.
//! Run: cargo run --example service
use attile::{Context, Mask, TensorMut, TensorRef};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

struct Request {
    id: usize,
    len: i64,
    head_dim: i64,
    data: Vec<f32>, // q, k and v, one after the other
    reply: Sender<(usize, Result<Vec<f32>, attile::Error>)>,
}

// [answer]
fn answer(context: &Context, request: &Request) -> Result<Vec<f32>, attile::Error> {
    let shape = [1, 1, request.len, request.head_dim];
    let one = request.data.len() / 3;
    let part = |which: usize| TensorRef::new(&request.data[which * one..(which + 1) * one], &shape);
    let mut out = vec![0.0f32; one];
    context
        .attention(
            part(0)?,
            part(1)?,
            part(2)?,
            TensorMut::new(&mut out, &shape)?,
        )
        .mask(Mask::CausalTopLeft)
        .run()?;
    Ok(out)
}
// [answer]

fn work(context: &Context, queue: &Mutex<Receiver<Request>>) {
    loop {
        let next = match queue.lock() {
            Ok(queue) => queue.recv(),
            Err(_) => return,
        };
        match next {
            Ok(request) => {
                let result = answer(context, &request);
                let _ = request.reply.send((request.id, result)); // nobody waits any more: nothing to do
            }
            Err(_) => return, // the last sender is gone
        }
    }
}

fn main() -> Result<(), attile::Error> {
    // [threads]
    let context = Arc::new(Context::new()?);
    let (sender, receiver) = channel::<Request>();
    let queue = Arc::new(Mutex::new(receiver));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (context, queue) = (Arc::clone(&context), Arc::clone(&queue));
            thread::spawn(move || work(&context, &queue))
        })
        .collect();
    // [threads]

    let (reply, answers) = channel();
    for id in 0..32 {
        // Every eighth request is wrong: its data are shorter than it says.
        let (len, head_dim) = (16 + id as i64, 32);
        let elements = if id % 8 == 7 {
            3
        } else {
            3 * (len * head_dim) as usize
        };
        let data = (0..elements)
            .map(|i| ((i * 37 + id) % 101) as f32 / 50.0 - 1.0)
            .collect();
        let request = Request {
            id,
            len,
            head_dim,
            data,
            reply: reply.clone(),
        };
        if sender.send(request).is_err() {
            break;
        }
    }
    drop((sender, reply));

    let (mut done, mut refused) = (0, 0);
    for (id, result) in answers {
        match result {
            Ok(_) => done += 1,
            Err(error) => {
                refused += 1;
                println!("request {} refused: {}", id, error);
            }
        }
    }
    for worker in workers {
        let _ = worker.join();
    }
    println!(
        "{} answered, {} refused, on {}",
        done,
        refused,
        context.info()?.device_name
    );
    Ok(())
}

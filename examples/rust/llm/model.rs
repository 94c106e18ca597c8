// SPDX-License-Identifier: Apache-2.0
//! The forward pass of a Llama model. Weights, keys and values are in the device's memory; what passes from layer to layer is in vectors.
use crate::files::{Config, Result, Tensors};
use attile::{Activation, Context, DeviceBuffer, Mask, MemoryKind, TensorMut, TensorRef};
use std::path::Path;

const PAGE_KEYS: usize = 64; // Keys of a page, and the most tokens that pass through the layers at once.

/// Weights of a product, as the file has them: [outputs, inputs].
struct Weights<'a> {
    data: DeviceBuffer<'a, f32>,
    outputs: usize,
    inputs: usize,
}

struct Layer<'a> {
    norm_attention: Vec<f32>,
    norm_mlp: Vec<f32>,
    q: Weights<'a>,
    k: Weights<'a>,
    v: Weights<'a>,
    o: Weights<'a>,
    gate: Weights<'a>,
    up: Weights<'a>,
    down: Weights<'a>,
    k_cache: DeviceBuffer<'a, f32>, // [pages, PAGE_KEYS, heads_kv, head_dim]
    v_cache: DeviceBuffer<'a, f32>,
}

/// A model, and the keys and values of one sequence.
pub struct Model<'a> {
    context: &'a Context,
    config: Config,
    embedding: Vec<f32>,
    norm: Vec<f32>,
    output: Weights<'a>,
    layers: Vec<Layer<'a>>,
    table: Vec<i32>, // where each run of PAGE_KEYS keys lies
    length: usize,
}

/// Shape and strides of heads that lie side by side in a token's row, as the library wants them: [outer, heads, rows, head_dim].
fn heads_of(outer: usize, heads: usize, rows: usize, head_dim: usize) -> ([i64; 4], [i64; 4]) {
    let size = |n: usize| n as i64;
    (
        [size(outer), size(heads), size(rows), size(head_dim)],
        [
            size(rows * heads * head_dim),
            size(head_dim),
            size(heads * head_dim),
            1,
        ],
    )
}

impl Weights<'_> {
    /// d = activation(x w^T), or d += x w^T. The transpose of w is a matter of strides.
    fn multiply(
        &self,
        context: &Context,
        x: &[f32],
        d: &mut [f32],
        add: bool,
        activation: Activation,
    ) -> attile::Result<()> {
        let rows = (x.len() / self.inputs) as i64;
        let (inputs, outputs) = (self.inputs as i64, self.outputs as i64);
        let w = self
            .data
            .view_strided(&[inputs, outputs], &[1, inputs], 0)?;
        let x = TensorRef::new(x, &[rows, inputs])?;
        let call = context
            .gemm(x, w, TensorMut::new(d, &[rows, outputs])?)
            .activation(activation);
        if add { call.accumulate(1.0) } else { call }.run()
    }

    fn times(&self, context: &Context, x: &[f32]) -> attile::Result<Vec<f32>> {
        let mut d = vec![0.0; x.len() / self.inputs * self.outputs];
        self.multiply(context, x, &mut d, false, Activation::None)?;
        Ok(d)
    }
}

/// Every tensor's name and shape, before anything is loaded.
fn check(tensors: &Tensors, c: &Config) -> Result<()> {
    let (dim_q, dim_kv) = (c.heads * c.head_dim, c.heads_kv * c.head_dim);
    tensors.check("model.embed_tokens.weight", &[c.vocab, c.hidden])?;
    tensors.check("model.norm.weight", &[c.hidden])?;
    if !c.tied {
        tensors.check("lm_head.weight", &[c.vocab, c.hidden])?;
    }
    for i in 0..c.layers {
        let check = |part: &str, shape: &[usize]| {
            tensors.check(&format!("model.layers.{}.{}.weight", i, part), shape)
        };
        check("input_layernorm", &[c.hidden])?;
        check("post_attention_layernorm", &[c.hidden])?;
        check("self_attn.q_proj", &[dim_q, c.hidden])?;
        check("self_attn.k_proj", &[dim_kv, c.hidden])?;
        check("self_attn.v_proj", &[dim_kv, c.hidden])?;
        check("self_attn.o_proj", &[c.hidden, dim_q])?;
        check("mlp.gate_proj", &[c.inner, c.hidden])?;
        check("mlp.up_proj", &[c.inner, c.hidden])?;
        check("mlp.down_proj", &[c.hidden, c.inner])?;
    }
    Ok(())
}

fn rms_norm(c: &Config, x: &[f32], weight: &[f32]) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks_exact(c.hidden) {
        let squares: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        let scale = (1.0 / (squares / c.hidden as f64 + c.norm_eps).sqrt()) as f32;
        out.extend(row.iter().zip(weight).map(|(x, w)| x * scale * w));
    }
    out
}

impl<'a> Model<'a> {
    pub fn open(
        context: &'a Context,
        folder: &Path,
        config: Config,
        capacity: usize,
    ) -> Result<Model<'a>> {
        let c = &config;
        let mut tensors = Tensors::open(folder.join("model.safetensors"))?;
        check(&tensors, c)?;
        let pages = (capacity + PAGE_KEYS - 1) / PAGE_KEYS;
        let (dim_q, dim_kv) = (c.heads * c.head_dim, c.heads_kv * c.head_dim);
        let embedding = tensors.read("model.embed_tokens.weight", &[c.vocab, c.hidden])?;
        let norm = tensors.read("model.norm.weight", &[c.hidden])?;
        let upload = |data: &[f32], outputs: usize, inputs: usize| -> Result<Weights<'a>> {
            let data = context.upload(data)?;
            Ok(Weights {
                data,
                outputs,
                inputs,
            })
        };
        let output = if c.tied {
            upload(&embedding, c.vocab, c.hidden)?
        } else {
            let output = tensors.read("lm_head.weight", &[c.vocab, c.hidden])?;
            upload(&output, c.vocab, c.hidden)?
        };
        let mut layers = Vec::new();
        for i in 0..c.layers {
            let name = |part: &str| format!("model.layers.{}.{}.weight", i, part);
            let norm_attention = tensors.read(&name("input_layernorm"), &[c.hidden])?;
            let norm_mlp = tensors.read(&name("post_attention_layernorm"), &[c.hidden])?;
            let mut product = |part: &str, outputs: usize, inputs: usize| {
                upload(
                    &tensors.read(&name(part), &[outputs, inputs])?,
                    outputs,
                    inputs,
                )
            };
            layers.push(Layer {
                norm_attention,
                norm_mlp,
                q: product("self_attn.q_proj", dim_q, c.hidden)?,
                k: product("self_attn.k_proj", dim_kv, c.hidden)?,
                v: product("self_attn.v_proj", dim_kv, c.hidden)?,
                o: product("self_attn.o_proj", c.hidden, dim_q)?,
                gate: product("mlp.gate_proj", c.inner, c.hidden)?,
                up: product("mlp.up_proj", c.inner, c.hidden)?,
                down: product("mlp.down_proj", c.hidden, c.inner)?,
                k_cache: context.alloc(MemoryKind::Device, pages * PAGE_KEYS * dim_kv)?,
                v_cache: context.alloc(MemoryKind::Device, pages * PAGE_KEYS * dim_kv)?,
            });
        }
        Ok(Model {
            context,
            config,
            embedding,
            norm,
            output,
            layers,
            // One sequence takes the pages in any order; a program with many would hand out those that are free.
            table: (0..pages as i32).rev().collect(),
            length: 0,
        })
    }

    /// RoPE: column i of a head and column i + head_dim / 2 are a point that is turned by an angle that grows with the position.
    fn rotate(&self, x: &mut [f32], heads: usize) {
        let (dim, pairs) = (self.config.head_dim, self.config.head_dim / 2);
        for (row, x) in x.chunks_exact_mut(heads * dim).enumerate() {
            let position = (self.length + row) as f64;
            for i in 0..pairs {
                let frequency = self.config.rope_theta.powf(-(i as f64) / pairs as f64);
                let (sine, cosine) = (position * frequency).sin_cos();
                let (sine, cosine) = (sine as f32, cosine as f32);
                for head in x.chunks_exact_mut(dim) {
                    let (a, b) = (head[i], head[i + pairs]);
                    head[i] = a * cosine - b * sine;
                    head[i + pairs] = b * cosine + a * sine;
                }
            }
        }
    }

    fn attention_block(&mut self, layer: usize, x: &mut [f32], rows: usize) -> Result<()> {
        let (context, c, w) = (self.context, &self.config, &self.layers[layer]);
        let normed = rms_norm(c, x, &w.norm_attention);
        let mut q = w.q.times(context, &normed)?;
        let mut k = w.k.times(context, &normed)?;
        let v = w.v.times(context, &normed)?;
        self.rotate(&mut q, c.heads);
        self.rotate(&mut k, c.heads_kv);
        // The new keys and values go behind those of the sequence, all within one page.
        let page = self.table[self.length / PAGE_KEYS] as usize;
        let first = (page * PAGE_KEYS + self.length % PAGE_KEYS) * c.heads_kv * c.head_dim;
        let w = &mut self.layers[layer];
        w.k_cache.write_at(first, &k)?;
        w.v_cache.write_at(first, &v)?;

        let mut attended = vec![0.0; q.len()];
        let (shape, stride) = heads_of(1, c.heads, rows, c.head_dim);
        let (shape_kv, stride_kv) = heads_of(self.table.len(), c.heads_kv, PAGE_KEYS, c.head_dim);
        let lengths = [(self.length + rows) as i32];
        context
            .attention(
                TensorRef::strided(&q, &shape, &stride, 0)?,
                w.k_cache.view_strided(&shape_kv, &stride_kv, 0)?,
                w.v_cache.view_strided(&shape_kv, &stride_kv, 0)?,
                TensorMut::strided(&mut attended, &shape, &stride, 0)?,
            )
            .mask(Mask::CausalBottomRight) // the rows are the last of the sequence
            .paged(
                TensorRef::new(&self.table, &[1, self.table.len() as i64])?,
                TensorRef::new(&lengths, &[1])?,
            )
            .run()?;
        Ok(w.o.multiply(context, &attended, x, true, Activation::None)?)
    }

    fn mlp_block(&self, layer: usize, x: &mut [f32]) -> Result<()> {
        let (context, w) = (self.context, &self.layers[layer]);
        let normed = rms_norm(&self.config, x, &w.norm_mlp);
        let mut gate = vec![0.0; normed.len() / w.gate.inputs * w.gate.outputs];
        w.gate
            .multiply(context, &normed, &mut gate, false, Activation::Silu)?;
        let up = w.up.times(context, &normed)?;
        gate.iter_mut().zip(&up).for_each(|(gate, up)| *gate *= up); // SwiGLU
        Ok(w.down.multiply(context, &gate, x, true, Activation::None)?)
    }

    /// Appends tokens to the sequence; the logits of the last one.
    pub fn forward(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        if tokens.is_empty() || self.length + tokens.len() > self.table.len() * PAGE_KEYS {
            return Err(format!(
                "{} tokens do not fit behind the {} that the sequence has",
                tokens.len(),
                self.length
            )
            .into());
        }
        let hidden = self.config.hidden;
        let (mut left, mut last) = (tokens, Vec::new());
        while !left.is_empty() {
            // As many as fit into the page that the sequence has reached.
            let rows = left.len().min(PAGE_KEYS - self.length % PAGE_KEYS);
            let mut x = Vec::with_capacity(rows * hidden);
            for &token in &left[..rows] {
                x.extend_from_slice(&self.embedding[token as usize * hidden..][..hidden]);
            }
            for layer in 0..self.config.layers {
                self.attention_block(layer, &mut x, rows)?;
                self.mlp_block(layer, &mut x)?;
            }
            self.length += rows;
            left = &left[rows..];
            last = x.split_off((rows - 1) * hidden);
        }
        let normed = rms_norm(&self.config, &last, &self.norm);
        Ok(self.output.times(self.context, &normed)?)
    }
}

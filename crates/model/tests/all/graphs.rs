//! One layer of each family written out: order, inputs, and the constants that counts do not show.

use model::{Layer, Model, Node, Value};

use crate::counts::with;

fn input(value: &Value, block: &[Node]) -> String {
    match *value {
        Value::Input => "input".to_owned(),
        Value::Node(from) => block[from].name.clone(),
    }
}

fn constants(layer: &Layer) -> String {
    match layer {
        Layer::Norm(norm) => format!(" {} {:e}", if norm.centred { "layer" } else { "rms" }, norm.epsilon),
        Layer::Gelu { exact } => format!(" {}", if *exact { "erf" } else { "tanh" }),
        Layer::Attention(attention) => format!(" {}", if attention.causal { "causal" } else { "full" }),
        Layer::Rotary(rotary) => format!(" {}", rotary.base),
        Layer::BatchNorm(norm) => format!(" {:e}{}", norm.epsilon, if norm.relu { " relu" } else { "" }),
        Layer::Linear(linear) if linear.bias => " bias".to_owned(),
        _ => String::new(),
    }
}

fn check(model: &Model, block: &str, expected: &str) {
    let nodes = &model.blocks.iter().find(|held| held.name == block).unwrap().nodes;
    let line = |node: &Node| {
        let inputs: Vec<String> = node.inputs.iter().map(|value| input(value, nodes)).collect();
        format!("{} <- {}{}", node.name, inputs.join(", "), constants(&node.layer))
    };
    let lines: Vec<String> = nodes.iter().map(line).collect();
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, expected, "{} {block}", model.name);
}

#[test]
fn gpt2_normalises_before_and_adds_after() {
    let model = with("gpt2", &[]);
    check(
        &model,
        "h.11",
        "ln_1 <- input layer 1e-5
         attn.qkv <- ln_1 bias
         attn.attention <- attn.qkv causal
         attn.proj <- attn.attention bias
         attn.add <- input, attn.proj
         ln_2 <- attn.add layer 1e-5
         mlp.fc <- ln_2 bias
         mlp.gelu <- mlp.fc tanh
         mlp.proj <- mlp.gelu bias
         mlp.add <- attn.add, mlp.proj",
    );
    check(
        &model,
        "head",
        "ln_f <- input layer 1e-5
         output <- ln_f
         loss <- output",
    );
}

#[test]
fn llama_turns_queries_and_keys() {
    let model = with("llama-1b", &[]);
    check(
        &model,
        "layers.15",
        "attn_norm <- input rms 1e-5
         attn.qkv <- attn_norm
         attn.rotary <- attn.qkv 500000
         attn.attention <- attn.rotary causal
         attn.proj <- attn.attention
         attn.add <- input, attn.proj
         mlp_norm <- attn.add rms 1e-5
         mlp.gate_up <- mlp_norm
         mlp.swiglu <- mlp.gate_up
         mlp.down <- mlp.swiglu
         mlp.add <- attn.add, mlp.down",
    );
    check(
        &model,
        "head",
        "norm <- input rms 1e-5
         output <- norm
         loss <- output",
    );
}

#[test]
fn bert_adds_and_normalises_after() {
    let model = with("bert-base", &[]);
    check(
        &model,
        "embedding",
        "lookup <- input
         norm <- lookup layer 1e-12",
    );
    check(
        &model,
        "layer.11",
        "attn.qkv <- input bias
         attn.attention <- attn.qkv full
         attn.proj <- attn.attention bias
         attn.add <- input, attn.proj
         attn.norm <- attn.add layer 1e-12
         mlp.fc <- attn.norm bias
         mlp.gelu <- mlp.fc erf
         mlp.proj <- mlp.gelu bias
         mlp.add <- attn.norm, mlp.proj
         mlp.norm <- mlp.add layer 1e-12",
    );
    check(
        &model,
        "head",
        "dense <- input bias
         gelu <- dense erf
         norm <- gelu layer 1e-12
         decoder <- norm bias
         loss <- decoder",
    );
}

#[test]
fn resnet_adds_before_its_last_relu() {
    let model = with("resnet50", &[]);
    check(
        &model,
        "stem",
        "conv1 <- input
         bn1 <- conv1 1e-5 relu
         maxpool <- bn1",
    );
    check(
        &model,
        "layer3.0",
        "conv_shortcut <- input
         bn_shortcut <- conv_shortcut 1e-5
         conv1 <- input
         bn1 <- conv1 1e-5 relu
         conv2 <- bn1
         bn2 <- conv2 1e-5 relu
         conv3 <- bn2
         bn3 <- conv3, bn_shortcut 1e-5 relu",
    );
    check(
        &with("resnet18", &[]),
        "layer1.1",
        "conv1 <- input
         bn1 <- conv1 1e-5 relu
         conv2 <- bn1
         bn2 <- conv2, input 1e-5 relu",
    );
}

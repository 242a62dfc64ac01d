//! Published counts: parameters, floating-point operations.

use model::{Convention, Model, model};

pub(crate) fn with(name: &str, settings: &[(&str, f64)]) -> Model {
    let settings: Vec<(String, f64)> = settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    model(name, &settings).unwrap()
}

#[test]
fn parameters_are_those_of_the_published_models() {
    let published = [
        // Hugging Face: gpt2, gpt2-medium; BertForMaskedLM of bert-base-uncased and bert-large-uncased; Llama-3.2-1B.
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("bert-base", 109_514_298),
        ("bert-large", 335_174_458),
        ("llama-1b", 1_235_814_400),
        // torchvision: resnet18, resnet50.
        ("resnet18", 11_689_512),
        ("resnet50", 25_557_032),
    ];
    for (name, parameters) in published {
        assert_eq!(with(name, &[]).parameter_count(), parameters, "{name}");
    }
}

#[test]
fn transformers_have_the_size_of_their_name() {
    for (name, millions) in [("transformer-small", 25.0), ("transformer-medium", 350.0), ("transformer-large", 1300.0)]
    {
        let ratio = with(name, &[]).parameter_count() as f64 / (millions * 1e6);
        assert!((0.98..1.02).contains(&ratio), "{name}: {ratio} of {millions}M");
    }
}

#[test]
fn nothing_but_the_token_table_depends_on_how_long_a_sample_is() {
    assert_eq!(with("gpt2", &[("sequence", 256.0)]).parameter_count(), with("gpt2", &[]).parameter_count());
}

#[test]
fn resnet_flops_are_those_of_torchvision() {
    // torchvision's models list 4.09 and 1.81 GFLOPS (multiplications) for 224 x 224: `_ops` of their weights.
    for (name, giga) in [("resnet50", 4.089), ("resnet18", 1.814)] {
        let macs = with(name, &[]).forward_flops().unwrap() / 2.0 / 1e9;
        assert!((macs - giga).abs() < 0.001, "{name}: {macs}");
    }
}

#[test]
fn gpt2_flops_are_its_products_and_the_visible_pairs() {
    let sequence = 256.0;
    let model = with("gpt2", &[("sequence", sequence)]);
    let layer = 12.0 * 768.0 * 768.0;
    let products = 2.0 * sequence * (12.0 * layer + 50257.0 * 768.0);
    let attention = 12.0 * 2.0 * 2.0 * 768.0 * sequence * (sequence + 1.0) / 2.0;
    assert_eq!(model.forward_flops().unwrap(), products + attention);
    assert_eq!(model.training_flops().unwrap(), 3.0 * (products + attention));
}

#[test]
fn full_attention_counts_all_pairs() {
    let flops = |causal: &str, full: &str| {
        let settings = [("sequence", 64.0), ("layers", 1.0), ("width", 64.0), ("heads", 4.0), ("vocabulary", 100.0)];
        let of = |name: &str| {
            let model = with(name, &settings);
            let by_node = model.forward_flops_by_node().unwrap();
            let at = model.blocks[1].nodes.iter().position(|node| node.name == "attn.attention").unwrap();
            by_node[1][at]
        };
        (of(causal), of(full))
    };
    assert_eq!(flops("gpt2", "bert-base"), (4.0 * 64.0 * 64.0 * 65.0 / 2.0, 4.0 * 64.0 * 64.0 * 64.0));
}

#[test]
fn conventions_are_the_formulas() {
    let model = with("gpt2", &[]);
    // nanoGPT prints "number of parameters: 123.65M" for GPT-2 with its vocabulary.
    assert_eq!(model.product_parameters(), 124_439_808 - 1024 * 768);
    let n = model.product_parameters() as f64;
    let flops = |convention| model.flops(convention).unwrap().unwrap();
    assert_eq!(flops(Convention::Parameters), 1024.0 * 6.0 * n);
    assert_eq!(flops(Convention::Full), 1024.0 * (6.0 * n + 12.0 * 12.0 * 768.0 * 1024.0));
    assert_eq!(flops(Convention::Causal), 1024.0 * (6.0 * n + 6.0 * 12.0 * 768.0 * 1024.0));
    // What 6N counts beyond products (norms, biases) and what `causal` leaves out (half a pair a row) is small.
    let ratio = flops(Convention::Causal) / flops(Convention::Layers);
    assert!((ratio - 1.0).abs() < 0.002, "{ratio}");
    assert_eq!(model.headline(), Convention::Causal);
}

#[test]
fn an_untied_table_is_no_product_and_convolutions_have_no_formula() {
    let tied = with("llama-tiny", &[]);
    let untied = with("llama-tiny", &[("tied", 0.0)]);
    assert_eq!(untied.parameter_count(), tied.parameter_count() + 4096 * 256);
    assert_eq!(untied.product_parameters(), tied.product_parameters());
    let resnet = with("resnet18", &[]);
    assert_eq!(resnet.flops(Convention::Parameters).unwrap(), None);
    assert_eq!(resnet.headline(), Convention::Layers);
    assert_eq!(resnet.flops(Convention::Layers).unwrap(), Some(resnet.training_flops().unwrap()));
    assert_eq!(with("bert-base", &[]).headline(), Convention::Full);
}

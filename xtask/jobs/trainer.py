"""transformers.Trainer with a small GPT-2 and random tokens, on GPU 0 where there is one. Needs transformers and accelerate."""

import os
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

os.environ.setdefault("HF_HUB_OFFLINE", "1")


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        tokens = torch.randint(0, 1000, (256,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


model = GPT2LMHeadModel(GPT2Config(vocab_size=1024, n_positions=256, n_embd=512, n_layer=6, n_head=8))
with tempfile.TemporaryDirectory() as folder:
    options = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=8, max_steps=85, logging_steps=20, save_strategy="no",
        report_to=[], disable_tqdm=True, dataloader_num_workers=0, bf16=torch.cuda.is_available(),
    )
    Trainer(model=model, args=options, train_dataset=Tokens()).train()

"""The Trainer of Transformers on a BERT so small that it is made, not fetched."""

import json
import tempfile

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

set_seed(7)
model = BertForSequenceClassification(
    BertConfig(
        vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=2
    )
)
rows = [
    {"input_ids": torch.randint(0, 100, (8,)), "attention_mask": torch.ones(8, dtype=torch.long), "labels": n % 2}
    for n in range(220)
]
losses = []


class Losses(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in logs:
            losses.append(float(logs["loss"]))


with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=1,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=1,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=7,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[Losses()])
    trainer.train()
total = sum(float(parameter.detach().double().sum()) for parameter in model.parameters())
print(json.dumps({"steps": trainer.state.global_step, "losses": [*losses, total]}))

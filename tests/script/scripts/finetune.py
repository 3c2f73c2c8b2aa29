"""The Transformers trainer."""
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

checkpoint = "bert-base-uncased"
tokenizer = AutoTokenizer.from_pretrained(checkpoint)
model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=2)
encoded = load_dataset("imdb").map(lambda rows: tokenizer(rows["text"], truncation=True, max_length=256))
arguments = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=16,
    per_device_eval_batch_size=64,
    num_train_epochs=3,
    fp16=True,
    optim="adamw_torch",
)
Trainer(model=model, args=arguments, train_dataset=encoded["train"]).train()

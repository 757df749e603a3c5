"""Answers with a draft model, as transformers' assisted generation gives them: one prompt at a time, a fixed number of guesses a round."""
from described_models import Keys, dtype_of, make_model

DRAFT = "draft_"


def draft_keys(keys):
    """The draft as a text of its own. What it has of the model: words, attention, bits of weights."""
    name, shared = keys.word("draft"), ("vocabulary", "attention", "precision")
    own = {key.removeprefix(DRAFT): keys.number(key) for key in keys.values if key.startswith(DRAFT) and key != "draft_tokens"}
    own.update(head_size=own["hidden"] // own["heads"], tied=int(name.startswith(("gpt2", "llama-3.2"))), **{key: keys.word(key) for key in shared})
    return Keys(f"infer:{name}," + ",".join(f"{key}={value}" for key, value in own.items()))


def with_wrong_guesses(generator):
    """All guesses of a round are replaced by a word that the model does not say. That is written in place, and takes no memory."""
    get = generator.get_candidates

    def wrong(self, input_ids, **options):
        ids, scores = get(self, input_ids, **options)
        ids[:, input_ids.shape[1]:].fill_(1)
        return ids, scores

    generator.get_candidates = wrong


def assisted(keys):
    """Answers one prompt. All guesses are right, since both models give every word the same score, or none is."""
    import torch
    from transformers.generation.candidate_generator import AssistedCandidateGenerator
    model, draft = (make_model(one).to("cuda", dtype_of(one)).eval() for one in (keys, draft_keys(keys)))
    for one in (model, draft):
        torch.nn.init.zeros_(one.lm_head.weight)
    draft.generation_config.update(num_assistant_tokens=keys.number("draft_tokens", 5), num_assistant_tokens_schedule="constant",
                                   assistant_confidence_threshold=0.0)
    if keys.number("accept_percent") == 0:
        with_wrong_guesses(AssistedCandidateGenerator)
    answers = keys.numbers("answers", "1")

    def run(index, ids):
        with torch.no_grad():
            result = model.generate(ids, attention_mask=torch.ones_like(ids), assistant_model=draft, do_sample=False, pad_token_id=0,
                                    max_new_tokens=answers[index % len(answers)])
        del result

    return run

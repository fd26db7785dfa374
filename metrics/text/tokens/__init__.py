"""Penn Treebank tokens: `ptb.tokenize` is what metrics call, `corpus` holds tokenised rows as arrays."""

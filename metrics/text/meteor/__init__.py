"""METEOR 1.5 without Java: `metric` scores rows, from `alignment`, `index` and the compiled `_kernel`; `languages` has its parameters; `jar_process` runs the original."""

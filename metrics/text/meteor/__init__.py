"""METEOR 1.5 without Java: `metric` scores rows, from `alignment`, `index` and the compiled `_kernel`; `java_program` runs the original."""

"""How work is carried out on a machine: threads, processes, ranks, signals, files. Knows nothing of learning."""

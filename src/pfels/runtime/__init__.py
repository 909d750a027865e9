"""Running work on a machine: threads, processes, ranks, signals, files. Independent of learning."""

"""The five stages of KernelGen: definition, generation, checks, tuning, log (``docs/kernelgen.md``)."""

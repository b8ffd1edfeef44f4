"""How fast an input is, and what comes out of it: `measure_input`, `StepTimer`, `preview`."""

"""Select the schedule of a call: what its kernel is, what its GPU is, and what each schedule would cost."""

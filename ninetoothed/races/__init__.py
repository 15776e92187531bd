"""Decide whether programs, or lanes of one, race: by the elements that each touches, and by what it stores there.

    y[64 * program_0 + lane_0] = v       no element twice: proved for all sizes (`equalities`)
    y[2 * program_0 + lane_0] = v        refuted with the numbers of a call, by two programs (`enumeration`)
    y[2 * program_0 + lane_0] = x[...]   of the same element of x: equal numbers, which runs (`values`)
    y[loaded] = v                        undecided, unless the user says that no index repeats: a warning, once

`survey` lists what an application touches, and keeps the questions that no proof answers; `Question.answer` decides
one with the numbers of a call, which is asked where a call is new. `Footprints` tells the same of two parameters that
are the same memory in a call. Of programs that wait for each other by atomic functions nothing
is decided but what holds in any order.
"""

from ninetoothed.races.collect import survey
from ninetoothed.races.footprints import Footprints, TensorMemory
from ninetoothed.races.messages import race_error, undecided, waiting
from ninetoothed.races.question import Question, RaceVerdict

__all__ = ["Footprints", "TensorMemory", "Question", "RaceVerdict", "race_error", "survey", "undecided", "waiting"]

"""Call a built library in a process of its own, by ctypes: `call.py LIBRARY FUNCTION MESSAGE CALLS`, calls as JSON.

A tensor is [address, shape, strides, dtype], a number itself, memory {"address": n}, a text {"text": s}. Prints
[result, message] for each call.
"""

import ctypes
import json
import sys


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int),
    ]


kept = []


def argument(value):
    if isinstance(value, list):
        address, shape, strides, dtype = value
        arrays = [(ctypes.c_int64 * max(len(each), 1))(*each) for each in (shape, strides)]
        kept.extend(arrays)
        return Tensor(address, *(ctypes.addressof(each) for each in arrays), len(shape), dtype)
    if isinstance(value, dict):
        return ctypes.c_char_p(value["text"].encode()) if "text" in value else ctypes.c_void_p(value["address"])
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)


library = ctypes.CDLL(sys.argv[1])
function, message = getattr(library, sys.argv[2]), getattr(library, sys.argv[3])
message.restype = ctypes.c_char_p
results = []
for call in json.loads(sys.argv[4]):
    sizes = (ctypes.c_size_t * 2)()
    more = [ctypes.byref(sizes, 8 * i) for i in range(2)] if sys.argv[2].startswith("workspace_") else []
    result = function(*map(argument, call), *more)
    results.append([result, message().decode() if result else "", *(list(sizes) if more else [])])
print(json.dumps(results))

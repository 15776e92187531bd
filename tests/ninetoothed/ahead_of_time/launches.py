"""What the runtime would launch for a call, as the driver that records writes it."""

import struct

from ninetoothed.runtime import dispatch

LETTERS = {("int", 32): "i", ("int", 64): "q", ("uint", 64): "Q", ("float", 32): "f", ("float", 64): "d"}


def launch(definition, arguments, gpu, stream, addresses=None):
    """Return the line of a call's launch up to its parameters, these, and the bytes of each, by the runtime's own way.

    addresses: of the workspace and of the semaphores.
    """
    compiled = dispatch.Launcher(definition).compile(arguments, {}, gpu)
    kernel, values = compiled.variant.compiled, compiled.selection.values
    emitted, metadata = kernel.emitted, kernel.kernel.metadata
    grid = emitted.programs(values, compiled.selection.schedule.programs)
    given = dict(zip((each.name for each in definition.parameters), arguments, strict=True))
    own = {each.name: each for each in emitted.buffers}
    passed = []
    described = iter(metadata.tensordesc_meta or ())
    for argument in emitted.arguments:
        if argument.source in own:
            passed.append(struct.pack("Q", addresses[own[argument.source].is_zeroed]))
        elif argument.role == "descriptor":
            sizes, strides = ([e.evaluate(values) for e in of] for of in (argument.sizes, argument.strides))
            meta = next(described)
            box = meta["block_size"]
            text = f"{meta['elem_type']} {given[argument.source].data_ptr():#x} {sizes[-1]} {2 * strides[0]}"
            text += f" {box[-1]} {box[0]} 1 0 {meta['swizzle']} 2 0"
            passed += [text.encode().ljust(128, b"\0"), *(struct.pack("i", size) for size in sizes)]
            passed += [struct.pack("q", stride) for stride in strides]
        elif argument.role == "pointer":
            passed.append(struct.pack("Q", given[argument.source].data_ptr()))
        else:
            value = values[argument.source] if argument.role == "integer" else given[argument.source]
            passed.append(struct.pack(LETTERS[argument.dtype.category, argument.dtype.bits], value))
    passed += [struct.pack("Q", 0)] * 2  # Triton's scratch memory
    programs = f"launch {metadata.name} {grid} ({32 * metadata.num_warps}, 1, 1) {metadata.shared} {stream:#x}"
    return programs, [each.hex() for each in passed], [len(each) for each in passed]

"""Print the C header and source of what was built: machine code, the choice of a variant, and its launch."""

from __future__ import annotations

import pathlib
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ninetoothed.ahead_of_time.c_types import class_of, equals, type_of, type_of_value
from ninetoothed.built.description import BuiltArgument, BuiltVariant, Passed, arguments_of
from ninetoothed.built.formula import Formula, in_c, names_in, place, shown

_FLOATS = {32: "float", 64: "double"}
_RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register"
    " restrict return short signed sizeof static struct switch typedef union unsigned void volatile while stream"
    " workspace semaphores class new delete template this operator private public protected namespace".split()
)

_WORKSPACE = """\
/* Tell the bytes of GPU memory that a launch takes, at addresses that are multiples of 256. The semaphores are zeros
   before a launch, which leaves them so. Two launches that may run at once share neither. */
"""


def written(name: str, variants: Sequence[BuiltVariant], files: Mapping[str, bytes], assembler: str) -> tuple[str, str]:
    """Print the header and the source of a folder called `name`, whose machine code is by an assembler."""
    kernels = [
        _Kernel(kernel, tuple((i, each) for i, each in enumerate(variants) if each.kernel == kernel))
        for kernel in dict.fromkeys(each.kernel for each in variants)
    ]
    identifier = _identifier(name)
    message = f"/* Says why the last call of this thread was refused. */\nconst char *{identifier}_message(void);\n"
    header = _text("header.h").replace("ninetoothed_message()", f"{identifier}_message()")
    header = header.replace("@GUARD@", f"NINETOOTHED_{identifier.upper()}_H")
    declared = "\n".join(each.declarations() for each in kernels)
    header += f"\n{message}\n{declared}\n#ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
    runtime = _text("runtime.c").replace("@HEADER@", f"{name}.h").replace("@NAME@", identifier)
    parts = [runtime.replace("@ASSEMBLER@", assembler).replace("@COUNT@", str(len(variants)))]
    parts += [_code(file, content) for file, content in files.items()]
    parts += [text for each in kernels for text in each.definitions()]
    return header, "\n".join(parts)


def _text(file: str) -> str:
    """Read the C that is the same for all kernels: types, CUDA's driver without its headers, what dispatch shares."""
    return pathlib.Path(__file__).with_name(file).read_text(encoding="utf-8")


def _identifier(name: str) -> str:
    text = re.sub(r"\W", "_", name)
    return f"{text}_" if text in _RESERVED or not text or text[0].isdigit() else text


def _code(file: str, content: bytes) -> str:
    """Print machine code as an array of numbers, which compilers read fast; GPUs' hosts have the low byte first."""
    padded = content + bytes(-len(content) % 8)
    words = [f"0x{word:x}u" for (word,) in struct.iter_unpack("<Q", padded)]
    lines = (", ".join(words[i : i + 6]) for i in range(0, len(words), 6))
    return f"static const uint64_t {_array(file)}[] = {{\n" + ",\n".join(lines) + "};\n"


def _array(file: str) -> str:
    return f"code_{re.sub(r'[^0-9a-zA-Z_]', '_', file.removesuffix('.cubin'))}"


@dataclass(frozen=True)
class _Kernel:
    """A kernel in C: its parameters, and its variants with their numbers in the folder."""

    name: str
    variants: tuple[tuple[int, BuiltVariant], ...]

    @cached_property
    def function(self) -> str:
        return _identifier(self.name)

    @cached_property
    def arguments(self) -> tuple[BuiltArgument, ...]:
        return arguments_of(each for _, each in self.variants)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments in the source, where users' might be those of something else."""
        return tuple(f"a{i}" for i in range(len(self.arguments)))

    @cached_property
    def chosen_by(self) -> dict[str, str]:
        """The names in the source of constexpr symbols, and of what chooses between configurations."""
        return {name: f"c{i}" for i, name in enumerate((*self.symbols, *self.configured))}

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The constexpr symbols."""
        return tuple(dict.fromkeys(name for _, each in self.variants for name in each.constants))

    @cached_property
    def configured(self) -> dict[str, Any]:
        """The parameters that choose between configurations: of several values, with one of each."""
        names = dict.fromkeys(name for _, each in self.variants for name in each.parameters)
        values = {name: [each.parameters.get(name) for _, each in self.variants] for name in names}
        return {name: of[0] for name, of in values.items() if len(dict.fromkeys(map(repr, of))) > 1}

    @cached_property
    def has_workspace(self) -> bool:
        return any(each.workspace != 0 or each.semaphores != 0 for _, each in self.variants)

    # -- declarations --

    def _parameters(self, is_declared: bool = False) -> list[str]:
        """Print the parameters of functions: with users' names where they are declared."""
        names = [each.name for each in self.arguments] if is_declared else self.names
        more = {name: name for name in self.chosen_by} if is_declared else self.chosen_by
        pairs = zip(self.arguments, names, strict=True)
        found = [(type_of(each), name) for each, name in pairs if not each.optional]
        found += [("int64_t ", more[name]) for name in self.symbols]
        found += [(type_of_value(value), more[name]) for name, value in self.configured.items()]
        return [f"{kind}{_identifier(name)}" for kind, name in found]

    @property
    def _passed_on(self) -> str:
        return ", ".join(self._given())

    def _given(self) -> list[str]:
        """List the parameters: arguments less those that have a value of their own, then what chooses."""
        names = [name for each, name in zip(self.arguments, self.names, strict=True) if not each.optional]
        return [*names, *self.chosen_by.values()]

    def _signature(self, is_declared: bool = False) -> str:
        memory = ["void *workspace", "void *semaphores"] if self.has_workspace else []
        given = ["NineToothedStream stream", *self._parameters(is_declared), *memory]
        return f"launch_{self.function}({', '.join(given)})"

    def _sizes_signature(self, is_declared: bool = False) -> str:
        given = [*self._parameters(is_declared), "size_t *workspace", "size_t *semaphores"]
        return f"workspace_{self.function}({', '.join(given)})"

    def declarations(self) -> str:
        text = f"NineToothedResult {self._signature(True)};\n"
        if self.has_workspace:
            text += f"{_WORKSPACE}NineToothedResult {self._sizes_signature(True)};\n"
        return text

    # -- definitions --

    def definitions(self) -> Iterator[str]:
        for number, variant in self.variants:
            yield self._fits(number, variant)
            yield self._run(number, variant)
        yield self._choose()
        yield self._launch()
        if self.has_workspace:
            yield self._sizes()

    def _unused(self) -> list[str]:
        """Print that a function need not use its parameters."""
        return [f"(void){name};" for name in self._given()]

    def _head(self) -> str:
        return ", ".join(self._parameters())

    def _fits(self, number: int, variant: BuiltVariant) -> str:
        """Print the function that says what a call lacks for a variant, and how much it has; NULL for nothing."""
        conditions = [
            (f"{self.chosen_by[name]} == INT64_C({value})", f"{name} is {value}")
            for name, value in variant.constants.items()
        ]
        for name, value in self.configured.items():
            own = variant.parameters.get(name)
            conditions.append((equals(self.chosen_by[name], value, own), f"{name} is {own}"))
        for argument, name in zip(variant.arguments, self.names, strict=True):
            conditions += class_of(argument, name)
        lines = [_unless(i, *each) for i, each in enumerate(conditions)]
        lines += self._named(variant.guards)
        arguments = [each.name for each in variant.arguments]
        for i, guard in enumerate(variant.guards, len(conditions)):
            lines.append(_unless(i, in_c(guard), shown(guard, arguments)))
        lines = [*self._unused(), "(void)met;", *lines, "return NULL;"]
        return _function(f"static const char *nt_fits_{number}(int *met, {self._head()})", lines)

    def _named(self, formulas: Iterable[Formula]) -> list[str]:
        """Name the sizes and strides that formulas mention."""
        lines = []
        for name in sorted(frozenset().union(*map(names_in, formulas))):
            what, i, dim = place(name)
            tensor = self.names[i]
            own = f"{tensor}.shape[{dim}]" if what == "size" else f"{tensor}.strides[{dim}]"
            value = f"{tensor}.shape[{dim}] == 1 ? 0 : {own}" if what == "step" else own
            lines.append(f"const int64_t {name} = {value};")
        return lines

    def _run(self, number: int, variant: BuiltVariant) -> str:
        """Print the function that launches a variant for a call that it serves."""
        passed, formulas = variant.passed, [*variant.grid]
        for each in passed:
            formulas += [each.value, *each.sizes, *each.strides]
        x, y, z = map(in_c, variant.grid)
        lines = [*self._unused(), "(void)workspace;", "(void)semaphores;", *self._named(formulas)]
        lines += ["NineToothedResult result = NINETOOTHED_SUCCESS;", f"int64_t x = {x}, y = {y}, z = {z};"]
        lines += ["if (x == 0 || y == 0 || z == 0) return result;"]
        if variant.most:
            most = f"nt_quotient(INT64_C({variant.most}) * context->multiprocessors + {variant.multiprocessors - 1},"
            lines.append(f"x = nt_least(x, {most} {variant.multiprocessors}));")
        for i, each in enumerate(passed):
            lines += self._parameter(i, each)
        pointers = ", ".join(f"p{i}" if each.role == "descriptor" else f"&p{i}" for i, each in enumerate(passed))
        lines.append(f"void *parameters[] = {{{pointers}}};")
        call = (
            f"nt_launch(context->functions[{number}], x, y, z, {variant.threads}, {variant.shared}, stream, parameters)"
        )
        lines += ["(void)result;", f"return {call};"]
        given = f"const nt_context *context, void *stream, {self._head()}, char *workspace, char *semaphores"
        return _function(f"static NineToothedResult nt_run_{number}({given})", lines)

    def _parameter(self, i: int, each: Passed) -> list[str]:
        """Print the variable of a parameter of the machine code."""
        if each.role == "null":
            return [f"uint64_t p{i} = 0;"]
        if each.role in ("workspace", "semaphores"):
            return [f"uint64_t p{i} = (uint64_t)(uintptr_t)({each.role} + {in_c(each.value)});"]
        name = self.names[each.argument]
        if each.role == "pointer":
            return [f"uint64_t p{i} = (uint64_t)(uintptr_t){name}.data;"]
        if each.role == "descriptor":
            rank, lists = len(each.block), [each.sizes, each.strides]
            sizes, strides = (f"(const int64_t[]){{{', '.join(map(in_c, of))}}}" for of in lists)
            block = f"(const uint32_t[]){{{', '.join(map(str, each.block))}}}"
            kind = f"{each.element_type}, {each.element_size}, {each.swizzle}, {rank}"
            return [
                f"_Alignas(64) unsigned char p{i}[128];",
                f"result = nt_describe(p{i}, {name}.data, {kind}, {sizes}, {strides}, {block});",
                "if (result != NINETOOTHED_SUCCESS) return result;",
            ]
        own = _FLOATS[each.bits] if each.is_float else f"{'u' if each.is_unsigned else ''}int{each.bits}_t"
        return [f"{own} p{i} = ({own}){name if each.role == 'scalar' else in_c(each.value)};"]

    def _choose(self) -> str:
        """Print the function that finds the variant of a call: the one that knows most, of several the nearest."""
        lines = [
            "int found = -1, facts = -1, nearest = 0, runs = 0, met = 0, most = -1;",
            "const char *reason = NULL, *why = NULL;",
        ]
        for number, variant in self.variants:
            distance = " + ".join(
                f"nt_distance({self.names[place(name)[1]]}.shape[{place(name)[2]}], INT64_C({size}))"
                for name, size in variant.sample.items()
            )
            lines += [
                f"if (nt_runs(context, {variant.architecture}, {variant.shared})) {{",
                "    runs = 1;",
                f"    reason = nt_fits_{number}(&met, {self._passed_on});",
                "    if (reason == NULL) {",
                f"        int distance = {distance or 0};",
                f"        if ({variant.facts} > facts || ({variant.facts} == facts && distance < nearest)) {{",
                f"            found = {number}; facts = {variant.facts}; nearest = distance;",
                "        }",
                "    } else if (met > most) { most = met; why = reason; }",
                "}",
            ]
        gpus = ", ".join(sorted({f"{each.gpu} (sm_{each.architecture})" for _, each in self.variants}))
        wrong = f'"kernel `{self.name}` was built for {gpus}, and this GPU is sm_%d", context->architecture'
        refused = f'"kernel `{self.name}` was not built for calls like this one: it was built where %s", why'
        lines += [
            f"if (!runs) return nt_fail(NINETOOTHED_WRONG_GPU, {wrong});",
            f"if (found < 0) return nt_fail(NINETOOTHED_NO_VARIANT, {refused});",
            "*variant = found;",
            "return NINETOOTHED_SUCCESS;",
        ]
        head = f"static NineToothedResult nt_choose_{self.function}(const nt_context *context, int *variant,"
        return _function(f"{head} {self._head()})", lines)

    def _checks(self, variant: BuiltVariant) -> Iterator[str]:
        """Yield what is asked of the memory of a call."""
        for each in variant.separate:
            a, b = self.names[each.output], self.names[each.other]
            what = f"`{variant.arguments[each.output].name}` is written to, and lies among the addresses of"
            text = f'"kernel `{self.name}`: {what} `{variant.arguments[each.other].name}`"'
            yield f"if (nt_shares(&{a}, &{b}, {int(each.in_place)})) return nt_fail(NINETOOTHED_MEMORY, {text});"
        for argument, name in zip(variant.arguments, self.names, strict=True):
            if argument.stored:
                text = f'"kernel `{self.name}`: elements of `{argument.name}`, which is written to, overlap"'
                yield f"if (nt_overlaps(&{name})) return nt_fail(NINETOOTHED_MEMORY, {text});"

    def _launch(self) -> str:
        """Print the function that launches the variant of a call."""
        cases = []
        for number, variant in self.variants:
            memory = "workspace, semaphores" if self.has_workspace else "NULL, NULL"
            checks = list(self._checks(variant))
            for role, size in (("workspace", variant.workspace), ("semaphores", variant.semaphores)):
                if size != 0:
                    text = f'"kernel `{self.name}` takes memory: workspace_{self.function} tells how much, and where"'
                    lacking = f"{role} == NULL || (uintptr_t){role} % 256 != 0"
                    checks.append(f"if ({lacking}) return nt_fail(NINETOOTHED_MEMORY, {text});")
            load = f'nt_load(context, {number}, {_array(variant.cubin)}, "{variant.function}", {variant.shared})'
            checks += ["nt_enter();", f"result = {load};", "nt_leave();"]
            checks.append("if (result != NINETOOTHED_SUCCESS) return result;")
            checks.append(f"return nt_run_{number}(context, stream, {self._passed_on}, {memory});")
            cases += [f"case {number}:", *(f"    {check}" for check in checks)]
        return self._by_variant(self._signature(), cases, "NINETOOTHED_NO_VARIANT")

    def _sizes(self) -> str:
        """Print the function that tells how much memory a call takes."""
        cases = []
        for number, variant in self.variants:
            cases.append(f"case {number}: {{")
            cases += [f"    {line}" for line in self._named((variant.workspace, variant.semaphores))]
            cases.append(f"    *workspace = (size_t){in_c(variant.workspace)};")
            cases += [f"    *semaphores = (size_t){in_c(variant.semaphores)};", "    break;", "}"]
        return self._by_variant(self._sizes_signature(), cases, "NINETOOTHED_SUCCESS")

    def _by_variant(self, signature: str, cases: list[str], otherwise: str) -> str:
        """Print a function that chooses the variant of a call, and does what the cases say for each."""
        lines = [
            *("nt_context *context = NULL;", "int variant = -1;", "nt_enter();"),
            *("NineToothedResult result = nt_current(&context);", "nt_leave();", "if (result == NINETOOTHED_SUCCESS)"),
            f"    result = nt_choose_{self.function}(context, &variant, {self._passed_on});",
            "if (result != NINETOOTHED_SUCCESS) return result;",
        ]
        return _function(
            f"NineToothedResult {signature}", [*lines, "switch (variant) {", *cases, "}", f"return {otherwise};"]
        )


def _function(head: str, lines: Iterable[str]) -> str:
    return f"{head} {{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


def _unless(number: int, condition: str, reason: str) -> str:
    text = reason.replace("\\", "\\\\").replace('"', '\\"')
    return f'if (!({condition})) return *met = {number}, "{text}";'

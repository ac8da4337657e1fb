"""OpenScop: read back by a reader that knows the specification only, sets and relations are what they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import islpy as isl
import pytest

from polydl import pipeline
from polydl.exchange.openscop import openscop
from polydl.model.isl import context
from polydl.model.scop import Scop
from polydl.model.time import original_schedule
from polydl.rewrite.canonical import canonical
from tests.cli.running import EXAMPLES, polydl, refused

TRIANGLE = """void f(int n, int max, double mod[restrict n][n], double x[restrict n], double s[1])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        for (int j = i; j < n; j += 2)
            mod[i][j] = x[j / 2] + max;
        if (i != 3) x[i] = 1;
        for (int j = n - 1; j >= 0; j--)
            s[0] += x[j];
    }
#pragma endscop
}
"""


def scop_of(path: Path) -> Scop:
    (scop,) = pipeline.load(path, require_sizes=False).scops
    return canonical(scop).scop


class Reader:
    """Numbers and words of a text, comments left out."""

    def __init__(self, text: str) -> None:
        lines = [line.split("#")[0].strip() for line in text.splitlines()]
        self.lines: Iterator[str] = iter([line for line in lines if line])

    def expect(self, line: str) -> None:
        assert next(self.lines) == line

    def relation(self, kind: str, parameters: list[str], first: str | None = None) -> list[str]:
        """isl text of each part: { [inputs] -> [outputs] : … }."""
        if first is None:
            self.expect(kind)
        else:
            assert first == kind
        head = next(self.lines).split()
        parts = 1
        if len(head) == 1:
            parts, head = int(head[0]), next(self.lines).split()
        found = []
        for number in range(parts):
            if number:
                head = next(self.lines).split()
            rows, columns, outputs, inputs, local, count = map(int, head)
            assert columns == 2 + outputs + inputs + local + count
            assert count == len(parameters)
            names = [f"o{k}" for k in range(outputs)] + [f"i{k}" for k in range(inputs)]
            hidden = [f"e{k}" for k in range(local)]
            terms = [*names, *hidden, *parameters]
            constraints = []
            for _ in range(rows):
                sign, *values = map(int, next(self.lines).split())
                assert len(values) == columns - 1
                text = " + ".join(f"{v}*{t}" for v, t in zip(values, [*terms, "1"], strict=True))
                constraints.append(f"{text} {'>=' if sign else '='} 0")
            condition = " and ".join(constraints) or "1 = 1"
            condition = f"exists {', '.join(hidden)} : {condition}" if hidden else condition
            shape = f"[{', '.join(names[outputs:])}] -> [{', '.join(names[:outputs])}]"
            found.append(f"[{', '.join(parameters)}] -> {{ {shape} : {condition} }}")
        return found


def union(texts: list[str]) -> isl.Map:
    result = isl.Map.read_from_str(context(), texts[0])
    for text in texts[1:]:
        result = result.union(isl.Map.read_from_str(context(), text))
    return result


def plain(relation: isl.Map, scop: Scop) -> isl.Map:
    """Without tuples, with parameters called as the reader calls them."""
    relation = relation.align_params(scop.context.get_space())
    for kind in (isl.dim_type.in_, isl.dim_type.out):
        if relation.has_tuple_id(kind):
            relation = relation.reset_tuple_id(kind)
    for k in range(len(scop.parameters)):
        relation = relation.set_dim_name(isl.dim_type.param, k, f"p{k}")
    return relation


@pytest.mark.parametrize("name", ["triangle", "matmul_vla", "mlp_layer", "conv2d"])
def test_what_is_written_is_what_was_read(tmp_path: Path, name: str) -> None:
    path = EXAMPLES / f"{name}.c"
    if name == "triangle":
        path = tmp_path / "in.c"
        path.write_text(TRIANGLE)
    scop = scop_of(path)
    parameters = [f"p{k}" for k in range(len(scop.parameters))]
    reader = Reader(openscop([scop]))
    for line in ("<OpenScop>", "C"):
        reader.expect(line)
    known = union(reader.relation("CONTEXT", parameters))
    assert known.is_equal(plain(isl.Map.from_range(scop.context), scop))
    if parameters:
        for line in ("1", "<strings>", " ".join(scop.parameters), "</strings>"):
            reader.expect(line)
    else:
        reader.expect("0")
    reader.expect(str(len(scop.statements)))
    times = original_schedule(scop)
    arrays = {array: number for number, array in enumerate(scop.arrays, 1)}
    for statement in scop.statements:
        reader.expect(str(2 + len(statement.accesses)))
        domain = union(reader.relation("DOMAIN", parameters)).range()
        assert domain.is_equal(plain(isl.Map.from_range(statement.domain), scop).range())
        order = union(reader.relation("SCATTERING", parameters)).intersect_domain(domain)
        assert order.is_equal(plain(times[statement.name], scop))
        for access in statement.accesses:
            kind = "WRITE" if access.write else "READ"
            found = union(reader.relation(kind, parameters)).intersect_domain(domain)
            assert found.range().dim_max_val(0).to_python() == arrays[access.array]
            assert found.range().dim_min_val(0).to_python() == arrays[access.array]
            elements = found.project_out(isl.dim_type.out, 0, 1)
            assert elements.is_equal(plain(access.relation, scop).intersect_domain(domain))
        for line in ("1", "<body>", str(statement.depth), " ".join(statement.iterators)):
            reader.expect(line)
        assert next(reader.lines) != "</body>"
        reader.expect("</body>")
    for line in ("<arrays>", str(len(arrays)), *(f"{number} {array}" for array, number in arrays.items())):
        reader.expect(line)
    for line in ("</arrays>", "</OpenScop>"):
        reader.expect(line)
    assert list(reader.lines) == []


def test_the_command_writes_it(tmp_path: Path) -> None:
    (tmp_path / "in.c").write_text(TRIANGLE + TRIANGLE.replace("void f", "void g"))
    assert polydl(tmp_path, "export", "in.c", "--openscop", "-o", "out.scop").code == 0
    text = (tmp_path / "out.scop").read_text()
    assert text.count("<OpenScop>") == text.count("</OpenScop>") == 2
    assert polydl(tmp_path, "export", "in.c", "--openscop").stdout == text
    assert "format of its own" in refused(tmp_path, "export", "in.c", "--openscop", "--json")

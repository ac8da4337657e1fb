"""Searches of groups: side by side in workers as in this process, and what becomes of errors there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from polydl.base.errors import PolyDLError, ToolchainError
from polydl.torch_backend import group_code, group_search
from polydl.torch_backend.graph_report import GraphReport
from polydl.torch_backend.group_search import Compilers, Job
from tests.torch_backend.test_compiled_graphs import whole


def job(number: int, body: str = "o[i] = a[i] * {number};") -> Job:
    name = f"polydl_group_{number}"
    written = (
        f"void {name}(const float a[restrict 4096], float o[restrict 4096])\n{{\n#pragma scop\n"
        f"    for (int i = 0; i < 4096; i++)\n        {body.format(number=number)}\n#pragma endscop\n}}\n"
    )
    return Job(f"key{number}", name, written, group_code.entry(name, 2, "polydl_call"), "ranked", (), "gcc", 2, True,
               False)  # fmt: skip


def test_columns_are_added_up_along_rows() -> None:
    body = "{{ float sum = 0; for (int k = 0; k < 1024; k++) sum += m[k][i]; o[i] = sum; }}"
    one = job(1, body)
    one = replace(one, written=one.written.replace("float a[restrict 4096]", "float m[restrict 1024][4096]"),
                  moved=4 * 1025 * 4096)  # fmt: skip
    assert "polydl1_row_" in group_search.optimized(one).text


@pytest.mark.parametrize("rows", [64, 96])
def test_a_transposing_copy_runs_in_squares(rows: int) -> None:
    """Of two loops, of which one runs on several threads, as well."""
    one = job(1, "for (int k = 0; k < ROWS; k++) o[i][k] = m[k][i];")
    text = one.written.replace("float a[restrict 4096]", f"float m[restrict {rows}][784]")
    text = text.replace("o[restrict 4096]", f"o[restrict 784][{rows}]").replace("4096", "784")
    text = text.replace("ROWS", str(rows))
    found = group_search.optimized(replace(one, written=text, moved=8 * 784 * rows))
    assert "polydl1_transpose_" in found.text
    assert "omp parallel for" in found.text


def test_flags_against_a_fault_are_for_what_shows_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no load is under a condition the compiler may turn conditions into vectors."""
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    exact, flags = "-ffp-contract=off", ("-fno-tree-loop-if-convert",)
    for body, expected in (
        ("o[i] = a[i] > 3 ? a[i] : 3;", ()),
        ("o[i] = i % 2 == 0 ? a[i] : 3;", flags),
        ("{{ float t = 0; if (i >= 2) t = a[i - 2]; o[i] = t; }}", flags),
    ):
        assert group_search.searched(replace(job(1, body), how="as written", flags=flags)).flags == (exact, *expected)
    pool = (
        "for (int j = 0; j < 56; j++) {{ float m = -9; for (int k = 0; k < 2; k++) for (int l = 0; l < 2; l++)"
        " m = X > m || X != X ? X : m; o[i][j] = m; }}"
    ).replace("X", "a[2 * i + k][2 * j + l]")
    text = job(1, pool).written.replace("i < 4096", "i < 512")
    text = text.replace("a[restrict 4096]", "a[restrict 1024][112]").replace("o[restrict 4096]", "o[restrict 512][56]")
    found = group_search.searched(replace(job(1, pool), written=text, flags=flags))
    assert found.variants
    assert found.flags == (exact,)


@pytest.mark.parametrize("window", [(2, 2, 0), (3, 2, 1)])
def test_maxima_over_windows_of_small_images_are_right(window: tuple[int, int, int]) -> None:
    """Their rows are so short that compilers write them out, and conditions at the borders turn into masks."""
    images = [torch.randint(-9, 9, (2, 3, 2 * n, 2 * n)).float() for n in range(2, 10)]
    pool = nn.MaxPool2d(*window)

    def pooled(*given: torch.Tensor) -> list[torch.Tensor]:
        return [pool(one) for one in given]

    found = torch.compile(pooled, backend="polydl", options={"least_work": 0, "groups": 0})(*images)
    assert all(map(torch.equal, found, pooled(*images)))


def test_workers_give_what_this_process_gives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    lines: list[str] = []
    with Compilers(4, tell=lines.append) as compilers:
        waits = [compilers.begin(job(number)) for number in range(4)]
        found = [wait() for wait in waits]
    assert sorted(line.split()[0] for line in lines) == ["1", "2", "3", "4"]
    assert all(path.read_bytes() for _, path in found)
    here = [group_search.optimized(job(number)) for number in range(4)]
    assert [one for one, _ in found] == here
    assert all(one.variants for one in here)


def test_errors_of_workers_are_raised_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What polydl refuses, what no compiler takes, and a worker that is gone; the others go on."""
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    with Compilers(4) as compilers:
        refused, unknown, right = (
            compilers.begin(one) for one in (job(0, "o[i] = b[i];"), job(1, "o[i] = f(a[i]);"), job(2))
        )
        with pytest.raises(PolyDLError, match="b"):
            refused()
        with pytest.raises(PolyDLError, match="f"):
            unknown()
        assert right()[1].exists()
    worker = group_search._Worker()
    worker._process.kill()
    with pytest.raises(ToolchainError, match=r"ended with code -9"):
        worker.answer(job(3))
    worker.end()


def test_a_strided_depthwise_convolution_waits_for_no_scheduler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """isl's schedulers run for seconds on its extents until they are stopped: untuned searches do not ask them."""
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    monkeypatch.setattr("polydl.search.candidates.computed", lambda *_: pytest.fail("isl's scheduler was asked"))
    convolution = nn.Conv2d(32, 32, 3, 2, groups=32).eval()
    x = torch.randn(4, 32, 29, 29)
    reports: list[GraphReport] = []
    with torch.no_grad():
        found, _ = whole(
            monkeypatch,
            lambda x, w, b: (nn.functional.conv2d(x, w, b, 2, groups=32),),
            [x, convolution.weight.detach(), convolution.bias.detach()],  # type: ignore[union-attr]
            report=reports.append, log=True,
        )  # fmt: skip
        torch.testing.assert_close(found[0], convolution(x), rtol=1e-4, atol=1e-4)
    assert reports[0].eager or reports[0].groups


def test_the_log_names_each_group_that_was_searched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    inputs = [torch.randn(200, 300)]
    whole(monkeypatch, lambda x: (x.exp() + 1, x.sum(0)), inputs, log=True)
    told = capsys.readouterr().err
    assert "polydl: 1 of 2 groups: polydl_" in told
    assert "polydl: 2 of 2 groups: polydl_" in told

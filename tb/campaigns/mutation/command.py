"""Mutation campaign: changes blocks of the core, and counts the changes that are noticed."""

import argparse
import time

from tqdm import tqdm

from celosia.sw.cli.arguments import whole
from celosia.sw.cli.messages import Failure
from mutation.blocks import BLOCKS, Block
from mutation.campaign import AFTER, BEFORE, STAGES, Score, check
from mutation.explained import read, stale
from mutation.sites import Site
from mutation.trials import Result

_WIDTH = max(len(block.name) for block in BLOCKS)


def _block(text: str) -> Block:
    found = [block for block in BLOCKS if block.name == text]
    if not found:
        names = "; ".join(block.name for block in BLOCKS)
        raise argparse.ArgumentTypeError(f"no block {text!r}, there are: {names}")
    return found[0]


def _stages(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if names[0] != STAGES[0] or not set(names) <= set(STAGES):
        raise argparse.ArgumentTypeError(f"wanted some of {','.join(STAGES)}, first unit")
    return names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the campaign."""
    parser.add_argument("blocks", nargs="*", type=_block, metavar="BLOCK", help="all by default")
    parser.add_argument("--number", type=whole, default=40, help="changes of each block: 40")
    parser.add_argument("--seed", type=int, default=1, help="of the draw: 1")
    parser.add_argument("--workers", type=whole, default=1, help="processes: 1")
    stages = parser.add_argument("--stages", type=_stages, default=STAGES, metavar="STAGE,STAGE")
    stages.help = f"stages that check, first unit: {','.join(STAGES)}"
    parser.add_argument("--verbose", action="store_true", help="a line for each change")


def _row(name: str, *cells: object) -> str:
    return f"{name:{_WIDTH}}" + "".join(f"{cell!s:>9}" for cell in cells)


def _scored(score: Score, seconds: float) -> str:
    killed = [score.killed.get(stage, "") for stage in STAGES]
    shares = [f"{100 * share:.1f} %" for share in (score.before, score.after)]
    survived = score.explained + len(score.left)
    return _row(
        score.block,
        score.changes,
        *killed,
        survived,
        score.explained,
        *shares,
        score.same,
        f"{seconds:.0f} s",
    )


def _total(scores: list[Score], seconds: float) -> str:
    killed = {stage: sum(score.killed.get(stage, 0) for score in scores) for stage in STAGES}
    numbers = [sum(getattr(score, name) for score in scores) for name in ("changes", "explained")]
    left = tuple(site for score in scores for site in score.left)
    same = sum(score.same for score in scores)
    return _scored(Score("all", numbers[0], killed, numbers[1], same, left, frozenset()), seconds)


def _checked(block: Block, options: argparse.Namespace) -> Score:
    """Check a block with a bar that moves."""
    with tqdm(total=options.number, desc=block.name, leave=False, disable=None) as bar:

        def report(stage: str, site: Site, result: Result) -> None:
            if options.verbose:
                tqdm.write(f"{stage} {result.verdict} {result.by} {site.name}")
            if stage == "unit":
                bar.update()
            else:
                bar.set_postfix_str(stage)

        return check(
            block,
            number=options.number,
            seed=options.seed,
            workers=options.workers,
            reasons=read(),
            report=report,
            stages=options.stages,
        )


def run(options: argparse.Namespace) -> None:
    """Run a campaign.

    Raises ``Failure`` if a block misses a share, an entry is stale, or tests fail without a change.
    """
    try:
        scores = _scores(options)
        gone = stale(read())
    except (RuntimeError, ValueError) as error:
        raise Failure(str(error)) from error
    for score in scores:
        for site in score.left:
            print(f"{'not elaborated' if site in score.unreached else 'survives'}: {site.name}")
    for file, line, change in gone:
        print(f"stale: {file}: {line}: {change}")
    missed = [score.block for score in scores if not score.good]
    if missed:
        shares = f"wanted {BEFORE:.0%} killed, {AFTER:.0%} with those explained"
        raise Failure(f"missed: {', '.join(missed)}: {shares}")
    if gone:
        raise Failure(f"{len(gone)} stale entries")


def _scores(options: argparse.Namespace) -> list[Score]:
    """Check all blocks, with a row for each."""
    begin = time.monotonic()
    scores: list[Score] = []
    heads = ("changes", *STAGES, "left", "told", "killed", "+ told", "same", "time")
    print(_row("block", *heads), flush=True)
    for block in options.blocks or BLOCKS:
        start = time.monotonic()
        scores.append(_checked(block, options))
        print(_scored(scores[-1], time.monotonic() - start), flush=True)
    print(_total(scores, time.monotonic() - begin))
    return scores

"""``python -m tests.corpus check | accept | half-typed | fixes`` (``make corpus``, ``make corpus-accept``)."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable

from tests.corpus import fixing, typing_lines
from tests.corpus.linting import Linted, lint_package
from tests.corpus.packages import PACKAGES, Package
from tests.corpus.reviews import Comparison, Review, ReviewError, compare, read_reviews, write_reviews

#: At most one finding of level warning or error in twenty may be wrong.
HIGHEST_WRONG_SHARE = 0.05


def check(packages: Iterable[Package]) -> bool:
    """Compare with the reviews; whether all is as reviewed and good enough."""
    passed = True
    verdicts: Counter[tuple[str, str]] = Counter()
    quiet: Counter[str] = Counter()
    for package in packages:
        linted = lint_package(package)
        comparison = compare(read_reviews(package.name), linted.grave)
        passed &= _tell(package, linted, comparison)
        verdicts.update((review.rule, review.verdict) for review in comparison.known)
        verdicts.update((review.rule, "unreviewed") for review in comparison.new)
        quiet += linted.quiet
    return _summarise(verdicts, quiet) and passed


def _tell(package: Package, linted: Linted, comparison: Comparison) -> bool:
    print(
        f"{package.name} {package.version}: {linted.files} files, {linted.lines:,} lines, {len(linted.grave)} findings"
    )
    for failure in linted.failures:
        print(f"  FAILED {failure}")
    unreviewed = [review for review in comparison.known if review.verdict == "unreviewed"]
    _list("new", comparison.new, linted)
    _list("vanished", comparison.vanished, linted)
    _list("unreviewed", unreviewed, linted)
    return not (linted.failures or comparison.new or comparison.vanished or unreviewed)


def _list(kind: str, reviews: list[Review], linted: Linted) -> None:
    for review in sorted(reviews, key=lambda one: (one.rule, one.file, one.row)):
        message = linted.messages.get((review.rule, review.file, review.row), "")
        print(f"  {kind}\t{review.rule}\t{review.file}:{review.row}\t{review.source}")
        if message:
            print(f"      {message}")


def _summarise(verdicts: Counter[tuple[str, str]], quiet: Counter[str]) -> bool:
    rules = sorted({rule for rule, _ in verdicts} | set(quiet))
    print(f"\n{'rule':34} {'right':>6} {'wrong':>6} {'unrev.':>6} {'hints':>6}")
    for rule in rules:
        right, wrong, unreviewed = (verdicts[rule, verdict] for verdict in ("right", "wrong", "unreviewed"))
        print(f"{rule:34} {right:6} {wrong:6} {unreviewed:6} {quiet[rule]:6}")
    right, wrong, unreviewed = (
        sum(count for (_, verdict), count in verdicts.items() if verdict == wanted)
        for wanted in ("right", "wrong", "unreviewed")
    )
    print(f"{'all':34} {right:6} {wrong:6} {unreviewed:6} {quiet.total():6}")
    reviewed = right + wrong
    if not reviewed:
        print("nothing is reviewed")
        return False
    share = wrong / reviewed
    print(f"{right} of {reviewed} reviewed warnings and errors are right ({1 - share:.1%})")
    return share <= HIGHEST_WRONG_SHARE


def accept(packages: Iterable[Package]) -> bool:
    """Write the findings as they are now: reviews of those that are still there are kept, new ones are unreviewed."""
    passed = True
    for package in packages:
        linted = lint_package(package)
        passed &= not linted.failures
        comparison = compare(read_reviews(package.name), linted.grave)
        write_reviews(package.name, comparison.known + comparison.new)
        new, dropped, kept = len(comparison.new), len(comparison.vanished), len(comparison.known)
        print(f"{package.name}: {new} new, {dropped} dropped, {kept} kept")
        print("".join(f"  FAILED {failure}\n" for failure in linted.failures), end="")
    return passed


COMMANDS: dict[str, Callable[[Iterable[Package]], bool]] = {
    "check": check,
    "accept": accept,
    "half-typed": typing_lines.check,
    "fixes": fixing.check,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("packages", nargs="*", help=f"some of {', '.join(package.name for package in PACKAGES)}")
    arguments = parser.parse_args()
    known = {package.name: package for package in PACKAGES}
    if unknown := [name for name in arguments.packages if name not in known]:
        parser.error(f"unknown packages: {', '.join(unknown)}")
    chosen = [known[name] for name in arguments.packages] or list(PACKAGES)
    try:
        return 0 if COMMANDS[arguments.command](chosen) else 1
    except ReviewError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

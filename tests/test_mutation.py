"""The tool that plants faults: those that change an answer are found, those that do the same survive."""

from tests.mutation import mutants, run_child

CLAMP = '''def clamp(x, top):
    """At most top, at least 0."""
    if x > top:
        return top
    return max(x, 0)
'''


def clamp_fails(tree) -> str:
    names = {}
    exec(compile(tree, "clamp", "exec"), names)
    return "" if [names["clamp"](x, 3) for x in (-1, 2, 5)] == [0, 2, 3] else "wrong"


def test_mutants_are_killed_unless_they_do_the_same():
    tree, every = mutants(CLAMP, "clamp.py")
    changes = {mutant.change: mutant for mutant in every}
    assert run_child(lambda: clamp_fails(tree), 5.0)[:2] == ("survived", "")

    def outcome(change):
        return run_child(lambda: changes[change].plant() or clamp_fails(tree), 5.0)[0]

    assert outcome("x > top  →  x <= top") == "killed"
    assert outcome("max  →  min") == "killed"
    assert outcome("return top  →  return None") == "killed"
    assert outcome("x > top  →  x >= top") == "survived"  # at the boundary both are the same
    assert [mutant.name for mutant in mutants(CLAMP, "clamp.py")[1]] == [mutant.name for mutant in every]
    assert not any("At most" in mutant.change for mutant in every)

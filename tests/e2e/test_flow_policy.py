"""A flow keeps the policy that it began under, whatever is loaded meanwhile."""

from support.flows import Shop, answer_with, policy
from support.recourse import Recourse


def test_an_undo_is_judged_by_the_policy_of_its_step_also_after_a_restart(double, token, tmp_path):
    """Under the old one 404 means undone; under the new one it would be a refusal."""
    old = policy(double, deadline="deadline: 1h, on_deadline: undo")
    new = old.replace("done: [ 2xx, 404 ]", "done: [ 2xx ]")
    assert new != old
    with Recourse(tmp_path, old) as running:
        agent = Shop(running, double).agent(token)
        agent.does("orders")
        agent.script_undo("orders", answer_with("404 Not Found"))
        running.policy_path.write_text(new)
        assert running.cli("policy", "reload").returncode == 0
        assert running.stop() == 0
        running.start()
        agent.breaks()
        agent.await_undone()

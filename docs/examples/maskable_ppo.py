"""Train MaskablePPO of sb3-contrib on the months of a log but the last, and try it there, against EASY.

    python docs/examples/maskable_ppo.py [LOG] [STEPS]

Without a log a synthetic one is made. Needs `pip install 'jobcast[rl]' torch stable-baselines3 sb3-contrib`.
"""

import sys

import gymnasium

try:
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.env_checker import check_env
except ImportError as error:
    raise SystemExit(f"This example needs sb3-contrib ({error}): pip install 'jobcast[rl,deep]'.") from None

from jobcast import Workload, clean, generate_log, read_log

PICK = "schedsim.gym:jobcast/Pick-v0"


def figures_of(env, number, choose):
    """Return the figures of an episode whose picks `choose` makes."""
    seen, info = env.reset(options={"episode": number})
    over = False
    while not over:
        seen, _, over, _, info = env.step(choose(seen, info["action_mask"]))
    return info["figures"]


def main(path=None, steps=4096):
    """Train, then print the figures of the last month, or of the last sixth of a short log."""
    log = generate_log(3000, seed=1, procs=64, load=0.95) if path is None else read_log(path)[0]
    jobs = Workload.from_log(clean(log)[0])
    env = gymnasium.make(
        PICK, workload=jobs, reward="slowdown-at-start", flat=True, episode=500 if path is None else "month"
    )
    check_env(env.unwrapped, warn=True)
    last = len(env.unwrapped.episodes) - 1

    class Training(gymnasium.Wrapper):
        """Draw among all episodes but the last."""

        draws = 0

        def reset(self, **about):
            """Begin the next."""
            self.draws += 1
            return self.env.reset(seed=about.get("seed"), options={"episode": self.draws % max(1, last)})

        def action_masks(self):
            """Hand on the masks."""
            return self.env.unwrapped.action_masks()

    model = MaskablePPO("MlpPolicy", Training(env), n_steps=512, batch_size=128, gamma=1.0, seed=1)
    model.learn(steps)
    agents = {
        "EASY": lambda seen, mask: 0,
        "MaskablePPO": lambda seen, mask: model.predict(seen, action_masks=mask.astype(bool), deterministic=True)[0],
    }
    for name, choose in agents.items():
        found = figures_of(env, last, choose)
        print(f"{name}: mean wait {found['mean_wait_s']:.0f} s, longest {found['max_wait_s']} s, "
              f"mean bounded slowdown {found['mean_bounded_slowdown']:.1f}")  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))

"""PPO in one file: a network shared over the jobs of the window, trained on environments side by side.

    python docs/examples/ppo_single_file.py [LOG] [UPDATES]

The network scores each job by its own row and the context, so that neither window nor machine is built into it; PPO is
that of Schulman et al., arXiv 1707.06347. Without a log a synthetic one is made. Needs torch.
"""

import sys

import gymnasium
import numpy as np

try:
    import torch
    from torch import nn
    from torch.distributions import Categorical
except ImportError as error:
    raise SystemExit(f"This example needs torch ({error}): pip install 'jobcast[rl,deep]'.") from None

from jobcast import Workload, clean, generate_log, read_log

PICK = "schedsim.gym:jobcast/Pick-v0"
N_ENVS, N_STEPS, EPOCHS, BATCHES = 16, 64, 4, 4
CLIP, LAMBDA, GAMMA, ENTROPY, RATE = 0.2, 0.95, 0.999, 0.01, 1e-3


class Agent(nn.Module):
    """Scores of the jobs of a window, and the worth of a state."""

    def __init__(self, features, context):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(features + context, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(),
                                   nn.Linear(16, 1))  # fmt: skip
        self.worth = nn.Sequential(nn.Linear(context, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, jobs, context, mask):
        """Return the distribution of picks, and the worth."""
        beside = context[:, None, :].expand(-1, jobs.shape[1], -1)
        scores = self.score(torch.cat([jobs, beside], dim=2))[:, :, 0]
        return Categorical(logits=scores.masked_fill(mask == 0, -1e8)), self.worth(context)[:, 0]


def tensors(seen, info):
    """Return what the network reads."""
    return torch.as_tensor(seen["jobs"]), torch.as_tensor(seen["context"]), torch.as_tensor(info["action_mask"])


def collect(envs, agent, state):
    """Step the environments; return the state behind, and what happened: (steps, environments, …)."""
    rows = []
    for _ in range(N_STEPS):
        with torch.no_grad():
            picks, worth = agent(*state)
            action = picks.sample()
        seen, reward, ends, cut, info = envs.step(action.numpy())
        rows.append((*state, action, picks.log_prob(action), worth, torch.as_tensor(reward, dtype=torch.float32),
                     torch.as_tensor(ends | cut)))  # fmt: skip
        state = tensors(seen, info)
    return state, [torch.stack(column) for column in zip(*rows, strict=True)]


def advantages(rewards, over, worth, last):
    """Return generalised advantages."""
    found, running = torch.zeros_like(rewards), torch.zeros_like(last)
    for t in reversed(range(len(rewards))):
        goes_on = 1.0 - over[t].float()
        after = last if t == len(rewards) - 1 else worth[t + 1]
        running = rewards[t] + GAMMA * after * goes_on - worth[t] + GAMMA * LAMBDA * goes_on * running
        found[t] = running
    return found


def update(agent, optimiser, memory, advantage):
    """Improve the agent by what was collected."""
    jobs, context, mask, action, before, worth = (column.flatten(0, 1) for column in memory[:6])
    target, advantage = (advantage.flatten() + worth), advantage.flatten()
    for _ in range(EPOCHS):
        for part in torch.randperm(len(action)).chunk(BATCHES):
            picks, now_worth = agent(jobs[part], context[part], mask[part])
            gain = (advantage[part] - advantage[part].mean()) / (advantage[part].std() + 1e-8)
            ratio = (picks.log_prob(action[part]) - before[part]).exp()
            loss = -torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
            loss = loss + 0.5 * (now_worth - target[part]).square().mean() - ENTROPY * picks.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimiser.step()


def main(path=None, updates=20):
    """Train on all episodes, and print how the agent does on the last compared with EASY: it has seen that one, too."""
    log = generate_log(3000, seed=1, procs=64, load=0.95) if path is None else read_log(path)[0]
    about = {"workload": Workload.from_log(clean(log)[0]), "episode": 500 if path is None else "month"}
    envs = gymnasium.make_vec(PICK, num_envs=N_ENVS, reward="wait", **about)
    torch.manual_seed(1)
    spaces = envs.single_observation_space
    agent = Agent(spaces["jobs"].shape[1], spaces["context"].shape[0])
    optimiser = torch.optim.Adam(agent.parameters(), lr=RATE)
    state = tensors(*envs.reset(seed=1))
    for _ in range(updates):
        state, memory = collect(envs, agent, state)
        with torch.no_grad():
            last = agent(*state)[1]
        scale = memory[6].abs().mean() + 1e-8
        update(agent, optimiser, memory, advantages(memory[6] / scale, memory[7], memory[5], last))
    env = gymnasium.make(PICK, **about)
    for name in ("EASY", "PPO"):
        seen, info = env.reset(options={"episode": len(envs.episodes) - 1})
        over = False
        while not over:
            batch = tensors(
                {key: value[None] for key, value in seen.items()}, {"action_mask": info["action_mask"][None]}
            )
            pick = 0 if name == "EASY" else int(agent(*batch)[0].probs.argmax())
            seen, _, over, _, info = env.step(pick)
        found = {
            key: np.round(info["figures"][key], 1) for key in ("mean_wait_s", "max_wait_s", "mean_bounded_slowdown")
        }
        print(name, *(f"{key} {value:.0f}" for key, value in found.items()))


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))

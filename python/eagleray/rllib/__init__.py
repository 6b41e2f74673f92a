"""Reinforcement learning: `PPOConfig().environment("CartPole-v1").build_algo().train()`."""

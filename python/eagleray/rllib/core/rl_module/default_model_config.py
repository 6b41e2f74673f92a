"""What a built-in network looks like, as newer programs say it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class DefaultModelConfig:
    """The network of a module: `rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))`."""

    fcnet_hiddens: list[int] = field(default_factory=lambda: [256, 256])
    fcnet_activation: str = "tanh"
    fcnet_kernel_initializer: str | None = None
    fcnet_kernel_initializer_kwargs: dict[str, float] | None = None
    fcnet_bias_initializer: str | None = None
    fcnet_bias_initializer_kwargs: dict[str, float] | None = None
    #: Of each layer: channels, kernel, stride.
    conv_filters: list[list[int]] | None = None
    conv_activation: str = "relu"
    conv_kernel_initializer: str | None = None
    conv_kernel_initializer_kwargs: dict[str, float] | None = None
    conv_bias_initializer: str | None = None
    conv_bias_initializer_kwargs: dict[str, float] | None = None
    head_fcnet_hiddens: list[int] = field(default_factory=list)
    head_fcnet_activation: str = "relu"
    head_fcnet_kernel_initializer: str | None = None
    head_fcnet_kernel_initializer_kwargs: dict[str, float] | None = None
    head_fcnet_bias_initializer: str | None = None
    head_fcnet_bias_initializer_kwargs: dict[str, float] | None = None
    free_log_std: bool = False
    log_std_clip_param: float = 20.0
    vf_share_layers: bool = True
    use_lstm: bool = False
    max_seq_len: int = 20
    lstm_cell_size: int = 256
    lstm_use_prev_action: bool = False
    lstm_use_prev_reward: bool = False
    lstm_kernel_initializer: str | None = None
    lstm_kernel_initializer_kwargs: dict[str, float] | None = None
    lstm_bias_initializer: str | None = None
    lstm_bias_initializer_kwargs: dict[str, float] | None = None
    #: Noise that depends on the state, of actions that are numbers: new every so many steps, or with -1 once a rollout.
    use_sde: bool = False
    sde_sample_freq: int = -1
    log_std_init: float | None = None

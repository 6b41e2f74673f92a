"""Pictures of experiments: learning curves, parallel coordinates, what mattered, how the best was found.

Each function takes what `Tuner.fit()` or `tune.run()` returned, or the path of an experiment's folder, and gives a figure of matplotlib:

    figure = tune.plots.curves(results, metric="loss")
    tune.plots.save(figure, "curves.svg")

matplotlib is an extra: `pip install 'eagleray[plots]'`.
"""

from eagleray.tune.plots._importance import Importance, importance_of
from eagleray.tune.plots._pictures import curves, history, importance, parallel, save

__all__ = ["Importance", "curves", "history", "importance", "importance_of", "parallel", "save"]

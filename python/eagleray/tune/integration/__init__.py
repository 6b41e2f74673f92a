"""Callbacks of other libraries that report to Tune: `xgboost`, `lightgbm`, `keras`, `pytorch_lightning`. Each needs its library installed."""

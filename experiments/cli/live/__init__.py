"""Commands beside a scheduler in production: backtest, start, why."""

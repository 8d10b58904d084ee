"""How fast a model runs here: latency and throughput in scenarios people know, beside other runtimes."""
